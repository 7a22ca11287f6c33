//! What lasts: the database, SQLite or PostgreSQL behind one type, and the raw sink.
//!
//! [`Store`] gives each plane its own handle: [`ControlStore`] can requeue and withhold, [`DataStore`] can claim and
//! record, [`View`] can look. Rules are not here: every change is decided by `redrive_core` and written under a guard.

mod access;
mod audit;
mod blocking;
mod bulk;
mod changes;
pub mod clock;
mod clock_row;
mod current;
mod db;
mod error;
mod gauges;
mod groups;
mod handles;
mod holds;
mod hurry;
mod idempotency;
mod ids;
mod integrity;
mod memory;
mod metrics;
mod migrate;
mod notifications;
mod overview;
mod partitions;
mod processes;
mod queues;
pub mod raw;
mod runs;
mod series;
mod sink_row;
mod source_ranges;
mod stanzas;
pub mod statements;
pub mod trust;
mod uploads;
mod url;

pub use access::{Access, NewToken, Session, Token};
pub use audit::{AuditedChange, Head, NotAHead, Operation, PastOperation, Subject, Verified};
pub use bulk::{
    BulkItem, BulkOperation, BulkState, CancelOutcome, ItemOutcome, KeptPlan, NewBulkOperation, Progress, SettledItem,
};
pub use changes::{Changed, Changes};
pub use clock_row::ClockJump;
pub use current::{CurrentPages, CurrentRun, CurrentRuns, NotReadable, manifest_contradiction};
pub use db::{Listen, Options, Schema, Wakeups};
pub use error::{Error, Result};
pub use gauges::{GaugeQuery, SourceGauges};
pub use groups::Description;
pub use handles::{ControlStore, DataStore, Open, Store, Verdicts, View};
pub use holds::{Cooldown, HoldChange};
pub use hurry::Hurry;
pub use idempotency::{KeyFound, KeyHold, KeyedRequest, answering, under_key, under_same_key};
pub use integrity::{Depth, Integrity};
pub use memory::{MemoryBudget, MemoryShare};
pub use metrics::RunMetrics;
pub use migrate::SUPPORTED as SCHEMA_VERSION;
pub use notifications::{
    Delivery, DeliveryState, EpisodeStep, Notification, OpenEpisode, Outbox, OutboxDepth, RetriedGroups,
};
pub use overview::{BOUND, OverviewQuery, RunCounts, SourceCounts};
pub use partitions::{
    AttemptLimits, Backlog, ClaimedPartition, Committed, Decided, DueBand, DueQuery, GroupQuery, InFlightOf, Outcome,
    Page, PartitionClaim, PartitionGroup, QuerySpan, Queued, RejectedBand, Rotation, TileCell, TileQuery, TileRow,
};
pub use processes::OutsideCall;
pub use queues::QueueState;
pub use runs::{
    ClaimedRun, DecidedRuns, Heartbeat, HeartbeatAnswer, HeldByWorker, InFlightLimit, JudgedAttempt, NewRun,
    OutsideBeat, OutsideClaim, OutsideReport, PastFailure, PastIncident, Prunable, Pruning, Recorded, ReportOutcome,
    RunChangeOutcome, RunClaim, RunGroup, RunPage, Running, Submitted, Terms,
};
pub use stanzas::{
    BATCH_ROWS, FileFacts, FileFault, FilePage, FileRow, Hit, Match, PARSER, ParsedBatch, Search, SettingRow,
    StanzaPage, StanzaPlace, StanzaRow, StanzasAdded, words_of,
};
pub use uploads::{StoredBytes, Upload};
pub use url::{StoreUrl, redacted};
