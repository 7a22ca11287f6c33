//! Parses an archive on a blocking thread and hands its stanzas over in batches. Memory holds one file, one batch that is
//! being filled and two that wait or are being written. Several small archives are parsed at once; of those that take much
//! memory, one at a time.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use redrive_conf::{Document, FaultKind, Place, decode, replace_nul};
use redrive_core::count;
use redrive_store::raw::{BlobInfo, BlobReader};
use redrive_store::{FileFacts, FileFault, ParsedBatch};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::archive::{self, Limits, Member, Progress, Visitor};

/// What may be unpacked of an archive, all layers counted, before it counts as large: the windows of its decompressors and the
/// archives inside it take no more memory than came out of them.
const SMALL_ARCHIVE: u64 = 8 << 20;
/// The size of a file before its archive counts as large: parsing takes up to 15 times as much.
const SMALL_FILE: u64 = 1 << 20;

/// What an archive came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) files: u64,
    pub(super) stanzas: u64,
    /// Files that count as parse errors, and links that lead to none.
    pub(super) parse_errors: u64,
}

/// An archive that is to be parsed.
#[derive(Debug)]
pub(super) struct Parse {
    pub(super) archive: BlobReader,
    pub(super) stored: BlobInfo,
    /// The name of the uploaded file.
    pub(super) upload: String,
    pub(super) limits: Limits,
    /// How many rows make a batch.
    pub(super) batch_rows: u32,
    /// The one permit for an archive that takes much memory.
    pub(super) large: Arc<Semaphore>,
}

impl Parse {
    /// Parses the archive, once its bytes are known to be those that were stored. The batches go to `batches`; when its receiver
    /// is gone, or `cancelled` is set, parsing stops. It blocks.
    pub(super) fn run(
        mut self,
        runtime: &Handle,
        cancelled: &AtomicBool,
        batches: &mpsc::Sender<ParsedBatch>,
    ) -> Result<Totals, archive::Error> {
        self.archive.check(&self.stored, cancelled).map_err(|error| {
            let is_cancelled = error.kind() == std::io::ErrorKind::Interrupted;
            if is_cancelled { archive::Error::Cancelled } else { archive::Error::Storage(error) }
        })?;
        let batch = ParsedBatch::of_rows(self.batch_rows);
        let room = Room { runtime, large: &self.large, permit: None };
        let mut parser = Parser { batch, batches, room, totals: Totals::default() };
        archive::read(&mut self.archive, &self.upload, &self.limits, cancelled, &mut parser)?;
        match parser.finish() {
            ControlFlow::Continue(()) => Ok(parser.totals),
            ControlFlow::Break(()) => Err(archive::Error::Stopped),
        }
    }
}

/// The memory that a parse may take: little, or all that is left for the large ones. It is asked for once and kept to the end,
/// so that two archives never wait for each other.
struct Room<'p> {
    runtime: &'p Handle,
    large: &'p Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Room<'_> {
    /// Waits until no other archive takes much memory.
    fn become_large(&mut self) {
        if self.permit.is_none() {
            self.permit = self.runtime.block_on(Arc::clone(self.large).acquire_owned()).ok();
        }
    }
}

struct Parser<'p> {
    batch: ParsedBatch,
    batches: &'p mpsc::Sender<ParsedBatch>,
    room: Room<'p>,
    totals: Totals,
}

impl Visitor for Parser<'_> {
    fn file(&mut self, member: Member<'_>) -> ControlFlow<()> {
        let Some(place) = Place::of(member.path) else { return ControlFlow::Continue(()) };
        let bytes = count::of(member.bytes.len());
        if bytes > SMALL_FILE {
            self.room.become_large();
        }
        self.totals.files += 1;
        let (conf, layer) = (place.name, place.layer.as_str());
        let facts = FileFacts { path: member.path, conf, layer, bytes, stanzas: 0, settings: 0, fault: None };
        match decode(member.bytes) {
            Ok(text) => self.document(&Document::from_text(replace_nul(text)), facts),
            Err(error) => {
                let (kind, line) = (FaultKind::Encoding.as_str().to_owned(), error.line(member.bytes));
                let message = format!("{error}; {}", FaultKind::Encoding.meaning());
                self.faulty(FileFacts { fault: Some(FileFault { kind, line, count: 1, message }), ..facts })
            }
        }
    }

    fn broken_link(&mut self, path: &str, target: &str, why: &'static str) -> ControlFlow<()> {
        let place = Place::of(path);
        let name = path.rsplit('/').next().unwrap_or(path);
        let message = format!("the link to `{target}` {why}");
        self.faulty(FileFacts {
            path,
            conf: place.map_or(name, |place| place.name),
            layer: place.map_or(redrive_conf::Layer::Other, |place| place.layer).as_str(),
            bytes: 0,
            stanzas: 0,
            settings: 0,
            fault: Some(FileFault { kind: "link".to_owned(), line: 1, count: 1, message }),
        })
    }

    fn progress(&mut self, progress: Progress) {
        if progress.bytes_unpacked > SMALL_ARCHIVE {
            self.room.become_large();
        }
    }
}

impl Parser<'_> {
    /// Adds a file from which nothing was taken.
    fn faulty(&mut self, facts: FileFacts<'_>) -> ControlFlow<()> {
        self.totals.parse_errors += 1;
        self.batch.add_file(&facts);
        self.hand_over_full()
    }

    fn document(&mut self, document: &Document<'_>, facts: FileFacts<'_>) -> ControlFlow<()> {
        let fault = document.fault().map(|fault| FileFault {
            kind: fault.kind.as_str().to_owned(),
            line: fault.first_line,
            count: fault.count,
            message: fault.kind.meaning().to_owned(),
        });
        self.totals.parse_errors += u64::from(fault.is_some());
        let (stanzas, settings) = (document.stanzas().len(), document.setting_count());
        self.batch.add_file(&FileFacts { stanzas, settings, fault, ..facts });
        for stanza in document.stanzas() {
            let lines = stanza.lines();
            self.batch.begin_stanza(stanza.name(), (lines.first, lines.last));
            for setting in stanza.settings() {
                self.batch.add_setting(setting.key, setting.value, setting.lines.first);
                self.hand_over_full()?;
            }
            self.batch.end_stanza();
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
