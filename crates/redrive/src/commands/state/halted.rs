//! What a command prints, and its exit code, when an operation ended before its time.

use redrive_control::Halt;

use crate::exit::{self, Exit};
use crate::output;

pub fn exit(halt: &Halt) -> Exit {
    match halt {
        Halt::Interrupted => Exit::Interrupted,
        Halt::Fault(error) => exit::control(error),
    }
}

/// Says why it ended, and how many it had `changed`, or what it does to them, by then.
pub fn note(halt: &Halt, done: u64, noun: &str, changed: &str) {
    output::note(&match halt {
        Halt::Interrupted => format!("interrupted; {done} {noun} were {changed} by then"),
        Halt::Fault(error) => match stopped_by(error) {
            StoppedBy::Signal => format!("interrupted: {error}; {done} {noun} were {changed} by then"),
            StoppedBy::LostAnswer => format!("error: {error}; {done} {noun} are known to be {changed}"),
            StoppedBy::Fault => {
                format!("error: {error}; {done} {noun} were {changed} by then, run it again for the rest")
            }
        },
    });
}

/// What ended an operation before its time.
enum StoppedBy {
    Signal,
    /// The answer to a commit never came.
    LostAnswer,
    Fault,
}

fn stopped_by(error: &redrive_control::Error) -> StoppedBy {
    if let redrive_control::Error::Store(redrive_store::Error::Stopped { .. }) = error {
        return StoppedBy::Signal;
    }
    if let redrive_control::Error::Store(redrive_store::Error::Unknown { .. }) = error {
        return StoppedBy::LostAnswer;
    }
    StoppedBy::Fault
}
