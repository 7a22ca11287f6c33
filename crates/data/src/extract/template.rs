//! Texts of the configuration with placeholders: `{logical_date}`, `{customer_id}` and so on.
//!
//! Only a known name between braces is a placeholder, so JSON and GraphQL need no escapes; a name that is not known is a
//! slip and an error when the configuration is read.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::Job;

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
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value(Value),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Source,
    CustomerId,
    QueryName,
    LogicalDate,
    NextDate,
    RunId,
    Query,
}

const NAMES: [(&str, Value); 7] = [
    ("source", Value::Source),
    ("customer_id", Value::CustomerId),
    ("query_name", Value::QueryName),
    ("logical_date", Value::LogicalDate),
    ("next_date", Value::NextDate),
    ("run_id", Value::RunId),
    ("query", Value::Query),
];

impl Template {
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
            let Some((_, value)) = NAMES.iter().find(|(known, _)| *known == name) else {
                let known: Vec<&str> = NAMES.iter().map(|(known, _)| *known).collect();
                return Err(format!("{{{name}}} is no placeholder; there are {}", known.join(", ")));
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

    pub fn render(&self, job: &Job, escape: Escape) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value(value) => escaped(&value.of(job), escape),
        };
        self.0.iter().map(piece).collect()
    }
}

impl Value {
    fn of(self, job: &Job) -> String {
        match self {
            Self::Source => job.key.source.to_string(),
            Self::CustomerId => job.key.customer_id.to_string(),
            Self::QueryName => job.key.query_name.to_string(),
            Self::LogicalDate => job.key.logical_date.to_string(),
            Self::NextDate => {
                let date = job.key.logical_date;
                date.tomorrow().unwrap_or(date).to_string()
            }
            Self::RunId => job.run_id.to_string(),
            Self::Query => job.query.clone().unwrap_or_default(),
        }
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redrive_core::key::PartitionKey;

    fn job() -> Job {
        Job {
            key: PartitionKey::new("ads", "a/b \"c\"", "daily", "2026-01-31").unwrap(),
            run_id: "019a0000-0000-7000-8000-000000000001".parse().unwrap(),
            attempt: 1,
            query: Some("Q".to_owned()),
            roster: crate::extract::Roster::default(),
        }
    }

    #[test]
    fn known_names_are_filled_in_and_other_braces_stand() {
        let render = |text: &str, escape| Template::parse(text).unwrap().render(&job(), escape);
        assert_eq!(render("[{logical_date},{next_date}) {query}", Escape::Plain), "[2026-01-31,2026-02-01) Q");
        assert_eq!(render(r#"{"c":"{customer_id}"}"#, Escape::Json), r#"{"c":"a/b \"c\""}"#);
        assert_eq!(render("/x/{customer_id}?d={logical_date}", Escape::Url), "/x/a%2Fb%20%22c%22?d=2026-01-31");
        assert_eq!(render("{ a } {{source}} {A} {", Escape::Plain), "{ a } {ads} {A} {");
    }

    #[test]
    fn an_unknown_name_is_a_slip() {
        let wrong = Template::parse("{logical_day}").unwrap_err();
        assert!(wrong.starts_with("{logical_day} is no placeholder; there are source, customer_id"), "{wrong}");
    }
}
