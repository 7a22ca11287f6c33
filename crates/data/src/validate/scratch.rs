//! What a judgement may take of memory and of the disk.

use std::io;
use std::path::PathBuf;
use std::sync::LazyLock;

use redrive_store::MemoryBudget;

use crate::error::ScratchError;

/// Memory for the keys of `unique`; past it they are sorted on disk.
const MEMORY: usize = 32 << 20;
/// Memory for the keys of all judgements of this process together.
static ALL_KEYS: LazyLock<MemoryBudget> = LazyLock::new(|| MemoryBudget::new(128 << 20));

#[derive(Debug, Clone)]
pub struct Scratch {
    /// Bytes of memory for the keys of one judgement. Taken only as far as they are needed.
    pub memory: usize,
    /// What the keys of all judgements take together: where many are under way, each has less.
    pub all: MemoryBudget,
    /// Where the rest goes, to files without a name that are gone with the process.
    pub dir: PathBuf,
}

impl Default for Scratch {
    fn default() -> Self {
        Self { memory: MEMORY, all: ALL_KEYS.clone(), dir: std::env::temp_dir() }
    }
}

impl Scratch {
    pub(super) fn error(&self, source: io::Error) -> ScratchError {
        ScratchError { directory: self.dir.clone(), source }
    }
}
