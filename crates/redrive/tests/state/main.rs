//! `redrive state` and `redrive daemon` as operators meet them: the real program, on both databases.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]
#![expect(clippy::print_stdout, reason = "a measurement prints what it found")]

mod audit;
mod backfill;
mod change_runs;
mod crowd;
mod daemon;
mod explain;
mod formats;
mod groups;
mod hold;
#[path = "../cli/home.rs"]
#[expect(dead_code, reason = "the other test binary uses more of it")]
mod home;
#[path = "../cli/http.rs"]
mod http;
mod inspect;
mod interruption;
mod jobs;
mod listings;
mod marks;
mod million;
mod night;
mod nothing;
mod plans;
mod prompts;
mod retry;
mod runs;
mod signals;
mod sink_down;
mod snapshots;
mod status;
mod submit;
mod world;
