//! Reads an upload: tells formats apart, opens what lies inside, and hands over configuration files.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Cursor, Read};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use redrive_conf::{EntryKind, FileKind};
use siphasher::sip128::{Hasher128, SipHasher13};

use super::decompress::{Compression, blame, inner_name, open};
use super::error::{Error, Reason, Refusal};
use super::guard::{Guard, Metered, Source, Upload};
use super::limits::{Limits, MAX_INNER_ZIP};
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

    /// Hears of a link that stands in the place of a configuration file. Links are not followed.
    fn link(&mut self, _path: &str, _target: &str) {}

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
    /// Links in the place of configuration files.
    pub links: u64,
    pub progress: Progress,
}

/// Reads an upload from its beginning and hands over each `.conf` and `.meta` file.
///
/// `name` is the name of the uploaded file; it only matters where the upload is a single file. Files are handed over
/// before the end of the upload is known to be whole, so a caller keeps what it got only when this returns `Ok`, or takes
/// care that reading the same upload again changes nothing.
pub fn read(
    source: &mut dyn Source,
    name: &str,
    limits: &Limits,
    cancelled: &AtomicBool,
    visitor: &mut dyn Visitor,
) -> Result<Summary, Error> {
    let guard = Guard::new(limits, cancelled);
    let upload = Upload::new(source, &guard);
    let mut walk = Walk::new(&guard, visitor);
    walk.upload(&upload, name)?;
    guard.noted()?;
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
    /// The bytes of the file in hand; kept to be used again.
    buffer: Vec<u8>,
    inner_zip_bytes: u64,
    told_at: u64,
    files: u64,
    repeated: u64,
    links: u64,
}

const PROGRESS_STEP: u64 = 1 << 20;
const CHUNK: usize = 64 << 10;

/// Files that are zip archives inside but never carry configuration for us; opening them would only cost time and memory.
const DOCUMENTS: [&str; 10] = [".jar", ".war", ".whl", ".egg", ".xlsx", ".docx", ".pptx", ".odt", ".ods", ".nupkg"];

impl<'g, 'v> Walk<'g, 'v> {
    fn new(guard: &'g Guard<'g>, visitor: &'v mut dyn Visitor) -> Self {
        Self {
            guard,
            visitor,
            seen: Seen::new(),
            buffer: Vec::new(),
            inner_zip_bytes: 0,
            told_at: 0,
            files: 0,
            repeated: 0,
            links: 0,
        }
    }

    fn finish(self) -> Result<Summary, Error> {
        if self.files == 0 {
            let members = self.guard.members();
            let message = format!("the upload has no .conf and no .meta file among its {members} members");
            return Err(Refusal::new(Reason::NoFiles, message).into());
        }
        let Self { files, repeated, links, .. } = self;
        Ok(Summary { files, repeated, links, progress: self.progress() })
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
        let name = inner_name(name);
        let mut all = Cursor::new(&head).chain(&mut unpacked);
        match format {
            Format::Tar => tarball::walk(self, &mut all, place),
            Format::Plain if place.depth > 0 => self.inner_single(&mut all, name),
            Format::Foreign(_) if place.depth > 0 => Ok(()),
            Format::Plain => self.single(&mut all, name, place),
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
        if FileKind::of(path).is_some() { self.file(path, reader) } else { Ok(()) }
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

    /// Handles a member that is a file: hands it over, opens it, or passes over it.
    pub fn member(&mut self, path: &str, body: &mut dyn Read, depth: u32) -> Result<(), Error> {
        if FileKind::of(path).is_some() {
            return self.file(path, body);
        }
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

    pub fn link(&mut self, path: &str, target: &str) {
        if FileKind::of(path).is_some() {
            self.links += 1;
            self.visitor.link(path, target);
        }
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
        let Some(kind) = FileKind::of(path) else { return Ok(()) };
        match self.seen.add(path, bytes) {
            Sighting::First => {}
            Sighting::Again => {
                self.repeated += 1;
                return Ok(());
            }
            Sighting::Different => {
                let message = "the archive holds this file twice, with different content";
                return Err(Refusal::new(Reason::MalformedArchive, message).at(path).into());
            }
        }
        self.files += 1;
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

/// Remembers each file by two hashes, so that a hundred thousand long paths take little memory. The hashes are seeded: no
/// archive can be made to collide.
struct Seen {
    keys: (u64, u64),
    files: HashMap<u128, u128>,
}

enum Sighting {
    First,
    Again,
    Different,
}

impl Seen {
    fn new() -> Self {
        let random = RandomState::new();
        Self { keys: (random.hash_one(0), random.hash_one(1)), files: HashMap::new() }
    }

    fn add(&mut self, path: &str, bytes: &[u8]) -> Sighting {
        let content = self.hash(bytes);
        match self.files.insert(self.hash(path.as_bytes()), content) {
            None => Sighting::First,
            Some(earlier) if earlier == content => Sighting::Again,
            Some(_) => Sighting::Different,
        }
    }

    fn hash(&self, bytes: &[u8]) -> u128 {
        let mut hasher = SipHasher13::new_with_keys(self.keys.0, self.keys.1);
        std::hash::Hasher::write(&mut hasher, bytes);
        hasher.finish128().as_u128()
    }
}
