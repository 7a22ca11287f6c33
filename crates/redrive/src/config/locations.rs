//! Where every key of the configuration stands, so that an error can name its file and line, or its variable.

use std::ops::Range;
use std::path::{Path, PathBuf};

use redrive_core::text::one_line;
use redrive_data::settings::{KeyPath, SettingError};
use redrive_store::redacted;
use toml::de::{DeTable, DeValue};

use super::ConfigError;

#[derive(Debug, Clone)]
pub(super) struct KeyLocations {
    file: PathBuf,
    /// Sections come before what is in them.
    known: Vec<Location>,
}

#[derive(Debug, Clone)]
struct Location {
    path: KeyPath,
    origin: Origin,
    /// Of the key and of its value: an error has the one or the other.
    spans: [Range<usize>; 2],
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    Line(usize),
    Variable(String),
}

impl KeyLocations {
    /// Positions behind the text's end are those of the variables, in their order.
    pub(super) fn new(file: &Path, text: &str, variables: &[&str], document: &DeTable<'_>) -> Self {
        let newlines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
        let origin = |span: &Range<usize>| match span.start.checked_sub(text.len() + 1) {
            Some(number) => Origin::Variable(variables.get(number).copied().unwrap_or_default().to_owned()),
            None => Origin::Line(newlines.partition_point(|newline| *newline < span.start) + 1),
        };
        let mut known = Vec::new();
        walk_table(document, &KeyPath::default(), &mut |path, key, value| {
            known.push(Location { path, origin: origin(&key), spans: [key, value] });
        });
        Self { file: file.to_owned(), known }
    }

    /// Names the key, and where it stands, of a mistake in settings that could be read.
    pub(super) fn locate(&self, mistake: &SettingError) -> ConfigError {
        self.locate_redacted(mistake, &shown(&mistake.why))
    }

    /// Does the same with a text that holds no secret any more.
    pub(super) fn locate_redacted(&self, mistake: &SettingError, why: &str) -> ConfigError {
        let paths: Vec<KeyPath> = mistake.paths().collect();
        let has_part = |location: &&Location| paths.iter().any(|path| location.path.starts_with(path));
        // A variable overrides the file, so where there is one, it is the mistaken one.
        let variable =
            self.known.iter().filter(has_part).find(|location| matches!(location.origin, Origin::Variable(_)));
        match variable.or_else(|| paths.iter().find_map(|path| self.find(path))) {
            Some(location) => self.tell(Some(&location.origin), &location.path, why),
            // What is missing is reported at the section that it is missing from.
            None => self.tell(self.around(&mistake.path).map(|location| &location.origin), &mistake.path, why),
        }
    }

    /// Names the key, and where it stands, that kept the settings from being read.
    pub(super) fn explain(&self, error: &toml::de::Error) -> ConfigError {
        let span = error.span();
        // A section has the position of its header, and so may what is around it; the innermost is meant.
        let location =
            self.known.iter().rfind(|location| span.as_ref().is_some_and(|span| location.spans.contains(span)));
        match location {
            Some(location) => {
                let why = match &location.origin {
                    Origin::Variable(_) if needs_quotes(error.message()) => QUOTE_IT.to_owned(),
                    Origin::Variable(_) | Origin::Line(_) => shown(error.message()),
                };
                self.tell(Some(&location.origin), &location.path, &why)
            }
            None => ConfigError::new(format!("{}: {}", self.file.display(), shown(error.message()))),
        }
    }

    fn tell(&self, origin: Option<&Origin>, path: &KeyPath, why: &str) -> ConfigError {
        let file = self.file.display();
        ConfigError::new(match origin {
            Some(Origin::Line(line)) => format!("{file}:{line}: {path}: {why}"),
            Some(Origin::Variable(name)) => format!("{name}: {why}"),
            None => format!("{file}: {path}: {why}"),
        })
    }

    fn find(&self, path: &KeyPath) -> Option<&Location> {
        self.known.iter().find(|location| location.path == *path)
    }

    fn around(&self, path: &KeyPath) -> Option<&Location> {
        std::iter::successors(path.parent(), KeyPath::parent).find_map(|path| self.find(&path))
    }
}

type Visit<'a> = &'a mut dyn FnMut(KeyPath, Range<usize>, Range<usize>);

fn walk_table(table: &DeTable<'_>, path: &KeyPath, visit: Visit<'_>) {
    for (key, value) in table {
        let path = path.join(key.get_ref().as_ref());
        visit(path.clone(), key.span(), value.span());
        walk(value.get_ref(), &path, visit);
    }
}

fn walk(value: &DeValue<'_>, path: &KeyPath, visit: Visit<'_>) {
    match value {
        DeValue::Table(table) => walk_table(table, path, visit),
        DeValue::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                let path = path.join(index);
                visit(path.clone(), value.span(), value.span());
                walk(value.get_ref(), &path, visit);
            }
        }
        DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {}
    }
}

const QUOTE_IT: &str =
    "this key holds a text, and the value looks like a number or a truth value; write it in quotes, like '\"7\"'";

/// Whether a variable's value was read as a number or a truth value where a text belongs. The value is not repeated: it may
/// be a secret.
fn needs_quotes(message: &str) -> bool {
    let bare = ["invalid type: integer", "invalid type: floating point", "invalid type: boolean"];
    let text = ["expected a string", "expected a text"];
    bare.iter().any(|kind| message.starts_with(kind)) && text.iter().any(|kind| message.contains(kind))
}

/// Describes a text that is no TOML, in which no key's location is certain.
pub(super) fn syntax(file: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let line = line(text, error.span().map_or(0, |span| span.start));
    let written = text.lines().nth(line - 1).unwrap_or_default();
    let key = written.split('=').next().unwrap_or_default().trim().trim_matches(['[', ']']);
    // What is no key may be a part of a value, and so a secret.
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "-_.\"' ".contains(c));
    let key = if is_key { format!("{key}: ") } else { String::new() };
    ConfigError::new(format!("{}:{line}: {key}{}", file.display(), shown(error.message())))
}

fn line(text: &str, position: usize) -> usize {
    text.bytes().take(position).filter(|byte| *byte == b'\n').count() + 1
}

/// In one line, and without passwords.
fn shown(why: &str) -> String {
    one_line(&redacted(why))
}
