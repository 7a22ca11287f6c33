//! Workers at work, as processes: killed, frozen, told to stop, and what is true afterwards.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]
#![expect(clippy::print_stdout, reason = "a random test prints its seed")]

mod breaker;
mod busy;
mod clock_steps;
mod demo;
mod draining;
mod file_gone;
mod freezing;
#[path = "../cli/home.rs"]
#[expect(dead_code, reason = "the other test binary uses more of it")]
mod home;
#[path = "../cli/http.rs"]
mod http;
mod ingest;
mod ingest_memory;
mod jobs;
mod killing;
mod memory;
#[expect(dead_code, reason = "the campaign uses more of it")]
mod random;
mod rate_limit;
mod reloading;
mod rig;
mod s3_hangs;
mod serve;
mod service_manager;
mod sink_gone;
mod stopping;
#[expect(dead_code, reason = "the campaign uses more of it")]
mod system;
mod telemetry;
mod unanswered;
mod unusable;
