//! What can be wrong with a document.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("it is no JSON: {why} at byte {at}")]
    Malformed { at: u64, why: &'static str },
    #[error("it breaks off after {at} bytes")]
    Cut { at: u64 },
    #[error("it is nested deeper than {limit} levels")]
    Deep { limit: usize },
    /// A record passed the limit; it has this many bytes so far.
    #[error("a record is longer than may be held in memory")]
    LongRecord { bytes: usize },
    #[error("{path} is longer than {limit} bytes")]
    LongValue { path: String, limit: usize },
    #[error("{path} is no array")]
    NoArray { path: String },
    /// An object has a name on the way to the records more than once: which of its values counts, nobody can say.
    #[error("{path} comes twice")]
    Twice { path: String },
}
