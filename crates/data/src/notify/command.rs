//! `command`: the notification as JSON on the stdin of a program. Exit code 0 means that it was taken.

use std::collections::BTreeMap;

use super::receiver::{Envelope, ReceiverSettings};
use crate::failure::Failure;
use crate::program::{ChildTracker, Cut, Launch, Program, Start, Stdin};
use crate::settings::{Nothing, SettingError, Surroundings};

const LONGEST_LINE: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Command {
    program: Program<Nothing>,
}

impl Command {
    pub(super) fn new(settings: &ReceiverSettings<'_>, around: &Surroundings) -> Result<Self, SettingError> {
        let env = BTreeMap::new();
        let launch = Launch { command: settings.command, directory: settings.directory, env: &env };
        Ok(Self { program: Program::new(&launch, around)? })
    }

    pub(super) async fn send(&self, envelope: &Envelope<'_>) -> Result<(), Failure> {
        let tracker = ChildTracker::default();
        let env = [("REDRIVE_EVENT", envelope.notification.notice.event.to_string())];
        let stdin = Stdin::Bytes((envelope.json() + "\n").into_bytes());
        let start = Start { env: &env, stdin, ..Start::new(&tracker, LONGEST_LINE) };
        let mut child = self.program.invocation(&Nothing).await?.start(start)?;
        loop {
            match child.block().await {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(Cut::Overlong) => child.skip_line(),
                Err(Cut::Io(error)) => {
                    return Err(Failure::retryable(format!("cannot read the program's output: {error}")));
                }
            }
        }
        let end = child.finish().await?;
        if end.is_success() { Ok(()) } else { Err(end.failure()) }
    }
}
