//! Tells a format by the first bytes.

use super::tarball::is_header;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Gzip,
    Bzip2,
    Xz,
    Zstd,
    Zip,
    Tar,
    /// An archive that is not supported, by its name.
    Foreign(&'static str),
    /// Anything else, such as text.
    Plain,
}

/// As many bytes as [`sniff`] wants to see.
pub(super) const HEAD: usize = 512;

const MAGIC: [(&[u8], Format); 15] = [
    (b"\x1f\x8b", Format::Gzip),
    (b"\xfd7zXZ\0", Format::Xz),
    (b"\x28\xb5\x2f\xfd", Format::Zstd),
    (b"PK\x03\x04", Format::Zip),
    (b"PK\x05\x06", Format::Zip),
    (b"PK\x07\x08", Format::Zip),
    (b"7z\xbc\xaf\x27\x1c", Format::Foreign("7z")),
    (b"Rar!\x1a\x07", Format::Foreign("rar")),
    (b"\x04\x22\x4d\x18", Format::Foreign("lz4")),
    (b"LZIP", Format::Foreign("lzip")),
    (b"MSCF", Format::Foreign("cab")),
    (b"!<arch>\n", Format::Foreign("ar")),
    (b"070701", Format::Foreign("cpio")),
    (b"\x1f\x9d", Format::Foreign("compress")),
    (b"\xff\x06\0\0sNaPpY", Format::Foreign("snappy")),
];

/// Looks at the beginning of a file, at most [`HEAD`] bytes of it.
pub(super) fn sniff(head: &[u8]) -> Format {
    if let Some((_, format)) = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)) {
        return *format;
    }
    let block = |mark: &[u8]| head.get(4..).is_some_and(|rest| rest.starts_with(mark));
    if head.starts_with(b"BZh") && (block(b"\x31\x41\x59\x26\x53\x59") || block(b"\x17\x72\x45\x38\x50\x90")) {
        return Format::Bzip2;
    }
    // A frame of zstd that holds no data may come first.
    if head.len() >= 4 && head[0] & 0xf0 == 0x50 && head[1..4] == *b"\x2a\x4d\x18" {
        return Format::Zstd;
    }
    if is_header(head) { Format::Tar } else { Format::Plain }
}
