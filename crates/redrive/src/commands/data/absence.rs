//! Why there is nothing to read, and what to do about it.

use redrive_core::filter::Filter;
use redrive_core::partition::{self, Partition, Status};
use redrive_core::text::one_line;

use super::shelf::Shelf;
use crate::error::Error;

pub async fn explain(filter: &Filter, shelf: &Shelf) -> Error {
    let Some(key) = filter.as_key() else {
        return Error::NothingFound("nothing found: no partition of this filter is a success".to_owned());
    };
    match shelf.view.partition(&key).await {
        Ok(Some(partition)) => Error::NothingFound(format!("{key} has no data: {}", why(&partition, shelf))),
        Ok(None) => {
            let todo = "`redrive state backfill enqueue` wants it";
            Error::NothingFound(format!("{key} has no data: no entry found; {todo}"))
        }
        Err(error) => error.into(),
    }
}

fn why(partition: &Partition, shelf: &Shelf) -> String {
    let Partition { state, control } = partition;
    let message = one_line(state.error_message.as_deref().unwrap_or("no message"));
    match state.status {
        Status::Pending if control.active.is_some() => "it is being extracted now; try again later".to_owned(),
        Status::Pending if state.current_run_id.is_some() => {
            "it was set to pending, and no new run has been accepted yet; `redrive state explain` says when".to_owned()
        }
        Status::Pending => {
            "it is pending, and no run has been accepted yet; `redrive state explain` says when".to_owned()
        }
        Status::Failed
            if partition::terminal(partition, shelf.policy(&state.key.source), shelf.view.now()).is_some() =>
        {
            format!("it failed for good ({message}); `redrive state retry --clear-terminal` tries it again")
        }
        Status::Failed => format!("it failed ({message}); `redrive state retry` tries it again"),
        // It became one between the two looks.
        Status::Success => "it has just become a success; try again".to_owned(),
    }
}
