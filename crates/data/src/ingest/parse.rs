//! Parses an archive on a blocking thread and hands its stanzas over in batches. Memory holds one file, one batch that
//! is being filled and one that is being written.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use redrive_conf::{Document, FaultKind, Place, decode, replace_nul};
use redrive_core::count;
use redrive_store::raw::BlobReader;
use redrive_store::{FileFacts, FileFault, ParsedBatch};
use tokio::sync::mpsc;

use super::archive::{self, Limits, Member, Visitor};

/// What an archive came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) files: u64,
    pub(super) stanzas: u64,
    /// Files that count as parse errors.
    pub(super) parse_errors: u64,
}

/// Parses an archive. The batches go to `batches`; when its receiver is gone, or `cancelled` is set, parsing stops.
pub(super) fn parse(
    mut archive: BlobReader,
    upload: &str,
    limits: &Limits,
    cancelled: &AtomicBool,
    batches: &mpsc::Sender<ParsedBatch>,
) -> Result<Totals, archive::Error> {
    let mut parser = Parser { batch: ParsedBatch::default(), batches, totals: Totals::default() };
    archive::read(&mut archive, upload, limits, cancelled, &mut parser)?;
    match parser.finish() {
        ControlFlow::Continue(()) => Ok(parser.totals),
        ControlFlow::Break(()) => Err(archive::Error::Stopped),
    }
}

struct Parser<'p> {
    batch: ParsedBatch,
    batches: &'p mpsc::Sender<ParsedBatch>,
    totals: Totals,
}

impl Visitor for Parser<'_> {
    fn file(&mut self, member: Member<'_>) -> ControlFlow<()> {
        let Some(place) = Place::of(member.path) else { return ControlFlow::Continue(()) };
        self.totals.files += 1;
        let facts = FileFacts {
            path: member.path,
            conf: place.name,
            layer: place.layer.as_str(),
            bytes: count::of(member.bytes.len()),
            stanzas: 0,
            settings: 0,
            fault: None,
        };
        match decode(member.bytes) {
            Ok(text) => self.document(&Document::from_text(replace_nul(text)), facts),
            Err(_) => {
                self.totals.parse_errors += 1;
                let kind = FaultKind::Encoding.as_str().to_owned();
                self.batch.add_file(&FileFacts { fault: Some(FileFault { kind, line: 1, count: 1 }), ..facts });
                self.hand_over_full()
            }
        }
    }
}

impl Parser<'_> {
    fn document(&mut self, document: &Document<'_>, facts: FileFacts<'_>) -> ControlFlow<()> {
        let fault = document.fault().map(|fault| FileFault {
            kind: fault.kind.as_str().to_owned(),
            line: fault.first_line,
            count: fault.count,
        });
        self.totals.parse_errors += u64::from(fault.is_some());
        let (stanzas, settings) = (document.stanzas().len(), document.setting_count());
        self.batch.add_file(&FileFacts { stanzas, settings, fault, ..facts });
        for stanza in document.stanzas() {
            let lines = stanza.lines();
            let settings = stanza.settings().map(|setting| (setting.key, setting.value, setting.lines.first));
            self.batch.add_stanza(stanza.name(), (lines.first, lines.last), settings);
            self.totals.stanzas += 1;
            self.hand_over_full()?;
        }
        ControlFlow::Continue(())
    }

    fn hand_over_full(&mut self) -> ControlFlow<()> {
        if self.batch.is_full() { self.hand_over() } else { ControlFlow::Continue(()) }
    }

    fn finish(&mut self) -> ControlFlow<()> {
        if self.batch.is_empty() { ControlFlow::Continue(()) } else { self.hand_over() }
    }

    fn hand_over(&mut self) -> ControlFlow<()> {
        match self.batches.blocking_send(self.batch.take()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}
