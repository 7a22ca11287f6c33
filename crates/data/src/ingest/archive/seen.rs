//! Remembers every member by hashes, so that a hundred thousand long paths take little memory. The hashes are seeded: no
//! archive can be made to collide.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher as _, RandomState};
use std::io::{self, Read};

use siphasher::sip128::{Hasher128, SipHasher13};

/// What stands for a path, or for what a member holds.
pub(super) type Mark = u128;

pub(super) struct Seen {
    keys: (u64, u64),
    members: HashMap<Mark, Mark>,
    /// The folders that hold configuration files, at any depth.
    folders: HashSet<Mark>,
}

pub(super) enum Sighting {
    First,
    Again,
    Different,
}

impl Seen {
    pub fn new() -> Self {
        let random = RandomState::new();
        let keys = (random.hash_one(0), random.hash_one(1));
        Self { keys, members: HashMap::new(), folders: HashSet::new() }
    }

    pub fn add(&mut self, path: &str, content: Mark) -> Sighting {
        match self.members.insert(self.mark(path.as_bytes()), content) {
            None => Sighting::First,
            Some(earlier) if earlier == content => Sighting::Again,
            Some(_) => Sighting::Different,
        }
    }

    /// Remembers the folders around a configuration file.
    pub fn add_folders(&mut self, path: &str) {
        let mut rest = path;
        while let Some((folder, _)) = rest.rsplit_once('/') {
            if !self.folders.insert(self.mark(folder.as_bytes())) {
                return;
            }
            rest = folder;
        }
        self.folders.insert(self.mark(b""));
    }

    pub fn has_member(&self, path: &str) -> bool {
        self.members.contains_key(&self.mark(path.as_bytes()))
    }

    pub fn has_folder(&self, path: &str) -> bool {
        self.folders.contains(&self.mark(path.as_bytes()))
    }

    pub fn mark(&self, bytes: &[u8]) -> Mark {
        let mut hasher = self.hasher();
        hasher.write(bytes);
        hasher.finish128().as_u128()
    }

    fn hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.keys.0, self.keys.1)
    }

    /// Reads on from a reader, and marks what goes by.
    pub fn marking<'r>(&self, reader: &'r mut dyn Read) -> Marking<'r> {
        Marking { reader, hasher: self.hasher() }
    }
}

pub(super) struct Marking<'r> {
    reader: &'r mut dyn Read,
    hasher: SipHasher13,
}

impl Marking<'_> {
    pub fn mark(self) -> Mark {
        self.hasher.finish128().as_u128()
    }
}

impl Read for Marking<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.hasher.write(&buffer[..count]);
        Ok(count)
    }
}
