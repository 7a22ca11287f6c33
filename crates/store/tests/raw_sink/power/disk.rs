//! A disk on which only what was synced is sure, and anything else may be there or not when the power fails.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::power::trace::Call;

const TOP: usize = 0;

/// Before the power fails.
pub struct Disk {
    top: PathBuf,
    nodes: Vec<Node>,
    entries: Vec<Entry>,
    now: usize,
}

/// A file or a directory.
struct Node {
    is_directory: bool,
    bytes: Vec<u8>,
    /// When its content was last changed; none while it is being changed.
    changed: Option<usize>,
    /// When the last sync that has ended was begun.
    synced: Option<usize>,
}

/// A name in a directory.
struct Entry {
    directory: usize,
    name: String,
    node: usize,
    /// None while it is being made.
    made: Option<usize>,
    removed: Removed,
}

#[derive(PartialEq, Eq)]
enum Removed {
    No,
    Begun,
    At(usize),
}

/// The names that one failure of the power leaves.
pub type Left = BTreeSet<usize>;

impl Disk {
    /// A disk that holds `top` and nothing in it.
    pub fn new(top: &Path) -> Self {
        let top_node = Node { is_directory: true, bytes: Vec::new(), changed: Some(0), synced: None };
        Self { top: top.to_owned(), nodes: vec![top_node], entries: Vec::new(), now: 0 }
    }

    /// Gives the time at which the call began, for its end.
    pub fn begin(&mut self, call: &Call) -> usize {
        self.now += 1;
        match call {
            Call::Create(_) | Call::MakeDirectory(_) | Call::Link(..) => self.make(call),
            Call::Rename(from, _) => {
                let entry = self.entry(from).unwrap();
                self.make(call);
                self.entries[entry].removed = Removed::Begun;
            }
            Call::Write(path, bytes) => {
                let node = self.find(path).unwrap_or_else(|| panic!("{} is written", path.display()));
                self.nodes[node].bytes.extend_from_slice(bytes);
                self.nodes[node].changed = None;
            }
            Call::Remove(path) => {
                let entry = self.entry(path).unwrap();
                self.entries[entry].removed = Removed::Begun;
            }
            Call::Open(_) | Call::Sync(_) | Call::List(_) | Call::Said(_) => {}
        }
        self.now
    }

    pub fn end(&mut self, call: &Call, begun: usize) {
        self.now += 1;
        let now = self.now;
        match call {
            Call::Create(path) | Call::MakeDirectory(path) | Call::Link(_, path) => {
                self.make(call);
                let entry = self.entry(path).unwrap_or_else(|| panic!("{} is made", path.display()));
                self.entries[entry].made.get_or_insert(now);
            }
            Call::Rename(_, path) => {
                let entry = self.entry(path).unwrap_or_else(|| panic!("{} is renamed", path.display()));
                self.entries[entry].made.get_or_insert(now);
                self.end_removals();
            }
            Call::Write(path, _) => {
                let node = self.find(path).unwrap();
                self.nodes[node].changed = Some(now);
            }
            Call::Remove(_) => self.end_removals(),
            Call::Sync(path) if *path == self.top => self.nodes[TOP].synced = Some(begun),
            Call::Sync(path) => {
                let node = self.find(path).unwrap_or_else(|| panic!("{} is synced", path.display()));
                self.nodes[node].synced = self.nodes[node].synced.max(Some(begun));
            }
            Call::Open(_) | Call::List(_) | Call::Said(_) => {}
        }
    }

    fn end_removals(&mut self) {
        for entry in self.entries.iter_mut().filter(|entry| entry.removed == Removed::Begun) {
            entry.removed = Removed::At(self.now);
        }
    }

    /// Makes a name, unless it is there. At a call's beginning its directory may not be there yet: the call of another
    /// thread that makes it is seen later than it works.
    fn make(&mut self, call: &Call) {
        let (path, node) = match call {
            Call::Create(path) | Call::MakeDirectory(path) => (path, None),
            Call::Link(from, to) | Call::Rename(from, to) => (to, self.find(from)),
            Call::Open(_) | Call::Write(..) | Call::Remove(_) | Call::Sync(_) | Call::List(_) | Call::Said(_) => return,
        };
        let (None, Some(directory)) = (self.entry(path), self.find(path.parent().unwrap())) else { return };
        let node = node.unwrap_or_else(|| {
            let is_directory = matches!(call, Call::MakeDirectory(_));
            self.nodes.push(Node { is_directory, bytes: Vec::new(), changed: Some(self.now), synced: None });
            self.nodes.len() - 1
        });
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        self.entries.push(Entry { directory, name, node, made: None, removed: Removed::No });
    }

    fn entry(&self, path: &Path) -> Option<usize> {
        let directory = self.find(path.parent()?)?;
        let name = path.file_name()?.to_str()?;
        self.entries
            .iter()
            .rposition(|entry| entry.directory == directory && entry.name == name && entry.removed == Removed::No)
    }

    fn find(&self, path: &Path) -> Option<usize> {
        let mut node = TOP;
        for step in path.strip_prefix(&self.top).ok()?.components() {
            let Component::Normal(name) = step else { return None };
            let here = |entry: &&Entry| entry.directory == node && *entry.name == *name && entry.removed == Removed::No;
            node = self.entries.iter().rfind(here)?.node;
        }
        Some(node)
    }

    fn is_sure(&self, entry: &Entry) -> bool {
        let synced = self.nodes[entry.directory].synced;
        entry.removed == Removed::No && entry.made.is_some_and(|made| Some(made) < synced)
    }

    fn is_gone(&self, entry: &Entry) -> bool {
        let synced = self.nodes[entry.directory].synced;
        matches!(entry.removed, Removed::At(at) if Some(at) < synced)
    }

    fn has_sure_content(&self, node: &Node) -> bool {
        node.changed.is_some_and(|changed| Some(changed) < node.synced)
    }

    /// What may be left if the power fails now: only what is sure, everything, or each file alone with what is sure.
    pub fn outcomes(&self) -> Vec<Left> {
        let every: Left = (0..self.entries.len()).filter(|&entry| !self.is_gone(&self.entries[entry])).collect();
        let (sure, unsure): (Left, Left) = every.iter().partition(|&&entry| self.is_sure(&self.entries[entry]));
        let (directories, files): (Left, Left) =
            unsure.iter().partition(|&&entry| self.nodes[self.entries[entry].node].is_directory);
        let alone = files.into_iter().filter(|&file| !self.entries[file].name.contains('#'));
        let alone = alone.map(|file| sure.iter().chain(&directories).copied().chain([file]).collect());
        let alone: Vec<Left> = alone.collect();
        alone.into_iter().chain([sure, every]).collect()
    }

    /// The names and lengths of what is left.
    pub fn describe(&self, left: &Left) -> String {
        let mut text = String::new();
        self.visit(left, TOP, Path::new(""), &mut |path, node| {
            let length = if self.has_sure_content(node) { node.bytes.len() } else { 0 };
            writeln!(text, "{} {length}", path.display()).unwrap();
        });
        text
    }

    /// Makes in `folder` what is left. A file whose content is not sure is empty.
    pub fn restore(&self, left: &Left, folder: &Path) {
        self.visit(left, TOP, Path::new(""), &mut |path, node| {
            let path = folder.join(path);
            if node.is_directory {
                fs::create_dir(path).unwrap();
            } else {
                fs::write(path, if self.has_sure_content(node) { &node.bytes[..] } else { b"" }).unwrap();
            }
        });
    }

    /// The files under the name of a finished object whose content may be lost.
    pub fn torn(&self) -> Vec<&str> {
        let is_final = |entry: &&Entry| entry.name.ends_with(".zst") || entry.name.ends_with(".json");
        let torn = self.entries.iter().filter(|entry| !self.is_gone(entry) && is_final(entry));
        let torn = torn.filter(|entry| self.has_final_name(entry.directory));
        torn.filter(|entry| !self.has_sure_content(&self.nodes[entry.node])).map(|entry| entry.name.as_str()).collect()
    }

    /// Whether a directory may be found under another name than one that ends in `#` and a number.
    fn has_final_name(&self, directory: usize) -> bool {
        let mut names = self.entries.iter().filter(|entry| entry.node == directory && !self.is_gone(entry));
        directory == TOP || names.any(|entry| !entry.name.contains('#'))
    }

    fn visit(&self, left: &Left, directory: usize, path: &Path, see: &mut impl FnMut(&Path, &Node)) {
        let mut names = BTreeSet::new();
        // The newest of a name first: an older one may only be left without it.
        for entry in left.iter().rev().map(|&entry| &self.entries[entry]).filter(|entry| entry.directory == directory) {
            if !names.insert(&entry.name) {
                continue;
            }
            let path = path.join(&entry.name);
            see(&path, &self.nodes[entry.node]);
            self.visit(left, entry.node, &path, see);
        }
    }
}
