//! The only function that moves a partition: what the control plane asks for, and what the data plane reports.

mod control;
mod data;

use super::event::{Change, Event};
use super::state::Partition;
use crate::refusal::{Reason, Refused};
use crate::time::Timestamp;

/// The only function that moves a partition.
pub fn apply(partition: &Partition, event: Event<'_>, now: Timestamp) -> Result<Change, Refused> {
    let mut after = partition.clone();
    match event {
        Event::Control(event) => control::apply(partition, event, now, &mut after)?,
        Event::Data(event) => data::apply(partition, event, now, &mut after)?,
    }
    after.state.version = partition.state.version.saturating_add(1);
    Ok(Change { expect_version: partition.state.version, had_control: !partition.control.is_empty(), after })
}

fn refuse_in_flight(partition: &Partition) -> Result<(), Refused> {
    match partition.control.active {
        Some(_) => Err(Refused::Rule(Reason::InFlight)),
        None => Ok(()),
    }
}

fn refuse_paused(partition: &Partition) -> Result<(), Refused> {
    match partition.control.paused {
        Some(_) => Err(Refused::NoOp(Reason::Paused)),
        None => Ok(()),
    }
}
