//! Formats told apart and opened: the upload itself, and archives and compressed files inside it.

use std::io::{self, Cursor, Read};

use redrive_conf::{EntryKind, FileKind, uncompressed};

use super::take::Bound;
use super::{Place, Walk, damaged};
use crate::ingest::archive::decompress::{Compression, open};
use crate::ingest::archive::error::{Error, Reason, Refusal};
use crate::ingest::archive::guard::{Metered, Upload};
use crate::ingest::archive::limits::MAX_INNER_ZIP;
use crate::ingest::archive::seen::Sighting;
use crate::ingest::archive::sniff::{Format, HEAD, sniff};
use crate::ingest::archive::{tarball, zipped};

impl Walk<'_, '_> {
    pub(super) fn upload(&mut self, upload: &Upload<'_>, name: &str) -> Result<(), Error> {
        let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
        let storage = |error: io::Error| self.guard.settle(|| damaged(error));
        let len = upload.len().map_err(storage)?;
        upload.rewind().map_err(storage)?;
        let mut reader = upload;
        let head = self.head(&mut reader)?;
        let place = Place { prefix: "", depth: 0 };
        match sniff(&head) {
            Format::Zip => zipped::walk(self, upload, len, &place),
            format @ (Format::Tar | Format::Plain) => {
                let mut all = Metered::new(Cursor::new(&head).chain(reader), self.guard);
                self.stream(format, &mut all, name, &place)
            }
            format @ (Format::Gzip | Format::Bzip2 | Format::Xz | Format::Zstd | Format::Foreign(_)) => {
                self.stream(format, &mut Cursor::new(&head).chain(reader), name, &place)
            }
        }
    }

    /// Reads the uploaded stream of any format but zip.
    pub(super) fn stream(
        &mut self,
        format: Format,
        reader: &mut dyn Read,
        name: &str,
        place: &Place<'_>,
    ) -> Result<(), Error> {
        match format {
            Format::Gzip => self.compressed(Compression::Gzip, reader, name, place),
            Format::Bzip2 => self.compressed(Compression::Bzip2, reader, name, place),
            Format::Xz => self.compressed(Compression::Xz, reader, name, place),
            Format::Zstd => self.compressed(Compression::Zstd, reader, name, place),
            Format::Tar => tarball::walk(self, reader, place),
            Format::Zip => self.inner_zip(reader, place),
            Format::Plain => self.single(reader, name, place),
            Format::Foreign(kind) => {
                let message = format!("{kind} archives are not supported; upload a tar or zip archive");
                Err(Refusal::new(Reason::InvalidFormat, message).into())
            }
        }
    }

    fn compressed(
        &mut self,
        compression: Compression,
        reader: &mut dyn Read,
        name: &str,
        place: &Place<'_>,
    ) -> Result<(), Error> {
        let guard = self.guard;
        let opened = open(compression, reader, place.depth);
        let opened = opened.map_err(|error| guard.settle(|| damaged(error)))?;
        let mut unpacked = Metered::new(opened, guard);
        let head = self.head(&mut unpacked)?;
        let format = sniff(&head);
        let mut all = Cursor::new(&head).chain(&mut unpacked);
        match format {
            Format::Tar => tarball::walk(self, &mut all, place),
            Format::Plain if !place.prefix.is_empty() => self.inner_single(&mut all, name),
            Format::Foreign(_) if place.depth > 0 => Ok(()),
            Format::Plain => self.single(&mut all, uncompressed(name), place),
            // Compressed twice, or a compressed zip: an archive inside another.
            Format::Gzip | Format::Bzip2 | Format::Xz | Format::Zstd | Format::Zip | Format::Foreign(_) => {
                let inner = Place { prefix: place.prefix, depth: place.depth + 1 };
                self.check_depth(inner.depth)?;
                self.stream(format, &mut all, name, &inner)
            }
        }
    }

    /// Reads an upload that is one file.
    fn single(&mut self, reader: &mut dyn Read, name: &str, place: &Place<'_>) -> Result<(), Error> {
        if FileKind::of(name).is_some() {
            let path = self.path(place, name)?;
            return self.file(&path, reader);
        }
        let bytes = self.take_whole(reader, self.largest_file())?;
        if !looks_like_conf(&bytes) {
            let message = "the upload is neither an archive nor a configuration file";
            return Err(Refusal::new(Reason::InvalidFormat, message).into());
        }
        let stem = if name.is_empty() || name == "-" { "upload" } else { name };
        let path = self.path(place, &format!("{stem}.conf"))?;
        self.deliver(&path, &bytes)
    }

    /// Takes a compressed file inside an archive when it is one of ours; others are passed over unread.
    fn inner_single(&mut self, reader: &mut dyn Read, path: &str) -> Result<(), Error> {
        if FileKind::of(uncompressed(path)).is_none() || self.wanted.is_some() {
            return Ok(());
        }
        let bytes = self.take_whole(reader, self.largest_file()).map_err(|error| error.at(path))?;
        // The path itself stands for the bytes as they are, compressed.
        let content = self.seen.mark(&bytes);
        match self.sight(&format!("{path}\0"), content)? {
            Sighting::First => self.hand_over(path, &bytes),
            Sighting::Again | Sighting::Different => Ok(()),
        }
    }

    fn inner_zip(&mut self, reader: &mut dyn Read, place: &Place<'_>) -> Result<(), Error> {
        let max = Bound { bytes: MAX_INNER_ZIP - self.inner_zip_bytes, name: "for zip archives inside other archives" };
        let bytes = self.take_whole(reader, max)?;
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.inner_zip_bytes += len;
        let done = zipped::walk(self, bytes, len, place);
        self.inner_zip_bytes -= len;
        done
    }

    pub(super) fn check_depth(&self, depth: u32) -> Result<(), Error> {
        let max = self.guard.limits.max_depth;
        if depth > max {
            let message = format!("archives lie inside one another more than {max} deep (max_depth)");
            return Err(Refusal::new(Reason::LimitExceeded, message).into());
        }
        Ok(())
    }

    pub(super) fn head(&self, reader: &mut dyn Read) -> Result<Vec<u8>, Error> {
        let mut head = Vec::with_capacity(HEAD);
        let limit = u64::try_from(HEAD).unwrap_or_default();
        reader.take(limit).read_to_end(&mut head).map_err(|error| self.guard.settle(|| damaged(error)))?;
        Ok(head)
    }
}

/// Tells whether text is a configuration file although its name does not say so: it has a header or a setting.
fn looks_like_conf(bytes: &[u8]) -> bool {
    let Ok(text) = redrive_conf::decode(bytes) else { return false };
    let means = |kind: &EntryKind| matches!(kind, EntryKind::Header { .. } | EntryKind::Setting { .. });
    !text.contains('\0') && redrive_conf::Entries::new(&text).any(|entry| means(&entry.kind))
}
