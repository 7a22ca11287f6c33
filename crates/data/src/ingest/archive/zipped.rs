//! Walks over a zip archive by its central directory, one record at a time.
//!
//! The central directory decides, as for all usual tools; a member whose own header names another path, or whose bytes
//! overlap those of another, is a lie. Reading the archive as a stream would be bounded too, but not honest: it shows
//! members that the directory does not list, and cannot tell where a stored member of unknown length ends.

use std::io::Read;

use rawzip::{CompressionMethod, ReaderAt, ZipArchive, ZipArchiveEntryWayfinder, ZipFileHeaderRecord, ZipLocator};

use super::decompress::{Compression, blame, open};
use super::error::{Error, Reason, Refusal};
use super::guard::Metered;
use super::path::{link_target, member_path};
use super::walk::{Bound, Place, Walk};

/// The largest name and extra field that a header can have.
const HEADER_BUFFER: usize = 128 << 10;

/// What a record of the central directory says.
struct Record {
    path: String,
    /// The path without the archives around it.
    inside: String,
    raw_path: Vec<u8>,
    /// Checksum and size, which stand for what the member holds.
    content: Vec<u8>,
    is_link: bool,
    method: CompressionMethod,
    size: u64,
    entry: ZipArchiveEntryWayfinder,
}

/// Reads every member of an archive of `len` bytes.
pub(super) fn walk<R: ReaderAt>(walk: &mut Walk<'_, '_>, source: R, len: u64, place: &Place<'_>) -> Result<(), Error> {
    let mut buffer = vec![0; rawzip::MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let guard = walk.guard;
    let archive = ZipLocator::new().locate_in_reader(source, &mut buffer, len).map_err(|(_, error)| {
        guard.settle(|| malformed("the zip archive has no readable directory").caused_by(error))
    })?;
    let mut local = vec![0; HEADER_BUFFER];
    let mut taken = Vec::new();
    let mut records = archive.entries(&mut buffer);
    let mut count: u64 = 0;
    while let Some(record) = records.next_entry().map_err(|error| {
        guard.settle(|| malformed("the directory of the zip archive is damaged or cut off").caused_by(error))
    })? {
        count += 1;
        if let Some(record) = check(walk, &record, place)? {
            member(walk, &archive, &record, &mut local, &mut taken, place).map_err(|error| error.at(&record.path))?;
        }
    }
    // The count has 16 bits where the archive is not of the large kind.
    if count % 0x1_0000 != archive.entries_hint() % 0x1_0000 {
        let message = format!("the zip archive says it has {} members but has {count}", archive.entries_hint());
        return Err(malformed(message).into());
    }
    taken.sort_unstable();
    if taken.windows(2).any(|pair| matches!(pair, [(_, end), (start, _)] if end > start)) {
        return Err(malformed("members of the zip archive overlap, as in a zip bomb").into());
    }
    Ok(())
}

fn malformed(message: impl Into<String>) -> Refusal {
    Refusal::new(Reason::MalformedArchive, message)
}

/// Checks what can be checked without the member itself; None for a folder.
fn check(walk: &Walk<'_, '_>, record: &ZipFileHeaderRecord<'_>, place: &Place<'_>) -> Result<Option<Record>, Error> {
    walk.guard.count_member()?;
    let raw_path = record.file_path().as_ref().to_vec();
    let Some(path) = member_path(&raw_path)? else { return Ok(None) };
    // Some tools on Windows write backslashes, against the standard.
    let inside = if path.contains('/') { path } else { path.replace('\\', "/") };
    let path = walk.path(place, &inside)?;
    let mode = record.mode();
    let is_special = matches!(mode.value() & 0o170_000, 0o020_000 | 0o060_000 | 0o010_000 | 0o140_000);
    if is_special {
        return Err(Refusal::new(Reason::UnsafeEntry, "the member is a device, a pipe or a socket").at(&path).into());
    }
    let flags = record.flags();
    if flags.is_encrypted() || flags.is_masked() {
        let message = "the member is encrypted; pack the archive without a password";
        return Err(Refusal::new(Reason::InvalidFormat, message).at(&path).into());
    }
    if record.is_dir() {
        return Ok(None);
    }
    Ok(Some(Record {
        path,
        inside,
        content: [u64::from(record.crc32()), record.uncompressed_size_hint()].map(u64::to_le_bytes).concat(),
        raw_path,
        is_link: mode.is_symlink(),
        method: record.compression_method(),
        size: record.uncompressed_size_hint(),
        entry: record.wayfinder(),
    }))
}

fn member<R: ReaderAt>(
    walk: &mut Walk<'_, '_>,
    archive: &ZipArchive<R>,
    record: &Record,
    local: &mut [u8],
    taken: &mut Vec<(u64, u64)>,
    place: &Place<'_>,
) -> Result<(), Error> {
    let guard = walk.guard;
    let damaged = |error: rawzip::Error| guard.settle(|| malformed("the member's header is damaged").caused_by(error));
    let entry = archive.get_entry(record.entry).map_err(damaged)?;
    let header = entry.local_header(local).map_err(damaged)?;
    if header.file_path().as_ref() != record.raw_path.as_slice() {
        let other = String::from_utf8_lossy(header.file_path().as_ref()).into_owned();
        return Err(malformed(format!("the member's own header calls it `{other}`")).into());
    }
    let (start, end) = entry.compressed_data_range();
    if end > archive.directory_offset() {
        return Err(malformed("the member reaches into the directory of the archive").into());
    }
    taken.push((start, end));
    let packed = entry.reader();
    let unpacked: Box<dyn Read + '_> = match compression(record.method) {
        Packing::Stored => Box::new(packed),
        Packing::Deflate => Box::new(flate2::read::DeflateDecoder::new(packed)),
        Packing::Stream(compression) => open(compression, packed, place.depth + 1)
            .map_err(|error| guard.settle(|| blame("the member cannot be unpacked", error)))?,
        Packing::Unsupported => return unsupported(walk, record),
    };
    let mut body = entry.verifying_reader(Metered::new(unpacked, guard));
    if record.is_link {
        return link(walk, record, place, &mut body);
    }
    walk.check_told_size(&record.path, record.size)?;
    walk.member(&record.path, &mut body, place.depth, Some(&record.content))
}

enum Packing {
    Stored,
    Deflate,
    Stream(Compression),
    Unsupported,
}

fn compression(method: CompressionMethod) -> Packing {
    match method {
        CompressionMethod::STORE => Packing::Stored,
        CompressionMethod::DEFLATE => Packing::Deflate,
        CompressionMethod::BZIP2 => Packing::Stream(Compression::Bzip2),
        CompressionMethod::XZ => Packing::Stream(Compression::Xz),
        CompressionMethod::ZSTD => Packing::Stream(Compression::Zstd),
        _ => Packing::Unsupported,
    }
}

/// Only a member that is wanted must be unpacked.
fn unsupported(walk: &mut Walk<'_, '_>, record: &Record) -> Result<(), Error> {
    if !record.is_link && redrive_conf::FileKind::of(&record.path).is_none() {
        return walk.pass_over(&record.path, &record.content);
    }
    let method = record.method.as_u16();
    let message = format!("the member is packed by method {method}, which is not supported; pack with deflate");
    Err(Refusal::new(Reason::InvalidFormat, message).into())
}

fn link(walk: &mut Walk<'_, '_>, record: &Record, place: &Place<'_>, body: &mut dyn Read) -> Result<(), Error> {
    let bytes = u64::try_from(walk.guard.limits.max_path).unwrap_or(u64::MAX);
    let target = walk.take_whole(body, Bound { bytes, name: "max_path" })?;
    let target = link_target(&record.inside, &target, true)?;
    walk.link(place, &record.path, &target)
}
