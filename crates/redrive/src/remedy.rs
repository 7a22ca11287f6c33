//! What a person can do, as a command to type: the planes name the action, and here it gets its words.

use redrive_control::Error as Control;
use redrive_control::status::Remedy;
use redrive_core::notice::NoticeAction;
use redrive_data::Error as Data;
use redrive_store::Error as Store;
use redrive_store::raw::Error as Raw;

use crate::error::Error;
use crate::shell;

/// What a person can do about a notice, as the end of a sentence.
pub fn of_notice(action: &NoticeAction) -> String {
    match action {
        NoticeAction::RetryPartitions(group) => format!("`redrive state retry --group {group}` asks for it"),
        NoticeAction::RetryRuns(group) => format!("`redrive runs retry --group {group}` asks for it"),
        NoticeAction::LiftHolds(source) => {
            let command = shell::command(["state", "hold", "lift", "--source", source.as_str()]);
            format!("`{command}` lifts it now")
        }
        NoticeAction::Undo(op_id) => format!("`redrive state undo {op_id}` takes back what it did"),
    }
}

/// An error, with the command that helps where it names what to do.
pub fn in_words(error: &Error) -> String {
    match of_error(error) {
        Some(command) => format!("{error} (`{command}`)"),
        None => error.to_string(),
    }
}

fn of_error(error: &Error) -> Option<&'static str> {
    if let Error::Store(error) | Error::Control(Control::Store(error)) = error
        && let Store::NoDatabase { .. } | Store::OlderSchema { .. } = error
    {
        return Some("redrive migrate");
    }
    if let Error::Raw(error) | Error::Control(Control::Raw(error)) | Error::Data(Data::Raw(error)) = error
        && let Raw::NoSink { .. } | Raw::OtherSink { .. } = error
    {
        return Some("redrive init --adopt-sink");
    }
    None
}

/// The command that meets a need.
pub fn of_need(remedy: &Remedy) -> String {
    match remedy {
        Remedy::StartWorker(None) => "redrive worker".to_owned(),
        Remedy::StartWorker(Some(workload)) => format!("redrive worker --workload {workload}"),
        Remedy::StartDaemon => "redrive daemon".to_owned(),
        Remedy::StartServer => "redrive serve".to_owned(),
        Remedy::Diagnose => "redrive doctor".to_owned(),
        Remedy::LiftHold { source, customer } => {
            let customer = customer.iter().flat_map(|customer| ["--customer-id", customer]);
            shell::command(["state", "hold", "lift", "--source", source].into_iter().chain(customer))
        }
        Remedy::ForeseeCancel { category } => shell::command(["runs", "cancel", "--category", category, "--dry-run"]),
        Remedy::ListQueued { category: Some(category) } => {
            shell::command(["runs", "list", "--category", category, "--state", "queued"])
        }
        Remedy::ListQueued { category: None } => "redrive runs list --state queued".to_owned(),
        Remedy::ListRuns(workload) => format!("redrive runs list --workload {workload}"),
        Remedy::ListRunGroups(workload) => format!("redrive runs groups --workload {workload}"),
        Remedy::Reload { pids } => {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            format!("kill -HUP {}", pids.join(" "))
        }
        Remedy::RetryGroup(group) => format!("redrive state retry --group {group}"),
        Remedy::RetryGroupClearingTerminal(group) => format!("redrive state retry --group {group} --clear-terminal"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_quoted_where_a_shell_would_split_it() {
        let remedy = Remedy::LiftHold { source: "my ads".to_owned(), customer: Some("it's".to_owned()) };
        assert_eq!(of_need(&remedy), r"redrive state hold lift --source 'my ads' --customer-id 'it'\''s'");
    }
}
