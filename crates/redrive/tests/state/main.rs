//! `redrive state` and `redrive daemon` as operators meet them: the real program, on both databases.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]

mod audit;
mod backfill;
mod cooldown;
mod crowd;
mod daemon;
mod explain;
mod formats;
mod groups;
#[path = "../cli/home.rs"]
#[expect(dead_code, reason = "the other test binary uses more of it")]
mod home;
mod inspect;
mod interruption;
mod marks;
mod plans;
mod prompts;
mod retry;
mod runs;
mod signals;
mod sink_down;
mod snapshots;
mod world;
