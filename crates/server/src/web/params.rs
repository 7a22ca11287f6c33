//! Query parameters. Which a route knows stands in the table of routes; any other is refused, so that a slip is noticed.

use std::fmt::Display;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use url::form_urlencoded;

use crate::error::{Error, Result};

/// A parameter that a route knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    pub name: &'static str,
    pub kind: ParamKind,
    /// What it does, for the description of the API.
    pub what: &'static str,
    pub is_required: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamKind {
    Text,
    /// A value of a partition's key.
    Key,
    /// Values of a partition's key, any of which is meant.
    Keys,
    /// The identity of a run.
    Id,
    /// Hexadecimal digits, so many at most.
    Hex {
        most: u32,
    },
    /// Where a list goes on.
    Cursor,
    /// A day, or a word that stands for one.
    Date,
    /// A moment, or a day.
    Time,
    /// A whole number.
    Number {
        least: u32,
        most: u32,
    },
    Flag,
    /// One of a few words.
    Word(&'static [&'static str]),
    /// A text that may be given more than once.
    Texts,
    /// One of a few words, which may be given more than once.
    Words(&'static [&'static str]),
}

impl Param {
    pub const fn new(name: &'static str, kind: ParamKind, what: &'static str) -> Self {
        Self { name, kind, what, is_required: false }
    }

    /// It has to be given.
    #[must_use]
    pub const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    /// Whether it may be given more than once.
    pub fn is_repeated(&self) -> bool {
        match self.kind {
            ParamKind::Keys | ParamKind::Texts | ParamKind::Words(_) => true,
            ParamKind::Text
            | ParamKind::Key
            | ParamKind::Id
            | ParamKind::Hex { .. }
            | ParamKind::Cursor
            | ParamKind::Date
            | ParamKind::Time
            | ParamKind::Number { .. }
            | ParamKind::Flag
            | ParamKind::Word(_) => false,
        }
    }
}

/// The parameters of a request.
#[derive(Debug, Clone, Default)]
pub struct Params(Vec<(String, String)>);

impl Params {
    /// These names and values, as a body gives them.
    pub fn of(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    pub fn parse(query: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// Refuses parameters that the route does not know, and those that were given twice.
    pub fn check<'a>(&self, known: impl Iterator<Item = &'a Param> + Clone) -> Result<()> {
        for (nth, (name, value)) in self.0.iter().enumerate() {
            let Some(param) = known.clone().find(|param| param.name == name) else {
                let names: Vec<&str> = known.map(|param| param.name).collect();
                let known = if names.is_empty() { "it takes none".to_owned() } else { names.join(", ") };
                return Err(Error::bad_request(format!("the parameter {name:?} is unknown here; known: {known}")));
            };
            let is_again = self.0[..nth].iter().any(|(earlier, _)| earlier == name);
            if is_again && !param.is_repeated() {
                return Err(Error::bad_request(format!("the parameter {name} is given twice; give it once")));
            }
            if value.contains('\0') {
                return Err(bad_param(name, &"it holds a NUL character, which no database keeps; take it out"));
            }
        }
        match known.filter(|param| param.is_required).find(|param| self.get(param.name).is_none()) {
            Some(missing) => Err(bad_param(missing.name, &"it is needed; give it")),
            None => Ok(()),
        }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A value that is parsed by its type.
    pub fn parsed<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>> {
        self.get(name).map(|text| text.parse().map_err(|error| bad_param(name, &error))).transpose()
    }

    /// `true` and `false`; without a value it is true.
    pub fn flag(&self, name: &str) -> Result<bool> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("" | "true") => Ok(true),
            Some(other) => Err(bad_param(name, &format!("{other:?} is neither true nor false"))),
        }
    }

    pub fn number(&self, name: &str, least: u32, most: u32) -> Result<Option<u32>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match text.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
            Ok(_) | Err(_) => Err(bad_param(name, &format!("{text:?} is no number from {least} to {most}"))),
        }
    }
}

/// An error that names the parameter and what is wrong with it.
pub fn bad_param(name: &str, why: &impl Display) -> Error {
    Error::bad_request(format!("{name}: {why}"))
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self::parse(parts.uri.query()))
    }
}
