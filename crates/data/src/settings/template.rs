//! Texts of the configuration with placeholders, such as `{logical_date}`. A workload says which there are.
//!
//! Only a known name between braces is a placeholder, so JSON and GraphQL need no escapes; a name that is not known is a
//! slip and an error when the configuration is read.

use std::convert::Infallible;
use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What stands for itself in a URL's path or query.
pub(super) const URL: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Where the text goes, and so how a value must be written there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// As it is.
    Plain,
    /// Percent-encoded.
    Url,
    /// As inside a JSON string.
    Json,
    /// As a part of one file's name: what could lead into another folder is percent-encoded, and no two values meet.
    FileName,
    /// As a part of a variable's name: whatever no such name can have becomes `_`.
    Variable,
}

/// What stands for itself in a file's name, besides a dot that is not its first letter.
const FILE_NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// Whatever placeholders are filled in from.
pub trait Placeholders: Sync {
    type Name: Copy + fmt::Debug + Send + Sync + 'static;
    /// The placeholders that may stand in a text, as they are written there.
    const NAMES: &'static [(&'static str, Self::Name)];

    fn value(&self, name: Self::Name) -> String;

    /// Whether the value is known before there is a piece of work: all work of a customer and a query has the same.
    fn is_lasting(_name: Self::Name) -> bool {
        false
    }
}

/// Fills in nothing: for texts that have no piece of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nothing;

impl Placeholders for Nothing {
    type Name = Infallible;
    const NAMES: &'static [(&'static str, Infallible)] = &[];

    fn value(&self, name: Infallible) -> String {
        match name {}
    }
}

/// A text with placeholders, which a `J` fills in.
#[derive(Debug, Clone)]
pub struct Template<J: Placeholders>(Vec<Piece<J::Name>>);

#[derive(Debug, Clone)]
enum Piece<N> {
    Text(String),
    Value(N),
}

impl<J: Placeholders> Template<J> {
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let (before, after) = (&rest[..open], &rest[open + 1..]);
            plain.push_str(before);
            let name_end = after.find(|c: char| !(c.is_ascii_lowercase() || c == '_')).unwrap_or(after.len());
            let name = &after[..name_end];
            if name.is_empty() || !after[name_end..].starts_with('}') {
                plain.push('{');
                rest = after;
                continue;
            }
            let Some((_, value)) = J::NAMES.iter().find(|(known, _)| *known == name) else {
                let known: Vec<&str> = J::NAMES.iter().map(|(known, _)| *known).collect();
                let there_are = if known.is_empty() {
                    "there are none here".to_owned()
                } else {
                    format!("there are {}", known.join(", "))
                };
                return Err(format!("{{{name}}} is no placeholder; {there_are}"));
            };
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Value(*value));
            rest = &after[name_end + 1..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self(pieces))
    }

    /// The text, where no work has a part in it.
    pub fn fixed(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether it has placeholders, and only such as are known before there is a piece of work.
    pub fn is_lasting(&self) -> bool {
        let is_lasting = |piece: &Piece<J::Name>| match piece {
            Piece::Text(_) => true,
            Piece::Value(name) => J::is_lasting(*name),
        };
        self.fixed().is_none() && self.0.iter().all(is_lasting)
    }

    /// What stands before the first placeholder.
    pub fn beginning(&self) -> &str {
        match self.0.first() {
            Some(Piece::Text(text)) => text,
            Some(Piece::Value(_)) | None => "",
        }
    }

    pub fn render(&self, job: &J, escape: Escape) -> String {
        let piece = |piece: &Piece<J::Name>| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value(value) => escaped(&job.value(*value), escape),
        };
        self.0.iter().map(piece).collect()
    }
}

fn escaped(text: &str, escape: Escape) -> String {
    match escape {
        Escape::Plain => text.to_owned(),
        Escape::Url => utf8_percent_encode(text, URL).to_string(),
        Escape::Json => {
            let quoted = serde_json::Value::from(text).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        }
        Escape::FileName => {
            let (first, rest) = text.strip_prefix('.').map_or(("", text), |rest| ("%2E", rest));
            let encoded = rest.split('.').map(|piece| utf8_percent_encode(piece, FILE_NAME).to_string());
            format!("{first}{}", encoded.collect::<Vec<_>>().join("."))
        }
        Escape::Variable => text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Job;

    impl Placeholders for Job {
        type Name = &'static str;
        const NAMES: &'static [(&'static str, &'static str)] =
            &[("source", "ads"), ("customer_id", "a/b \"c\""), ("day", "2026-01-31")];

        fn value(&self, name: &'static str) -> String {
            name.to_owned()
        }
    }

    #[test]
    fn known_names_are_filled_in_and_other_braces_stand() {
        let render = |text: &str, escape| Template::parse(text).unwrap().render(&Job, escape);
        assert_eq!(render("[{day}) {source}", Escape::Plain), "[2026-01-31) ads");
        assert_eq!(render(r#"{"c":"{customer_id}"}"#, Escape::Json), r#"{"c":"a/b \"c\""}"#);
        assert_eq!(render("/x/{customer_id}?d={day}", Escape::Url), "/x/a%2Fb%20%22c%22?d=2026-01-31");
        assert_eq!(render("{ a } {{source}} {A} {", Escape::Plain), "{ a } {ads} {A} {");
    }

    #[test]
    fn an_unknown_name_is_a_slip() {
        let error = Template::<Job>::parse("{days}").unwrap_err();
        assert_eq!(error, "{days} is no placeholder; there are source, customer_id, day");
    }
}
