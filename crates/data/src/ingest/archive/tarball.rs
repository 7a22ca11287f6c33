//! Walks over a tar archive.
//!
//! The headers are read by the `tar` library, the walk is ours: the library reads the bodies of long names and of PAX
//! records whole, however long they are, and does not tell an archive that was cut off between two members from a whole one.

use std::io::{self, Read};

use tar::{EntryType, Header, PaxExtensions};

use super::decompress::blame;
use super::error::{Error, Reason, Refusal};
use super::limits::MAX_EXTENSION;
use super::path::{link_target, member_path};
use super::walk::{Place, Walk};

const BLOCK: usize = 512;

/// Where a header says what its member is.
const TYPE_FLAG: usize = 156;

/// Tells whether a block is a header with a right checksum, or the mark of an archive's end.
pub(super) fn is_header(head: &[u8]) -> bool {
    let Ok(block) = <&[u8; BLOCK]>::try_from(head) else { return false };
    is_end(block) || has_right_sum(block)
}

fn is_end(block: &[u8; BLOCK]) -> bool {
    block.iter().all(|byte| *byte == 0)
}

fn has_right_sum(block: &[u8; BLOCK]) -> bool {
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    let field: u32 = block[148..156].iter().map(|byte| u32::from(*byte)).sum();
    Header::from_byte_slice(block).cksum().is_ok_and(|told| told == sum - field + 8 * u32::from(b' '))
}

/// What the headers before a member say about it.
#[derive(Debug, Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
}

/// Reads every member of an archive.
pub(super) fn walk(walk: &mut Walk<'_, '_>, reader: &mut dyn Read, place: &Place<'_>) -> Result<(), Error> {
    let mut block = [0; BLOCK];
    let mut extensions = Extensions::default();
    loop {
        read_block(walk, reader, &mut block)?;
        if is_end(&block) {
            return drain(walk, reader);
        }
        if !has_right_sum(&block) {
            return Err(malformed("a header has a wrong checksum; the archive is damaged").into());
        }
        let header = Header::from_byte_slice(&block);
        let size = header.entry_size().map_err(|error| malformed("a header has no readable size").caused_by(error))?;
        let mut body = Body { reader, left: size };
        let kind = header.entry_type();
        match extension(walk, kind, &mut body, &mut extensions)? {
            true => {}
            false => {
                let found = std::mem::take(&mut extensions);
                member(walk, header, found, &mut body, place)?;
            }
        }
        skip(walk, body, size)?;
    }
}

fn malformed(message: &str) -> Refusal {
    Refusal::new(Reason::MalformedArchive, message)
}

fn read_block(walk: &Walk<'_, '_>, reader: &mut dyn Read, block: &mut [u8; BLOCK]) -> Result<(), Error> {
    reader.read_exact(block).map_err(|error| {
        walk.guard.settle(|| blame("the archive ends without its mark of the end; it was cut off", error))
    })
}

/// Reads a header extension; false when the header is that of a member.
fn extension(
    walk: &Walk<'_, '_>,
    kind: EntryType,
    body: &mut Body<'_>,
    extensions: &mut Extensions,
) -> Result<bool, Error> {
    if kind.is_gnu_longname() {
        extensions.path = Some(extension_body(walk, body)?);
    } else if kind.is_gnu_longlink() {
        extensions.link = Some(extension_body(walk, body)?);
    } else if kind.is_pax_local_extensions() {
        let records = extension_body(walk, body)?;
        for record in PaxExtensions::new(&records) {
            let record = record.map_err(|error| malformed("a PAX record is damaged").caused_by(error))?;
            pax_record(record.key_bytes(), record.value_bytes(), extensions)?;
        }
    } else if kind.is_pax_global_extensions() {
        let mut all = Extensions::default();
        let records = extension_body(walk, body)?;
        for record in PaxExtensions::new(&records) {
            let record = record.map_err(|error| malformed("a PAX record is damaged").caused_by(error))?;
            pax_record(record.key_bytes(), record.value_bytes(), &mut all)?;
        }
        if all.path.is_some() || all.link.is_some() || all.size.is_some() {
            return Err(malformed("one PAX record gives all members the same path, link or size").into());
        }
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn pax_record(key: &[u8], value: &[u8], extensions: &mut Extensions) -> Result<(), Refusal> {
    match key {
        b"path" => extensions.path = Some(value.to_vec()),
        b"linkpath" => extensions.link = Some(value.to_vec()),
        b"size" => {
            let size = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            extensions.size = Some(size.ok_or_else(|| malformed("a PAX record gives a size that is no number"))?);
        }
        key if key.starts_with(b"GNU.sparse.") => return Err(sparse()),
        _ => {}
    }
    Ok(())
}

fn sparse() -> Refusal {
    Refusal::new(Reason::InvalidFormat, "sparse files are not supported; pack without --sparse")
}

fn extension_body(walk: &Walk<'_, '_>, body: &mut Body<'_>) -> Result<Vec<u8>, Error> {
    if body.left > MAX_EXTENSION {
        let message = format!("a header extension has {} bytes, more than {MAX_EXTENSION}", body.left);
        return Err(Refusal::new(Reason::LimitExceeded, message).into());
    }
    let mut bytes = Vec::new();
    body.read_to_end(&mut bytes).map_err(|error| walk.guard.settle(|| cut_off(error)))?;
    // A long name ends with a NUL; the value of a PAX record does not.
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(bytes)
}

fn cut_off(error: io::Error) -> Refusal {
    blame("the archive ends inside a member; it was cut off or says a wrong size", error)
}

fn member(
    walk: &mut Walk<'_, '_>,
    header: &Header,
    extensions: Extensions,
    body: &mut Body<'_>,
    place: &Place<'_>,
) -> Result<(), Error> {
    walk.guard.count_member()?;
    let raw = extensions.path.unwrap_or_else(|| header.path_bytes().into_owned());
    let Some(inside) = member_path(&raw)? else { return Ok(()) };
    let path = walk.path(place, &inside)?;
    if extensions.size.is_some_and(|size| size != body.left) {
        return Err(malformed("the header and its PAX record give different sizes").at(&path).into());
    }
    let is_folder = raw.ends_with(b"/");
    match header.as_bytes()[TYPE_FLAG] {
        b'5' => Ok(()),
        b'0' | b'7' | 0 if is_folder => Ok(()),
        b'0' | b'7' | 0 => {
            walk.check_told_size(&path, body.left)?;
            walk.member(&path, body, place.depth, None)
        }
        flag @ (b'1' | b'2') => {
            let link = extensions.link.or_else(|| header.link_name_bytes().map(|link| link.into_owned()));
            let target = link_target(&inside, &link.unwrap_or_default(), flag == b'2');
            walk.link(place, &path, &target.map_err(|refusal| refusal.at(&path))?)
        }
        b'3' | b'4' | b'6' => {
            Err(Refusal::new(Reason::UnsafeEntry, "the member is a device or a pipe").at(&path).into())
        }
        b'S' => Err(sparse().at(&path).into()),
        // The label of the volume.
        b'V' => Ok(()),
        flag => {
            let message = format!("the member is of the unknown type {:?}", char::from(flag));
            Err(Refusal::new(Reason::UnsafeEntry, message).at(&path).into())
        }
    }
}

/// Passes over what is left of a body, and over the padding to the next block.
fn skip(walk: &mut Walk<'_, '_>, mut body: Body<'_>, size: u64) -> Result<(), Error> {
    walk.discard(&mut body).map_err(|error| walk.guard.settle(|| cut_off(error)))?;
    let block = u64::try_from(BLOCK).unwrap_or_default();
    let mut padding = Body { reader: body.reader, left: size.next_multiple_of(block) - size };
    walk.discard(&mut padding).map_err(|error| walk.guard.settle(|| cut_off(error)))
}

/// Reads on after the end, so that a decompressor comes to the checksum behind it.
fn drain(walk: &mut Walk<'_, '_>, reader: &mut dyn Read) -> Result<(), Error> {
    walk.discard(reader)
        .map_err(|error| walk.guard.settle(|| blame("the compressed data behind the last member is damaged", error)))
}

/// The body of a member; it is an error when the archive ends before it.
struct Body<'r> {
    reader: &'r mut dyn Read,
    left: u64,
}

impl Read for Body<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if wanted == 0 {
            return Ok(0);
        }
        let count = self.reader.read(&mut buffer[..wanted])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left = self.left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }
}
