//! A partition's life: its state, what the control plane keeps beside it, and the only function that moves them.
//!
//! Control-plane events can make a partition wanted or withheld; they never touch `current_run_id`, `record_count` or
//! `attempt_count`. Data-plane events claim, release and judge; none of them leads from failed to pending.

mod apply;
mod event;
mod state;

pub use apply::apply;
pub use event::{Change, ControlEvent, DataEvent, Event, Judgement};
pub use state::{
    Control, ControlSnapshot, InFlight, Mark, Partition, PartitionState, Reprocess, Status, Terminal, Wanted, terminal,
};
