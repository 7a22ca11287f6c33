//! What scripts rely on: the JSON that the command line prints and the HTTP API serves. Fields are in the documented order.

mod attempt;
mod bulk;
mod extent;
mod group;
mod hold;
mod keyed;
mod metrics;
mod notification;
mod operation;
mod partition;
mod report;
mod run;
mod run_event;
mod status;
mod token;
mod upload;

pub use attempt::AttemptShape;
pub use bulk::{BulkItemShape, BulkOperationShape, PlanShape};
pub use extent::Extent;
pub use group::{GroupShape, RunGroupShape};
pub use hold::HoldShape;
pub(crate) use keyed::SubjectRef;
pub use metrics::{FailureShape, RetryStatsShape, RunMetricsShape};
pub use notification::{DeliveryShape, NotificationShape};
pub use operation::{ChangeShape, OperationShape, StandShape, SubjectShape, VerifiedShape};
pub use partition::{MarkShape, PartitionShape, TerminalShape};
pub use report::{Changed, Failed, Halt, Report, Skipped, Words};
pub use run::{RunShape, SubmittedShape};
pub use run_event::{RunEvent, RunEventShape};
pub use status::{
    Bounded, FailedShape, OverviewShape, PendingShape, ProcessShape, RunCountsShape, SectionShape, SourceShape,
    StatusShape, TodoShape, WaitingJobs,
};
pub use token::{CreatedTokenShape, TokenShape};
pub use upload::{
    DifferenceKind, DifferenceShape, EffectiveEntry, EffectiveShape, FindingShape, HitShape, StanzaShape,
    UploadRunShape, UploadShape,
};
