//! One conformance suite for the store, run on every database it knows.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]
#![expect(clippy::print_stdout, reason = "a measurement prints what it found")]

mod access;
mod agreement;
mod audit;
mod backlog;
mod breaker;
mod bundles;
mod claim_customers;
mod claim_lanes;
mod claim_limits;
mod commits;
mod contention;
mod counted;
mod deadlocks;
mod due;
mod ends;
mod enqueue;
mod gauges;
mod groups;
mod holds;
mod jobs;
mod keys;
mod lease;
mod metrics;
mod model;
mod notifications;
mod outside;
mod paging;
mod partitions;
mod plans;
mod processes;
mod property;
mod pruning;
mod queue;
mod races;
mod raw;
mod reprocess;
mod retries;
mod search_plans;
mod stanzas;
mod steps;
mod support;
mod tampering;
mod text;
mod verdicts;
mod views;

use redrive_fixture::on_both_databases;
