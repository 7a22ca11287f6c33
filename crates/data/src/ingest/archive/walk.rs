//! Reads an upload: tells formats apart, opens what lies inside, and hands over configuration files.

use std::collections::HashMap;
use std::io::{self, Cursor, Read};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use redrive_conf::{EntryKind, FileKind, uncompressed};

use super::decompress::{Compression, blame, open};
use super::error::{Error, Reason, Refusal};
use super::guard::{Guard, Metered, Source, Upload};
use super::limits::{Limits, MAX_INNER_ZIP};
use super::links::Links;
use super::path::is_of_macos;
use super::seen::{Mark, Seen, Sighting};
use super::sniff::{Format, HEAD, sniff};
use super::{tarball, zipped};

/// A configuration file of an upload.
#[derive(Debug, Clone, Copy)]
pub struct Member<'m> {
    /// Clean and relative, with `/` between the parts. An archive inside the upload stands in it like a folder.
    pub path: &'m str,
    pub kind: FileKind,
    pub bytes: &'m [u8],
}

/// How far the reading is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read from the storage; for a zip archive some are read more than once.
    pub bytes_read: u64,
    pub bytes_unpacked: u64,
    /// Members of all kinds.
    pub members: u64,
}

/// Takes what [`read`] finds. It is called on the thread that reads.
pub trait Visitor {
    /// Takes a configuration file. `Break` ends the reading with [`Error::Stopped`].
    fn file(&mut self, member: Member<'_>) -> ControlFlow<()>;

    /// Hears of a link that gives no configuration: it leads to no file of the upload, or to a whole folder of them.
    /// `Break` ends the reading with [`Error::Stopped`].
    fn broken_link(&mut self, _path: &str, _target: &str, _why: &'static str) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Hears how far the reading is: after every configuration file, and at least once for each MiB that comes out.
    fn progress(&mut self, _progress: Progress) {}
}

/// What was found in an upload that was read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Configuration files handed over.
    pub files: u64,
    /// Configuration files that were there again with the same bytes and were handed over once.
    pub repeated: u64,
    /// Links that gave a configuration file its content.
    pub links: u64,
    /// Links that [`Visitor::broken_link`] heard of.
    pub broken_links: u64,
    pub progress: Progress,
}

/// Reads an upload from its beginning and hands over each `.conf` and `.meta` file.
///
/// `name` is the name of the uploaded file; it only matters where the upload is a single file. Files are handed over
/// before the end of the upload is known to be whole (those that are links come last), so a caller keeps what it got only when this returns `Ok`, or takes
/// care that reading the same upload again changes nothing.
pub fn read(
    source: &mut dyn Source,
    name: &str,
    limits: &Limits,
    cancelled: &AtomicBool,
    visitor: &mut dyn Visitor,
) -> Result<Summary, Error> {
    let (guard, second) = (Guard::new(limits, cancelled), Guard::new(limits, cancelled));
    let mut walk = Walk::new(&guard, visitor);
    walk.upload(&Upload::new(source, &guard), name)?;
    guard.noted()?;
    if walk.resolve_links()? {
        walk.guard = &second;
        walk.upload(&Upload::new(source, &second), name)?;
        second.noted()?;
    }
    walk.finish()
}

/// Where members lie: the archives around them, and how many.
pub(super) struct Place<'p> {
    pub prefix: &'p str,
    pub depth: u32,
}

pub(super) struct Walk<'g, 'v> {
    pub guard: &'g Guard<'g>,
    visitor: &'v mut dyn Visitor,
    seen: Seen,
    links: Links,
    /// In the second pass: the members that links lead to, with the paths of those links.
    wanted: Option<HashMap<Mark, Vec<String>>>,
    /// The bytes of the file in hand; kept to be used again.
    buffer: Vec<u8>,
    inner_zip_bytes: u64,
    told_at: u64,
    files: u64,
    repeated: u64,
    linked: u64,
    broken_links: u64,
}

const PROGRESS_STEP: u64 = 1 << 20;
const CHUNK: usize = 64 << 10;

/// Files that are zip archives inside but never carry configuration for us; opening them would only cost time and memory.
const DOCUMENTS: [&str; 10] = [".jar", ".war", ".whl", ".egg", ".xlsx", ".docx", ".pptx", ".odt", ".ods", ".nupkg"];

/// How many bytes of a file [`is_archive`] wants to see.
pub const HEAD_BYTES: u64 = 512;

/// Tells by the first bytes of a file whether [`read`] would look into it when it lies inside an archive.
pub fn is_archive(path: &str, head: &[u8]) -> bool {
    match sniff(head) {
        Format::Plain | Format::Foreign(_) => false,
        Format::Gzip | Format::Bzip2 | Format::Xz | Format::Zstd | Format::Zip | Format::Tar => {
            !DOCUMENTS.iter().any(|ending| path.ends_with(ending))
        }
    }
}

impl<'g, 'v> Walk<'g, 'v> {
    fn new(guard: &'g Guard<'g>, visitor: &'v mut dyn Visitor) -> Self {
        Self {
            guard,
            visitor,
            seen: Seen::new(),
            links: Links::default(),
            wanted: None,
            buffer: Vec::new(),
            inner_zip_bytes: 0,
            told_at: 0,
            files: 0,
            repeated: 0,
            linked: 0,
            broken_links: 0,
        }
    }

    fn finish(self) -> Result<Summary, Error> {
        if self.files == 0 {
            let members = self.guard.members();
            let message = format!("the upload has no .conf and no .meta file among its {members} members");
            return Err(Refusal::new(Reason::NoFiles, message).into());
        }
        let Self { files, repeated, linked: links, broken_links, .. } = self;
        Ok(Summary { files, repeated, links, broken_links, progress: self.progress() })
    }

    fn upload(&mut self, upload: &Upload<'_>, name: &str) -> Result<(), Error> {
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
    fn stream(&mut self, format: Format, reader: &mut dyn Read, name: &str, place: &Place<'_>) -> Result<(), Error> {
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

    /// Handles a member that is a file: hands it over, opens it, or passes over it. `content` stands for what it holds,
    /// where that can be told without reading it.
    pub fn member(&mut self, path: &str, body: &mut dyn Read, depth: u32, content: Option<&[u8]>) -> Result<(), Error> {
        if is_of_macos(path) {
            return Ok(());
        }
        let is_file = FileKind::of(path).is_some();
        if self.wanted.is_some() {
            let mark = self.seen.mark(path.as_bytes());
            return match self.wanted.as_mut().and_then(|wanted| wanted.remove(&mark)) {
                Some(links) => self.linked(&links, body).map_err(|error| error.at(path)),
                None if is_file => Ok(()),
                None => self.other(path, body, depth),
            };
        }
        if is_file {
            return self.file(path, body);
        }
        let mark = match content {
            Some(content) => {
                self.other(path, body, depth)?;
                self.seen.mark(content)
            }
            None => {
                let mut marking = self.seen.marking(body);
                self.other(path, &mut marking, depth)?;
                let drained = self.discard(&mut marking);
                drained.map_err(|error| self.guard.settle(|| damaged(error).at(path)))?;
                marking.mark()
            }
        };
        self.sight(path, mark).map(drop)
    }

    /// Passes over a member that cannot be read and need not be.
    pub fn pass_over(&mut self, path: &str, content: &[u8]) -> Result<(), Error> {
        if is_of_macos(path) || self.wanted.is_some() {
            return Ok(());
        }
        self.sight(path, self.seen.mark(content)).map(drop)
    }

    /// Remembers a member; one that was there before with other content refuses the upload.
    fn sight(&mut self, path: &str, content: Mark) -> Result<Sighting, Error> {
        match self.seen.add(path, content) {
            Sighting::Different => {
                let message = "the archive holds this file twice, with different content";
                Err(Refusal::new(Reason::MalformedArchive, message).at(path.trim_end_matches('\0')).into())
            }
            sighting @ (Sighting::First | Sighting::Again) => Ok(sighting),
        }
    }

    /// Opens a member that is no configuration file, where it is an archive.
    fn other(&mut self, path: &str, body: &mut dyn Read, depth: u32) -> Result<(), Error> {
        if DOCUMENTS.iter().any(|ending| path.ends_with(ending)) {
            return Ok(());
        }
        let head = self.head(body).map_err(|error| error.at(path))?;
        let format = sniff(&head);
        match format {
            Format::Plain | Format::Foreign(_) => Ok(()),
            Format::Gzip | Format::Bzip2 | Format::Xz | Format::Zstd | Format::Zip | Format::Tar => {
                self.check_depth(depth + 1).map_err(|error| error.at(path))?;
                let inner = Place { prefix: path, depth: depth + 1 };
                let mut all = Cursor::new(&head).chain(body);
                self.stream(format, &mut all, path, &inner).map_err(|error| error.at(path))
            }
        }
    }

    fn check_depth(&self, depth: u32) -> Result<(), Error> {
        let max = self.guard.limits.max_depth;
        if depth > max {
            let message = format!("archives lie inside one another more than {max} deep (max_depth)");
            return Err(Refusal::new(Reason::LimitExceeded, message).into());
        }
        Ok(())
    }

    /// Remembers a link; its target is a path of the archive that holds it.
    pub fn link(&mut self, place: &Place<'_>, path: &str, target: &str) -> Result<(), Error> {
        if self.wanted.is_some() || is_of_macos(path) {
            return Ok(());
        }
        let target = match (place.prefix, target) {
            (prefix, "") => prefix.to_owned(),
            (_, target) => self.path(place, target)?,
        };
        Ok(self.links.add(path.to_owned(), target)?)
    }

    /// Finds out where the links lead; tells whether a second pass must read what they lead to.
    fn resolve_links(&mut self) -> Result<bool, Error> {
        let resolved = std::mem::take(&mut self.links).resolve(&self.seen);
        for broken in resolved.broken {
            let path = &broken.link.path;
            if self.seen.has_member(path) {
                let message = "the archive holds this path as a file, and as a link to something else";
                return Err(Refusal::new(Reason::MalformedArchive, message).at(path).into());
            }
            self.broken_links += 1;
            if self.visitor.broken_link(path, &broken.link.target, broken.why).is_break() {
                return Err(Error::Stopped);
            }
        }
        self.wanted = Some(resolved.wanted);
        Ok(self.wanted.as_ref().is_some_and(|wanted| !wanted.is_empty()))
    }

    /// Hands over what links lead to, once for each. It counts as unpacked each time.
    fn linked(&mut self, links: &[String], body: &mut dyn Read) -> Result<(), Error> {
        let bytes = self.take_whole(body, self.largest_file())?;
        let content = self.seen.mark(&bytes);
        for path in links {
            self.guard.check_cancelled()?;
            self.guard.count_unpacked(bytes.len())?;
            match self.sight(path, content)? {
                Sighting::First => {
                    self.linked += 1;
                    self.hand_over(path, &bytes)?;
                }
                Sighting::Again | Sighting::Different => self.repeated += 1,
            }
        }
        Ok(())
    }

    /// Puts the archives around a member in front of its path.
    pub fn path(&self, place: &Place<'_>, inside: &str) -> Result<String, Error> {
        let path = if place.prefix.is_empty() { inside.to_owned() } else { format!("{}/{inside}", place.prefix) };
        let max = self.guard.limits.max_path;
        if path.len() > max {
            let shown: String = path.chars().take(80).collect();
            let message = format!("the path has {} bytes, more than {max} (max_path)", path.len());
            return Err(Refusal::new(Reason::LimitExceeded, message).at(&format!("{shown}…")).into());
        }
        Ok(path)
    }

    /// Refuses a configuration file by the size that the archive tells, before it is unpacked.
    pub fn check_told_size(&self, path: &str, size: u64) -> Result<(), Error> {
        let max = self.largest_file();
        if FileKind::of(path).is_some() && size > max.bytes {
            return Err(max.refusal().at(path).into());
        }
        Ok(())
    }

    fn largest_file(&self) -> Bound {
        Bound { bytes: self.guard.limits.max_file_bytes, name: "max_file_bytes" }
    }

    fn file(&mut self, path: &str, body: &mut dyn Read) -> Result<(), Error> {
        let mut bytes = std::mem::take(&mut self.buffer);
        bytes.clear();
        let done = self
            .fill(&mut bytes, body, self.largest_file())
            .and_then(|()| self.deliver(path, &bytes))
            .map_err(|error| error.at(path));
        self.buffer = bytes;
        done
    }

    fn deliver(&mut self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        let content = self.seen.mark(bytes);
        match self.sight(path, content)? {
            Sighting::First => self.hand_over(path, bytes),
            Sighting::Again | Sighting::Different => {
                self.repeated += 1;
                Ok(())
            }
        }
    }

    fn hand_over(&mut self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        let Some(kind) = FileKind::of(uncompressed(path)) else { return Ok(()) };
        self.files += 1;
        self.seen.add_folders(path);
        let flow = self.visitor.file(Member { path, kind, bytes });
        self.visitor.progress(self.progress());
        match flow {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Stopped),
        }
    }

    /// Reads to the end, but not beyond a bound.
    pub fn take_whole(&mut self, reader: &mut dyn Read, max: Bound) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.fill(&mut bytes, reader, max)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut Vec<u8>, reader: &mut dyn Read, bound: Bound) -> Result<(), Error> {
        let max = usize::try_from(bound.bytes).unwrap_or(usize::MAX);
        let mut chunk = vec![0; CHUNK];
        loop {
            let count = read_some(reader, &mut chunk).map_err(|error| self.guard.settle(|| damaged(error)))?;
            if count == 0 {
                return Ok(());
            }
            let room = max.saturating_sub(bytes.len());
            if count > room {
                return Err(bound.refusal().into());
            }
            if bytes.capacity() - bytes.len() < count {
                // Doubling would take up to twice the bound.
                bytes.reserve_exact(bytes.len().max(CHUNK).min(room));
            }
            bytes.extend_from_slice(&chunk[..count]);
            self.tell_progress();
        }
    }

    /// Reads to the end and forgets it.
    pub fn discard(&mut self, reader: &mut dyn Read) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        while read_some(reader, &mut chunk)? > 0 {
            self.tell_progress();
        }
        Ok(())
    }

    fn head(&self, reader: &mut dyn Read) -> Result<Vec<u8>, Error> {
        let mut head = Vec::with_capacity(HEAD);
        let limit = u64::try_from(HEAD).unwrap_or_default();
        reader.take(limit).read_to_end(&mut head).map_err(|error| self.guard.settle(|| damaged(error)))?;
        Ok(head)
    }

    fn progress(&self) -> Progress {
        Progress {
            bytes_read: self.guard.bytes_read(),
            bytes_unpacked: self.guard.bytes_unpacked(),
            members: self.guard.members(),
        }
    }

    fn tell_progress(&mut self) {
        let now = self.guard.bytes_unpacked();
        if now.saturating_sub(self.told_at) >= PROGRESS_STEP {
            self.told_at = now;
            self.visitor.progress(self.progress());
        }
    }
}

fn read_some(reader: &mut dyn Read, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn damaged(error: io::Error) -> Refusal {
    blame("the data is damaged or cut off", error)
}

/// How much may be held in memory, and the name of that limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub bytes: u64,
    pub name: &'static str,
}

impl Bound {
    fn refusal(self) -> Refusal {
        Refusal::new(Reason::LimitExceeded, format!("the file has more than {} bytes ({})", self.bytes, self.name))
    }
}

/// Tells whether text is a configuration file although its name does not say so: it has a header or a setting.
fn looks_like_conf(bytes: &[u8]) -> bool {
    let Ok(text) = redrive_conf::decode(bytes) else { return false };
    let means = |kind: &EntryKind| matches!(kind, EntryKind::Header { .. } | EntryKind::Setting { .. });
    !text.contains('\0') && redrive_conf::Entries::new(&text).any(|entry| means(&entry.kind))
}
