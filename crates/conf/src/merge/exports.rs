//! Reads from metadata which objects an app gives to the others.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;

use crate::document::Document;
use crate::layer::{FileKind, Layer, Owner, Place};

/// The exported objects of all apps, read from `metadata/default.meta` and `metadata/local.meta`.
///
/// The stanza that names an object most exactly decides: `[props/name/key]`, `[props/name]`, `[props]`, `[]`. The local file
/// beats the shipped one stanza by stanza. What no stanza speaks of is not exported.
#[derive(Debug, Clone, Default)]
pub struct Exports {
    apps: HashMap<String, HashMap<String, Export>>,
}

#[derive(Debug, Clone, Copy)]
struct Export {
    to_all: bool,
    layer: Layer,
}

impl Exports {
    /// Takes up one setting of a file; anything but `export` in the metadata of an app is passed over.
    pub fn add(&mut self, path: &str, stanza: Option<&str>, key: &str, value: &str) {
        let Some(place) = Place::of(path).filter(|place| place.kind == FileKind::Meta && key.trim() == "export") else {
            return;
        };
        let Owner::App(app) = place.owner else { return };
        let object = percent_decode_str(stanza.unwrap_or_default().trim()).decode_utf8_lossy().into_owned();
        let export = Export { to_all: value.trim() == "system", layer: place.layer };
        let objects = self.apps.entry(app.to_owned()).or_default();
        match objects.get(&object) {
            Some(known) if known.layer > export.layer => {}
            Some(_) | None => drop(objects.insert(object, export)),
        }
    }

    /// Takes up a whole file.
    pub fn add_document(&mut self, path: &str, document: &Document<'_>) {
        for stanza in document.stanzas() {
            for setting in stanza.settings() {
                self.add(path, stanza.name(), setting.key, setting.value);
            }
        }
    }

    /// Tells whether other apps see a stanza of an app, or one key of it.
    pub fn has(&self, app: &str, conf: &str, stanza: &str, key: Option<&str>) -> bool {
        let Some(objects) = self.apps.get(app) else { return false };
        let by_key = key.and_then(|key| objects.get(&format!("{conf}/{stanza}/{key}")));
        by_key
            .or_else(|| objects.get(&format!("{conf}/{stanza}")))
            .or_else(|| objects.get(conf))
            .or_else(|| objects.get(""))
            .is_some_and(|export| export.to_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_exact_stanza_decides_and_local_beats_default() {
        let mut exports = Exports::default();
        let default = Document::parse(b"[]\nexport = none\n[props]\nexport = system\n[props/a%3Ab]\nexport = none\n");
        exports.add_document("apps/x/metadata/default.meta", &default.unwrap());
        assert!(exports.has("x", "props", "s", Some("k")));
        assert!(!exports.has("x", "props", "a:b", Some("k")));
        assert!(!exports.has("x", "macros", "m", None));
        assert!(!exports.has("y", "props", "s", Some("k")));

        let local = Document::parse(b"[props/a%3Ab]\nexport = system\n[props/s/k]\nexport = none\n").unwrap();
        exports.add_document("apps/x/metadata/local.meta", &local);
        assert!(exports.has("x", "props", "a:b", Some("k")));
        assert!(!exports.has("x", "props", "s", Some("k")));
        assert!(exports.has("x", "props", "s", Some("other")));

        exports.add("apps/x/metadata/default.meta", Some("props/a%3Ab"), "export", "none");
        assert!(exports.has("x", "props", "a:b", None), "the order of the files does not matter");
    }
}
