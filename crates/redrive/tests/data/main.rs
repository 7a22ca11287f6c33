//! What lies in the raw sink, as consumers read it and as the doctor checks it: the real program, on both databases.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]

mod cat;
mod clean;
mod damage;
#[path = "../cli/home.rs"]
#[expect(dead_code, reason = "the other test binary uses more of it")]
mod home;
#[path = "../cli/http.rs"]
mod http;
mod ls;
mod s3;
mod scene;
mod served;
#[path = "../state/world.rs"]
#[expect(dead_code, reason = "the other test binary uses more of it")]
mod world;
