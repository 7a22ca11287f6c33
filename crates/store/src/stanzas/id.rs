//! The ids of what was parsed, and the names that fit into an index.

use std::ops::Range;

use redrive_core::text;

use crate::raw::Sha256;

/// How many places an upload has in each table.
const PLACES: i64 = 1 << 32;
/// How many settings make a block of words.
const BLOCK: i64 = 512;

/// The number of an upload, which is the upper half of all its ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UploadNo(pub(crate) i64);

impl UploadNo {
    pub(super) fn of(id: i64) -> Self {
        Self(id / PLACES)
    }

    /// The id of what stands at a place of the upload.
    pub(super) fn id(self, place: u32) -> i64 {
        self.0 * PLACES + i64::from(place)
    }

    /// All ids of the upload.
    pub(crate) fn ids(self) -> Range<i64> {
        self.0 * PLACES..(self.0 + 1) * PLACES
    }

    /// The block of words that a block of the upload is.
    pub(super) fn block(self, block: u32) -> i64 {
        self.0 * (PLACES / BLOCK) + i64::from(block)
    }
}

/// The block that a setting belongs to, counted from the first of its upload.
pub(super) fn block_of(setting: u32) -> u32 {
    setting / 512
}

/// The block of words that a setting belongs to, by its id.
pub(super) fn block_of_id(setting: i64) -> i64 {
    setting / BLOCK
}

/// The settings of a block of words.
pub(super) fn settings_of_block(block: i64) -> Range<i64> {
    block * BLOCK..(block + 1) * BLOCK
}

/// The longest name that is indexed as it is, in bytes.
const MAX_NAME: usize = 256;
/// How many characters of a longer one are kept before its hash.
const NAME_HEAD: usize = 40;

/// What stands in the index for a name that is too long for it: an entry of PostgreSQL's may not have 2,704 bytes. No name
/// has a line end in it, so that none is taken for what stands for another.
pub(super) fn short_name(name: &str) -> Option<String> {
    (name.len() > MAX_NAME).then(|| format!("{}\n{}", text::cut(name, NAME_HEAD), Sha256::of(name.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_an_upload_and_its_blocks_lie_together() {
        let upload = UploadNo(7);
        assert!(upload.ids().contains(&upload.id(0)) && upload.ids().contains(&upload.id(u32::MAX)));
        assert_eq!(upload.ids().end, UploadNo(8).id(0));
        assert_eq!(UploadNo::of(upload.id(u32::MAX)), upload);
        for setting in [0, 511, 512, u32::MAX] {
            let block = upload.block(block_of(setting));
            assert!(settings_of_block(block).contains(&upload.id(setting)), "{setting}");
        }
    }

    #[test]
    fn only_a_long_name_is_shortened_and_two_of_them_stay_apart() {
        assert_eq!(short_name(&"n".repeat(256)), None);
        let (one, two) = (short_name(&"é".repeat(900)).unwrap(), short_name(&"é".repeat(901)).unwrap());
        assert!(one.contains('\n') && two.contains('\n'));
        assert!(one != two && one.len() <= MAX_NAME && two.len() <= MAX_NAME, "{one} {two}");
    }
}
