//! Finding records that share a key, in bounded memory.
//!
//! A key is kept as a fingerprint of 128 bits with its record's number. Fingerprints are sorted, on disk when there are
//! many, and equal ones become neighbours. Equal fingerprints are a suspicion and no more: the first are compared with
//! the records themselves, so that chance can never reject an attempt.

mod confirm;
mod entry;
mod key;
mod keys;
mod merge;
mod run;
mod tally;

pub(super) use key::Key;
pub(super) use keys::Keys;
pub(super) use tally::tally;
