//! Compares two files by stanza and key. Order, comments and the spacing around keys and values do not count.

use std::collections::BTreeMap;

use crate::document::Document;

/// The content of one file, made to be compared.
#[derive(Debug, Clone, Default)]
pub struct Content {
    stanzas: BTreeMap<Option<String>, BTreeMap<String, Line>>,
}

/// A value and the line that it stands at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub value: String,
    pub line: u32,
}

/// One difference. `stanza` is None for the settings before the first header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'c> {
    /// The settings of the stanza follow as [`Change::SettingAdded`].
    StanzaAdded {
        stanza: Option<&'c str>,
    },
    /// The settings of the stanza follow as [`Change::SettingRemoved`].
    StanzaRemoved {
        stanza: Option<&'c str>,
    },
    SettingAdded {
        stanza: Option<&'c str>,
        key: &'c str,
        new: &'c Line,
    },
    SettingRemoved {
        stanza: Option<&'c str>,
        key: &'c str,
        old: &'c Line,
    },
    SettingChanged {
        stanza: Option<&'c str>,
        key: &'c str,
        old: &'c Line,
        new: &'c Line,
    },
}

impl Content {
    /// Adds a stanza, whether it has settings or not.
    pub fn add_stanza(&mut self, stanza: Option<&str>) {
        self.stanzas.entry(stanza.map(str::to_owned)).or_default();
    }

    /// Adds a setting; where two keys differ only by spacing, the one at the later line counts.
    pub fn add(&mut self, stanza: Option<&str>, key: &str, value: &str, line: u32) {
        let settings = self.stanzas.entry(stanza.map(str::to_owned)).or_default();
        let key = key.trim().to_owned();
        if settings.get(&key).is_none_or(|known| known.line <= line) {
            settings.insert(key, Line { value: value.trim().to_owned(), line });
        }
    }
}

impl From<&Document<'_>> for Content {
    fn from(document: &Document<'_>) -> Self {
        let mut content = Self::default();
        for stanza in document.stanzas() {
            content.add_stanza(stanza.name());
            for setting in stanza.settings() {
                content.add(stanza.name(), setting.key, setting.value, setting.lines.first);
            }
        }
        content
    }
}

/// Lists the differences between an old and a new file, by stanza and key.
pub fn diff<'c>(old: &'c Content, new: &'c Content) -> Vec<Change<'c>> {
    let mut changes = Vec::new();
    for (name, before, after) in pairs(&old.stanzas, &new.stanzas) {
        let stanza = name.as_deref();
        match (before, after) {
            (None, Some(_)) => changes.push(Change::StanzaAdded { stanza }),
            (Some(_), None) => changes.push(Change::StanzaRemoved { stanza }),
            (Some(_), Some(_)) | (None, None) => {}
        }
        let (before, after) = (before.unwrap_or(&EMPTY), after.unwrap_or(&EMPTY));
        changes.extend(pairs(before, after).filter_map(|(key, old, new)| setting(stanza, key, old, new)));
    }
    changes
}

static EMPTY: BTreeMap<String, Line> = BTreeMap::new();

fn setting<'c>(
    stanza: Option<&'c str>,
    key: &'c str,
    old: Option<&'c Line>,
    new: Option<&'c Line>,
) -> Option<Change<'c>> {
    match (old, new) {
        (None, Some(new)) => Some(Change::SettingAdded { stanza, key, new }),
        (Some(old), None) => Some(Change::SettingRemoved { stanza, key, old }),
        (Some(old), Some(new)) if old.value != new.value => Some(Change::SettingChanged { stanza, key, old, new }),
        (Some(_), Some(_)) | (None, None) => None,
    }
}

/// Goes through two sorted maps side by side.
fn pairs<'m, K: Ord, V>(
    old: &'m BTreeMap<K, V>,
    new: &'m BTreeMap<K, V>,
) -> impl Iterator<Item = (&'m K, Option<&'m V>, Option<&'m V>)> {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    std::iter::from_fn(move || {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return None,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((before, _)), Some((after, _))) => before.cmp(after),
        };
        let before = if order.is_le() { old.next() } else { None };
        let after = if order.is_ge() { new.next() } else { None };
        let (key, _) = before.or(after)?;
        Some((key, before.map(|(_, value)| value), after.map(|(_, value)| value)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(text: &str) -> Content {
        Content::from(&Document::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn order_spacing_and_comments_do_not_count() {
        let old = content("x=1\n[a]\nb = 1\nc = 2\n[d]\n");
        let new = content("# new\n x = 1\n[d]\n[a]\nc=2  \n\n  b=1\n");
        assert_eq!(diff(&old, &new), []);
    }

    #[test]
    fn each_difference_names_stanza_key_and_lines() {
        let old = content("[a]\nb = 1\nc = 2\n[gone]\nk = 1\n");
        let new = content("[a]\nb = 2\n\nd = \n[new]\n");
        let line = |value: &str, line| Line { value: value.into(), line };
        let (b1, b2, c, d, k) = (line("1", 2), line("2", 2), line("2", 3), line("", 4), line("1", 5));
        let a = Some("a");
        assert_eq!(
            diff(&old, &new),
            [
                Change::SettingChanged { stanza: a, key: "b", old: &b1, new: &b2 },
                Change::SettingRemoved { stanza: a, key: "c", old: &c },
                Change::SettingAdded { stanza: a, key: "d", new: &d },
                Change::StanzaRemoved { stanza: Some("gone") },
                Change::SettingRemoved { stanza: Some("gone"), key: "k", old: &k },
                Change::StanzaAdded { stanza: Some("new") },
            ]
        );
    }
}
