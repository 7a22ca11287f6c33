//! Reads an upload: tells formats apart, opens what lies inside, and hands over configuration files.

mod formats;
mod linked;
mod take;

use std::collections::HashMap;
use std::io::{self, Cursor, Read};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use redrive_conf::{FileKind, uncompressed};

use super::decompress::blame;
use super::error::{Error, Reason, Refusal};
use super::guard::{Guard, Source, Upload};
use super::limits::Limits;
use super::links::Links;
use super::path::is_of_macos;
use super::seen::{Mark, Seen, Sighting};
use super::sniff::{Format, sniff};
pub(super) use take::Bound;

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

    fn progress(&self) -> Progress {
        Progress {
            bytes_read: self.guard.bytes_read(),
            bytes_unpacked: self.guard.bytes_unpacked(),
            members: self.guard.members(),
        }
    }
}

fn damaged(error: io::Error) -> Refusal {
    blame("the data is damaged or cut off", error)
}
