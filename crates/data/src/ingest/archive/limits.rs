//! Holds the limits that an upload must keep to.

/// What an upload may take. An upload that goes beyond is refused as `limit_exceeded`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The bytes that all decompressors together may bring forth.
    pub max_bytes: u64,
    /// The bytes of one configuration file. It is held in memory as a whole, and parsing it takes up to 15 times as much.
    pub max_file_bytes: u64,
    /// The members of all archives together, folders and links counted.
    pub max_files: u64,
    /// How many bytes may come out for each byte that was read; the first 8 MiB are free.
    pub max_ratio: u64,
    /// How deep archives may lie inside the uploaded one; 0 opens none.
    pub max_depth: u32,
    /// The bytes of a member's path, the archives around it counted.
    pub max_path: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: 2 << 30,
            max_file_bytes: 16 << 20,
            max_files: 100_000,
            max_ratio: 200,
            max_depth: 3,
            max_path: 1024,
        }
    }
}

/// Highly repetitive small files are no bombs.
pub(super) const FREE_OF_RATIO: u64 = 8 << 20;

/// The body of a tar header extension: long names, and what PAX records.
pub(super) const MAX_EXTENSION: u64 = 1 << 20;

/// All zip archives inside other archives that are open at one time; each must be in memory as a whole.
pub(super) const MAX_INNER_ZIP: u64 = 32 << 20;

/// The paths of all links and of what they lead to, which are kept until everything is read.
pub(super) const MAX_LINKS: usize = 16 << 20;
