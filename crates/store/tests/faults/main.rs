//! What the store promises when things go wrong: many processes at once, a full or read-only disk, a server that goes
//! away, files and databases that are not what they should be.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests; what is skipped is said")]

mod child;
mod collation;
mod failover;
mod full_disk;
mod group_commit;
mod migrations;
mod opening;
mod pooler;
mod processes;
mod read_only;
mod server_lost;
mod support;
mod time;
mod tls;
mod unanswered;
mod wakeups;
mod workers;
