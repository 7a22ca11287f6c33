//! Why a partition is not running now: one word of a closed list, which the command line, the API and the pages share.

use crate::hold::{Cause, Probing, Trip};
use crate::key::LogicalDate;
use crate::outlook::Outlook;
use crate::retry::StopReason;
use crate::word::words;

words!(
    /// Why a partition is not running now.
    Reason, "reason" {
        /// Its data is there, and nobody asked for it again.
        Done = "done",
        InFlight = "in_flight",
        /// Its worker fell silent; another worker ends the attempt.
        LeaseExpired = "lease_expired",
        Queued = "queued",
        /// No living worker serves its source.
        NoWorker = "no_worker",
        /// Its source has as many attempts in flight as it may have.
        AtLimit = "at_limit",
        CoolingDown = "cooling_down",
        /// A person holds its source, customer or query.
        Held = "held",
        BreakerOpen = "breaker_open",
        /// No worker can extract its source.
        SourceUnusable = "source_unusable",
        Paused = "paused",
        /// Backoff, or the source's own hint.
        Waiting = "waiting",
        /// The daemon's next tick takes it.
        Due = "due",
        /// It is due, and no daemon lives.
        NoDaemon = "no_daemon",
        FinalError = "final_error",
        /// Marked by a person, or past its policy.
        Terminal = "terminal",
        /// Its wait would end after the policy's last day.
        TooOld = "too_old",
        /// Pending, and withdrawn from the queue.
        NotQueued = "not_queued",
        /// A success that was asked for again, and waits for a worker.
        ReprocessQueued = "reprocess_queued",
        UnknownSource = "unknown_source",
        /// No calendar expects it.
        NotExpected = "not_expected",
        /// A calendar expects it later.
        NotReady = "not_ready",
        /// A calendar expects it; the daemon's next tick wants it.
        Expected = "expected",
    }
);

/// Whether a worker could take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// A living worker extracts its source.
    Served,
    /// None does; this configuration says how it could be.
    NoWorker,
    /// None does, and this configuration has no way to extract it.
    NoExtract,
    /// None does, and this configuration does not know the source.
    Unknown,
}

/// What is known beside the partition's own outlook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circumstances {
    pub service: Service,
    pub has_daemon: bool,
    /// The lease of the attempt under way has run out.
    pub lease_expired: bool,
    pub at_limit: bool,
    /// It is a success that was asked for again.
    pub reprocess: bool,
}

/// The reason for a partition that is there.
pub fn of(outlook: &Outlook, circumstances: &Circumstances) -> Reason {
    match outlook {
        Outlook::Done => Reason::Done,
        Outlook::InFlight { .. } if circumstances.lease_expired => Reason::LeaseExpired,
        Outlook::InFlight { .. } => Reason::InFlight,
        Outlook::Paused(_) => Reason::Paused,
        Outlook::Marked(_) | Outlook::Exhausted(StopReason::AttemptsExhausted | StopReason::TooOld) => Reason::Terminal,
        Outlook::Exhausted(StopReason::FinalError) | Outlook::FinalError => Reason::FinalError,
        Outlook::TooOldByThen { .. } => Reason::TooOld,
        Outlook::NotQueued => Reason::NotQueued,
        Outlook::Held(hold) => match hold.cause {
            Cause::Cooldown => Reason::CoolingDown,
            Cause::Operator => Reason::Held,
            Cause::Breaker(Probing { trip: Trip::Unusable, .. }) => Reason::SourceUnusable,
            Cause::Breaker(Probing { trip: Trip::Finals | Trip::Group(_), .. }) => Reason::BreakerOpen,
        },
        Outlook::Waiting { .. } => Reason::Waiting,
        Outlook::Due { .. } if circumstances.has_daemon => Reason::Due,
        Outlook::Due { .. } => Reason::NoDaemon,
        Outlook::Queued { .. } => queued(circumstances),
    }
}

fn queued(circumstances: &Circumstances) -> Reason {
    match circumstances.service {
        Service::Unknown => Reason::UnknownSource,
        Service::NoExtract => Reason::SourceUnusable,
        Service::NoWorker => Reason::NoWorker,
        Service::Served if circumstances.at_limit => Reason::AtLimit,
        Service::Served if circumstances.reprocess => Reason::ReprocessQueued,
        Service::Served => Reason::Queued,
    }
}

/// What a configuration's calendar says of a day that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// Neither this configuration nor a living process knows the source.
    UnknownSource,
    /// The source is known, and has no calendar here.
    NoCalendar,
    UnknownCustomer,
    UnknownQuery,
    BeforeStart(LogicalDate),
    /// The latest day that is ready; none is yet where there is none.
    NotReady(Option<LogicalDate>),
    Expected,
}

impl Absence {
    pub fn reason(self) -> Reason {
        match self {
            Self::UnknownSource => Reason::UnknownSource,
            Self::NoCalendar | Self::UnknownCustomer | Self::UnknownQuery | Self::BeforeStart(_) => Reason::NotExpected,
            Self::NotReady(_) => Reason::NotReady,
            Self::Expected => Reason::Expected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::Lane;
    use crate::time::Timestamp;
    use std::time::Duration;

    const FINE: Circumstances = Circumstances {
        service: Service::Served,
        has_daemon: true,
        lease_expired: false,
        at_limit: false,
        reprocess: false,
    };

    #[test]
    fn what_is_queued_names_what_stands_first_in_its_way() {
        let queued = Outlook::Queued { lane: Lane::Fresh, since: Timestamp::MIN };
        assert_eq!(of(&queued, &FINE), Reason::Queued);
        assert_eq!(of(&queued, &Circumstances { reprocess: true, ..FINE }), Reason::ReprocessQueued);
        let full = Circumstances { at_limit: true, reprocess: true, ..FINE };
        assert_eq!(of(&queued, &full), Reason::AtLimit);
        for (service, reason) in [
            (Service::NoWorker, Reason::NoWorker),
            (Service::NoExtract, Reason::SourceUnusable),
            (Service::Unknown, Reason::UnknownSource),
        ] {
            assert_eq!(of(&queued, &Circumstances { service, ..full }), reason, "a limit does not matter then");
        }
    }

    #[test]
    fn what_is_due_needs_a_daemon() {
        let due = Outlook::Due { since: Timestamp::MIN, delay: Duration::ZERO };
        assert_eq!(of(&due, &FINE), Reason::Due);
        assert_eq!(of(&due, &Circumstances { has_daemon: false, ..FINE }), Reason::NoDaemon);
    }
}
