//! Shows the result of a merge.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::DEFAULT;

/// The file and the line that a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub path: Arc<str>,
    pub line: u32,
}

/// A value that takes effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    pub value: String,
    pub origin: Origin,
}

/// Says whether the settings of `[default]` are shown in every stanza of the same configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inherit {
    Default,
    Nothing,
}

/// The effective configuration: for each configuration file its stanzas, for each stanza its settings.
#[derive(Debug)]
pub struct Effective {
    confs: BTreeMap<String, BTreeMap<String, BTreeMap<String, Value>>>,
}

/// A stanza of the effective configuration.
#[derive(Debug, Clone, Copy)]
pub struct EffectiveStanza<'e> {
    pub name: &'e str,
    own: &'e BTreeMap<String, Value>,
    inherited: Option<&'e BTreeMap<String, Value>>,
}

impl Effective {
    pub(super) fn new(confs: BTreeMap<String, BTreeMap<String, BTreeMap<String, Value>>>) -> Self {
        Self { confs }
    }

    /// Lists the configuration files by name, without `.conf`.
    pub fn confs(&self) -> impl Iterator<Item = &str> {
        self.confs.keys().map(String::as_str)
    }

    /// Lists the stanzas of one configuration file by name.
    ///
    /// What a stanza inherits is looked up when it is shown: a million stanzas share one `[default]`.
    pub fn stanzas(&self, conf: &str, inherit: Inherit) -> impl Iterator<Item = EffectiveStanza<'_>> {
        let stanzas = self.confs.get(conf);
        let default = match inherit {
            Inherit::Default => stanzas.and_then(|stanzas| stanzas.get(DEFAULT)),
            Inherit::Nothing => None,
        };
        stanzas.into_iter().flatten().map(move |(name, own)| EffectiveStanza {
            name,
            own,
            inherited: default.filter(|_| name != DEFAULT),
        })
    }
}

impl<'e> EffectiveStanza<'e> {
    /// Lists the settings by key. A stanza's own value beats the one of `[default]`, whatever the files.
    pub fn settings(&self) -> Vec<(&'e str, &'e Value)> {
        let own = self.own;
        let filled = self.inherited.into_iter().flatten().filter(|(key, _)| !own.contains_key(*key));
        let mut all: Vec<_> = own.iter().chain(filled).map(|(key, value)| (key.as_str(), value)).collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all
    }
}
