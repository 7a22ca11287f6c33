//! What a strict reader objects to in an archive or a configuration file, told as it is found.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use redrive_conf::{Finding, lint as lint_file};

use super::archive::{self, Limits, Member, Source, Visitor};

/// Something that a strict reader objects to, and the file that it is in.
#[derive(Debug)]
pub enum Objection<'a> {
    Finding {
        path: &'a str,
        finding: &'a Finding,
    },
    /// A link that gives no configuration.
    Link {
        path: &'a str,
        target: &'a str,
        why: &'static str,
    },
}

/// Reads an archive or a single file called `name`, and tells what is found in it until it is told to stop.
pub fn lint(
    name: &str,
    source: &mut dyn Source,
    limits: &Limits,
    tell: &mut dyn FnMut(Objection<'_>) -> ControlFlow<()>,
) -> Result<(), archive::Error> {
    let mut linter = Linter { name, tell };
    match archive::read(source, name, limits, &AtomicBool::new(false), &mut linter) {
        Ok(_) | Err(archive::Error::Stopped | archive::Error::Cancelled) => Ok(()),
        Err(error @ (archive::Error::Refused(_) | archive::Error::Storage(_))) => Err(error),
    }
}

struct Linter<'l> {
    name: &'l str,
    tell: &'l mut dyn FnMut(Objection<'_>) -> ControlFlow<()>,
}

impl Visitor for Linter<'_> {
    fn file(&mut self, member: Member<'_>) -> ControlFlow<()> {
        // A single file is called what its user calls it.
        let is_whole = self.name.rsplit('/').next() == Some(member.path);
        let path = if is_whole { self.name } else { member.path };
        let mut flow = ControlFlow::Continue(());
        lint_file(member.bytes, |finding| {
            if flow.is_continue() {
                flow = (self.tell)(Objection::Finding { path, finding: &finding });
            }
        });
        flow
    }

    fn broken_link(&mut self, path: &str, target: &str, why: &'static str) -> ControlFlow<()> {
        (self.tell)(Objection::Link { path, target, why })
    }
}
