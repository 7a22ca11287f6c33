//! What the control plane names, in the words of the command line: its fields are flags here, its actions commands.

use redrive_control::Error as Control;
use redrive_control::explain::{Action, Explanation};

use super::filter::in_flags;
use crate::error::Error;

/// An error of the control plane, with flags and commands where it names fields and actions.
pub fn of(error: Control) -> Error {
    match error {
        Control::NeedsDates => Error::Usage("a backfill needs --since and --until, or --logical-date".to_owned()),
        Control::NeedsSource => Error::Usage("a backfill needs --source".to_owned()),
        Control::NoneConfigured { field, of, section } => {
            let flag = flag(field);
            Error::Usage(format!("give {flag}: the configuration of source {of} names no {section}"))
        }
        Control::NoOperation(op_id) => {
            Error::NothingFound(format!("there is no operation {op_id}; `redrive state audit list` shows them"))
        }
        Control::NeedsRuns => {
            Error::Usage("name runs by their ids, or by a filter such as --category or --group".to_owned())
        }
        Control::NotThroughRuns => Error::Usage(
            "attempts at partitions are not changed as runs; `redrive state retry` retries the partition".to_owned(),
        ),
        Control::NoGroup(id) => Error::NothingFound(format!(
            "there is no failure group {id}; `redrive state groups` and `redrive runs groups` list them"
        )),
        Control::NoGroupId(error) => {
            Error::Usage(format!("--group: {error}; `redrive state groups` and `redrive runs groups` list the groups"))
        }
        error @ Control::SeveralGroups { .. } => Error::Usage(format!("--group: {error}")),
        Control::NotByGroup => Error::Usage(
            "a backfill wants days, failed or not; leave --group out, or use `redrive state retry --group`".to_owned(),
        ),
        error @ (Control::NoPlan(_) | Control::StillRunning(_) | Control::Applied { .. }) => error.into(),
        Control::Filter(error) => in_flags(&error),
        error @ (Control::Store(_) | Control::Raw(_) | Control::Plan(_)) => error.into(),
    }
}

/// The flag that gives a field.
fn flag(field: &str) -> String {
    format!("--{}", field.replace('_', "-"))
}

/// Why a partition is not running, with the command that changes it.
pub fn because(explanation: &Explanation) -> String {
    let command = match explanation.action {
        None => return explanation.because.clone(),
        Some(Action::Resume) => "`state resume` lets it go on",
        Some(Action::Retry) => "`state retry` tries it now",
        Some(Action::RetryClearingTerminal) => "`state retry --clear-terminal` grants one attempt, `--grant N` more",
        Some(Action::RetryStale) => "`state retry --stale` puts it back",
        Some(Action::Reprocess) => "`state reprocess` asks for another run",
        Some(Action::Pause) => "`state pause` holds it",
        Some(Action::StartWorker) => "start `redrive worker`",
        Some(Action::StartDaemon) => "start `redrive daemon`",
        Some(Action::Configure) => "give it an extract section in redrive.toml, and reload the workers with SIGHUP",
        Some(Action::Backfill) => "`state backfill enqueue` wants it all the same",
        Some(Action::LiftHold) => "`state hold lift` lets it go on",
    };
    format!("{}; {command}", explanation.because)
}
