//! What is wrong with a call of an outside worker.

use std::time::Duration;

/// The longest name of a worker or of a claim, in bytes.
pub const MAX_NAME: usize = 200;

/// The most runs that one claim or one heartbeat is about.
pub const MAX_RUNS: usize = 1000;

/// The longest time that a claim waits.
pub const LONGEST_WAIT: Duration = Duration::from_secs(50);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Slip {
    #[error("{field} is empty; give it a value")]
    Empty { field: &'static str },
    #[error("{field} holds a control character; choose another")]
    Name { field: &'static str },
    #[error("{field} is longer than {MAX_NAME} bytes; choose another")]
    LongName { field: &'static str },
    #[error("max is 0; ask for at least one run")]
    NoRoom,
    #[error("a claim is about {MAX_RUNS} runs at most; ask for fewer")]
    TooMuch,
    #[error("a claim waits for {} s at most; ask for less, and again", LONGEST_WAIT.as_secs())]
    LongWait,
    #[error("a heartbeat is about {MAX_RUNS} runs at most; send several")]
    TooMany,
    #[error(
        "no section leaves the category {0:?} to outside workers: a [process.NAME] does that without command and url"
    )]
    UnknownCategory(String),
    #[error("this token is not for the category {0:?}; ask for others, or have a token made for it")]
    Forbidden(String),
    #[error("metrics is no JSON object, or longer than 64 KiB; send fewer")]
    Metrics,
}

/// Checks the name of a worker or of a claim.
pub(super) fn check_name(field: &'static str, name: &str) -> Result<(), Slip> {
    if name.is_empty() {
        return Err(Slip::Empty { field });
    }
    if name.len() > MAX_NAME {
        return Err(Slip::LongName { field });
    }
    if name.chars().any(char::is_control) {
        return Err(Slip::Name { field });
    }
    Ok(())
}
