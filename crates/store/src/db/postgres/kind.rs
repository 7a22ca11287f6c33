//! The kinds of transactions: what each begins with, and how long it may take.
//!
//! The server bounds each wait for a lock and each statement, and answers when it has given up. This program waits a little
//! longer than that for an answer; when there is none, the connection leads nowhere.

use std::sync::LazyLock;
use std::time::Duration;

/// How long what finds and waits for nothing may take: a connection's beginning of a transaction, or a rollback.
pub(super) const PROMPT: Duration = Duration::from_secs(5);
/// How long a commit may take, which waits for the server's disk and for its replicas, with the statements that are sent with it.
pub(super) const COMMIT: Duration = Duration::from_secs(10);
/// How long a transaction waits for another's lock.
pub(super) const LOCK: Duration = Duration::from_secs(5);
/// How long the server lets a transaction lie whose program says nothing more, because it is frozen or out of reach.
const SILENCE: Duration = Duration::from_secs(60);
/// What an answer may take beyond the server's own limit.
const ON_THE_WAY: Duration = Duration::from_secs(2);

/// Who chooses the plans of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Planner {
    /// The server, each time anew: a plan that it kept would outlive the size of the tables that it was made for.
    Server,
    /// The statements were each made for an index: see [`index_plans`].
    Indexes,
}

/// Keeps plans with their indexes. A planner that believes a table is small, or that an array is, would read all of it or
/// hash it instead, and would be right only until the table grows. A bitmap would give rows in another order than that of their keys,
/// in which transactions take their locks.
macro_rules! index_plans {
    ($set:literal) => {
        concat!(
            $set,
            " enable_seqscan = off; ",
            $set,
            " enable_bitmapscan = off; ",
            $set,
            " enable_hashjoin = off; ",
            $set,
            " enable_mergejoin = off; ",
            $set,
            " jit = off; ",
            $set,
            " plan_cache_mode = force_generic_plan"
        )
    };
}

/// Index plans for a whole session, for measurements.
pub(crate) const INDEX_PLANS_OF_SESSION: &str = index_plans!("SET");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) access: Access,
    pub(super) planner: Planner,
}

impl Kind {
    /// How long the server may take over one statement. What the server plans by itself are counts and reports over whole
    /// tables, which only people ask for.
    pub(super) fn statement(self) -> Duration {
        match self.planner {
            Planner::Indexes => Duration::from_secs(8),
            Planner::Server => Duration::from_secs(300),
        }
    }

    /// How long this program waits for the answer to one statement.
    pub(super) fn answer(self) -> Duration {
        self.statement() + ON_THE_WAY
    }

    /// How long all of it may take, with waiting for a connection and with further tries.
    pub(super) fn whole(self) -> Duration {
        match self.planner {
            Planner::Indexes => Duration::from_secs(120),
            Planner::Server => Duration::from_secs(900),
        }
    }

    /// What it begins with: one message, and so one answer to wait for.
    pub(super) fn begin(self) -> &'static str {
        static WRITE: LazyLock<String> = LazyLock::new(|| begin(Access::Write, Planner::Indexes));
        static PLANNED_WRITE: LazyLock<String> = LazyLock::new(|| begin(Access::Write, Planner::Server));
        static READ: LazyLock<String> = LazyLock::new(|| begin(Access::Read, Planner::Indexes));
        static PLANNED_READ: LazyLock<String> = LazyLock::new(|| begin(Access::Read, Planner::Server));
        match (self.access, self.planner) {
            (Access::Write, Planner::Indexes) => &WRITE,
            (Access::Write, Planner::Server) => &PLANNED_WRITE,
            (Access::Read, Planner::Indexes) => &READ,
            (Access::Read, Planner::Server) => &PLANNED_READ,
        }
    }
}

fn begin(access: Access, planner: Planner) -> String {
    let mode = match access {
        Access::Read => " ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        Access::Write => "",
    };
    let plans = match planner {
        Planner::Server => "",
        Planner::Indexes => concat!("; ", index_plans!("SET LOCAL")),
    };
    let statement = Kind { name: "", access, planner }.statement().as_millis();
    let (lock, silence) = (LOCK.as_millis(), SILENCE.as_millis());
    format!(
        "START TRANSACTION{mode}; SET LOCAL lock_timeout = {lock}; SET LOCAL statement_timeout = {statement}; \
         SET LOCAL idle_in_transaction_session_timeout = {silence}{plans}"
    )
}
