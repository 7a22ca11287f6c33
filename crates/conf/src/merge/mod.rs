//! Merges the files of an upload into the configuration that takes effect, with the origin of each value.
//!
//! Values may be added in any order: each file has a standing in the context, and for each key the value of the file with
//! the highest standing is kept. So a caller can stream them out of a database, and memory holds only the result.

mod effective;
mod exports;
mod standing;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use effective::{Effective, EffectiveStanza, Inherit, Origin, Value};
pub use exports::Exports;
pub use standing::Context;

use crate::document::Document;
use crate::layer::{FileKind, Owner, Place};
use standing::Standing;

/// The stanza whose settings fill every other stanza; settings before the first header belong to it too.
pub(crate) const DEFAULT: &str = "default";

/// A setting that drops its stanza from every file below; a convention of people who keep their files in layers.
const DROP_KEY: &str = "_stanza";
const DROP_VALUE: &str = "<<DROP>>";

/// Collects values and makes the effective configuration of them.
#[derive(Debug)]
pub struct Merge {
    context: Context,
    exports: Exports,
    sources: Vec<Source>,
    confs: BTreeMap<String, BTreeMap<String, Collected>>,
}

#[derive(Debug)]
struct Source {
    path: Arc<str>,
    conf: String,
    standing: Standing,
    /// The app whose metadata decides what takes part; None where everything does.
    exporter: Option<String>,
}

/// Refers to a file that takes part in a [`Merge`].
#[derive(Debug, Clone, Copy)]
pub struct SourceId(usize);

#[derive(Debug, Default)]
struct Collected {
    values: BTreeMap<String, Candidate>,
    /// The highest file that drops the stanza.
    dropped_by: Option<usize>,
    /// The highest file that has the stanza, so that a stanza without settings stays.
    held_by: Option<usize>,
}

#[derive(Debug)]
struct Candidate {
    value: String,
    source: usize,
    line: u32,
}

impl Merge {
    /// Begins a merge. `exports` must already hold the metadata of all apps; the global context does not look at it.
    pub fn new(context: Context, exports: Exports) -> Self {
        Self { context, exports, sources: Vec::new(), confs: BTreeMap::new() }
    }

    /// Registers a file; None when it takes no part in this context.
    pub fn source(&mut self, path: &str) -> Option<SourceId> {
        let place = Place::of(path).filter(|place| place.kind == FileKind::Conf)?;
        let standing = Standing::of(&place, &self.context)?;
        let exporter = match (&standing, place.owner) {
            (Standing::OtherApp { .. }, Owner::App(app)) => Some(app.to_owned()),
            (_, Owner::System | Owner::App(_) | Owner::User { .. } | Owner::Alone | Owner::Elsewhere) => None,
        };
        self.sources.push(Source { path: path.into(), conf: place.name.to_owned(), standing, exporter });
        Some(SourceId(self.sources.len() - 1))
    }

    /// Adds a stanza of a file, whether it has settings or not.
    pub fn add_stanza(&mut self, source: SourceId, stanza: Option<&str>) {
        if self.takes_part(source, stanza, None) {
            let beats = self.beats(source.0, self.stanza(source, stanza).and_then(|stanza| stanza.held_by));
            let stanza = self.stanza_mut(source, stanza);
            if beats {
                stanza.held_by = Some(source.0);
            }
        }
    }

    /// Adds a setting of a file. `stanza` is None for settings before the first header, which belong to `[default]`.
    pub fn add(&mut self, source: SourceId, stanza: Option<&str>, key: &str, value: &str, line: u32) {
        if !self.takes_part(source, stanza, Some(key)) {
            return;
        }
        if key == DROP_KEY && value.contains(DROP_VALUE) {
            let beats = self.beats(source.0, self.stanza(source, stanza).and_then(|stanza| stanza.dropped_by));
            let stanza = self.stanza_mut(source, stanza);
            if beats {
                stanza.dropped_by = Some(source.0);
            }
            return;
        }
        let known = self.stanza(source, stanza).and_then(|stanza| stanza.values.get(key));
        let wins = match known {
            Some(known) if known.source == source.0 => line >= known.line,
            Some(known) => self.beats(source.0, Some(known.source)),
            None => true,
        };
        if wins {
            let candidate = Candidate { value: value.to_owned(), source: source.0, line };
            self.stanza_mut(source, stanza).values.insert(key.to_owned(), candidate);
        }
    }

    /// Adds a whole file; one that takes no part is passed over.
    pub fn add_document(&mut self, path: &str, document: &Document<'_>) {
        let Some(source) = self.source(path) else { return };
        for stanza in document.stanzas() {
            self.add_stanza(source, stanza.name());
            for setting in stanza.settings() {
                self.add(source, stanza.name(), setting.key, setting.value, setting.lines.first);
            }
        }
    }

    /// Ends the merge.
    pub fn finish(mut self) -> Effective {
        let confs = std::mem::take(&mut self.confs);
        let confs = confs.into_iter().map(|(conf, stanzas)| (conf, self.settle(stanzas))).collect();
        Effective::new(confs)
    }

    fn settle(&self, stanzas: BTreeMap<String, Collected>) -> BTreeMap<String, BTreeMap<String, Value>> {
        let mut settled = BTreeMap::new();
        for (name, collected) in stanzas {
            let stays = |source: usize| collected.dropped_by.is_none_or(|by| self.order(source) > self.order(by));
            let values: BTreeMap<String, Value> = collected
                .values
                .into_iter()
                .filter(|(_, candidate)| stays(candidate.source))
                .map(|(key, candidate)| (key, self.value(candidate)))
                .collect();
            if !values.is_empty() || collected.held_by.is_some_and(stays) {
                settled.insert(name, values);
            }
        }
        settled
    }

    fn value(&self, candidate: Candidate) -> Value {
        let origin = Origin { path: Arc::clone(&self.sources[candidate.source].path), line: candidate.line };
        Value { value: candidate.value, origin }
    }

    fn takes_part(&self, source: SourceId, stanza: Option<&str>, key: Option<&str>) -> bool {
        let source = &self.sources[source.0];
        let stanza = stanza.unwrap_or(DEFAULT);
        source.exporter.as_ref().is_none_or(|app| self.exports.has(app, &source.conf, stanza, key))
    }

    fn stanza(&self, source: SourceId, stanza: Option<&str>) -> Option<&Collected> {
        self.confs.get(&self.sources[source.0].conf)?.get(stanza.unwrap_or(DEFAULT))
    }

    fn stanza_mut(&mut self, source: SourceId, stanza: Option<&str>) -> &mut Collected {
        let conf = self.confs.entry(self.sources[source.0].conf.clone()).or_default();
        conf.entry(stanza.unwrap_or(DEFAULT).to_owned()).or_default()
    }

    fn beats(&self, source: usize, known: Option<usize>) -> bool {
        known.is_none_or(|known| self.order(source) > self.order(known))
    }

    /// Orders two files of one standing by their paths, so that every merge of the same files gives the same result.
    fn order(&self, source: usize) -> (&Standing, std::cmp::Reverse<&str>) {
        let source = &self.sources[source];
        (&source.standing, std::cmp::Reverse(&source.path))
    }
}
