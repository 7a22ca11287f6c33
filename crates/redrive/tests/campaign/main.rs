//! The campaign of faults: workers on all three workloads, disturbed in every way that was ever seen to hurt, and a checker that
//! reads the database by SQL and the sink by bytes. No function of the program has a part in what the checker says.
//!
//! `./chaos [SEED]` runs the whole of it and prints the table.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]
#![expect(clippy::print_stdout, reason = "a campaign prints its seed and its table")]

mod check;
mod faults;
#[path = "../cli/home.rs"]
#[expect(dead_code, reason = "other test binaries use more of it")]
mod home;
mod plan;
mod program_starts;
#[path = "../work/random.rs"]
mod random;
#[path = "../work/rig.rs"]
#[expect(dead_code, reason = "other test binaries use more of it")]
mod rig;
#[path = "../work/system.rs"]
#[expect(dead_code, reason = "other test binaries use more of it")]
mod system;
mod table;
mod tamper;
mod workloads;
mod world;
