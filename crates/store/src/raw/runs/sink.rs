//! The data plane's handle: it can begin attempts, and everything a view can.

use redrive_core::id::{RunId, TaskId};
use redrive_core::key::PartitionKey;
use redrive_core::time::Timestamp;

use super::layout;
use super::view::RawView;
use super::writer::RawWriter;
use crate::blocking::at_once;
use crate::memory::MemoryBudget;
use crate::raw::blob::Blobs;
use crate::raw::error::Error;
use crate::raw::marker::SinkId;
use crate::raw::place::Place;
use crate::raw::s3::S3Options;
use crate::raw::url::RawUrl;

/// What a part is closed at, compressed: large enough for S3, small enough to hold in memory.
const PART_BYTES: usize = 8 << 20;
/// What all parts on their way take together: where many long runs are written at once, each closes its parts sooner.
const ALL_PARTS_BYTES: usize = 48 << 20;

#[derive(Debug, Clone)]
pub struct RawOptions {
    pub s3: S3Options,
    /// About how many compressed bytes make a part, at the most. A writer and a reader each hold one part in memory.
    pub part_bytes: usize,
}

impl Default for RawOptions {
    fn default() -> Self {
        Self { s3: S3Options::default(), part_bytes: PART_BYTES }
    }
}

/// What a manifest says of its run before the run has an outcome: who writes, for which partition, since when.
#[derive(Debug, Clone)]
pub struct RunHeader {
    pub key: PartitionKey,
    pub run_id: RunId,
    pub fence: TaskId,
    pub extractor: String,
    pub started_at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct RawSink {
    place: Place,
    part_bytes: usize,
    memory: MemoryBudget,
}

impl RawSink {
    /// Makes the directory if need be, and fails now if it cannot be written or the bucket cannot be reached.
    pub async fn open(url: &RawUrl, options: &RawOptions) -> Result<Self, Error> {
        let place = Place::open_to_write(url, &options.s3).await?;
        Ok(Self { place, part_bytes: options.part_bytes, memory: MemoryBudget::new(ALL_PARTS_BYTES) })
    }

    /// Opens the sink that a database knows; where it knows none, the sink gets a marker.
    pub async fn open_known(url: &RawUrl, options: &RawOptions, known: Option<SinkId>) -> Result<Self, Error> {
        let place = Place::open_known(url, &options.s3, known).await?;
        Ok(Self { place, part_bytes: options.part_bytes, memory: MemoryBudget::new(ALL_PARTS_BYTES) })
    }

    /// The id in the sink's marker, where it was opened as one that is known.
    pub fn id(&self) -> Option<SinkId> {
        self.place.expected()
    }

    /// Whether the sink is still the one that the database knows.
    pub async fn check_marker(&self) -> Result<(), Error> {
        self.place.check_marker().await
    }

    /// The same sink, for objects of any kind.
    pub fn blobs(&self) -> Blobs {
        Blobs::new(self.place.clone())
    }

    /// Removes what the writer of a run left unfinished, if it is gone; gives how many files and directories.
    pub async fn clear_staged(&self, key: &PartitionKey, run_id: RunId) -> Result<usize, Error> {
        let dir = layout::run(&self.place.base, key, run_id);
        let directories = self.place.clear_staged_directories(&dir).await?;
        let files = self.place.clear_staged_beside(&layout::object(&dir, layout::MANIFEST)).await?;
        Ok(directories + files)
    }

    /// Touches nothing yet: the first full part or the manifest makes the directory.
    pub fn begin(&self, header: RunHeader) -> RawWriter {
        RawWriter::new(self.place.clone(), header, self.part_bytes, self.memory.clone())
    }

    /// Whether it can be written now, as far as can be told without writing a run.
    pub async fn check(&self) -> Result<(), Error> {
        self.place.check().await
    }

    /// Whether the sink as a whole is to blame for an error: it takes nothing from any attempt, or took nothing then.
    pub async fn is_down(&self, error: &Error) -> bool {
        self.place.is_down(error).await
    }

    /// Does what is left of a short run, its writing and its reading. On a file system all of it is done on one thread,
    /// which may be blocked; on S3 as any other future, because it waits for answers.
    pub async fn at_once<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        match self.place.directories() {
            Some(_) => at_once(future).await,
            None => future.await,
        }
    }

    pub fn view(&self) -> RawView {
        RawView::new(self.place.clone())
    }
}
