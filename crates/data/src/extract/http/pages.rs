//! From one page to the next, and no further than allowed: not to another site, not in a circle, not forever.

use std::collections::HashSet;

use reqwest::header::LINK;
use serde_json::Value;
use siphasher::sip128::{Hasher128 as _, SipHasher13};
use std::hash::Hasher as _;
use url::Url;

use super::link_header;
use super::settings::{Format, Settings};
use crate::extract::Failure;
use crate::extract::json_stream::{Path, RecordStream};
use crate::settings::SettingError;
use crate::web::{Response, without_query};

/// How a page says where the next one is.
#[derive(Debug)]
pub(super) enum Paging {
    Single,
    Link(Path),
    Cursor { path: Path, param: String },
    Header,
}

impl Paging {
    pub(super) fn new(settings: &Settings, records: &Path) -> Result<Self, SettingError> {
        let path = |name: &str, text: &str| in_document(name, text, settings.format, records);
        match (&settings.next_link, &settings.cursor, settings.link_header) {
            (None, None, false) if settings.cursor_param.is_some() => {
                Err(SettingError::at("cursor_param", "needs cursor, the path to its value"))
            }
            (None, None, false) => Ok(Self::Single),
            (Some(text), None, false) => path("next_link", text).map(Self::Link),
            (None, Some(text), false) => {
                let param = settings.cursor_param.clone().filter(|param| !param.is_empty());
                let why = "needs cursor_param, the query parameter that it is sent as";
                let param = param.ok_or_else(|| SettingError::at("cursor", why))?;
                Ok(Self::Cursor { path: path("cursor", text)?, param })
            }
            (None, None, true) => Ok(Self::Header),
            _ => {
                let why = "next_link, cursor and link_header exclude each other; keep one";
                Err(SettingError::at("next_link", why).also(&["cursor", "link_header"]))
            }
        }
    }

    /// What must be kept of a page to find the next one.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::Link(path) | Self::Cursor { path, .. } => Some(path),
            Self::Single | Self::Header => None,
        }
    }

    /// The next page's URL, when this page was not the last.
    pub(super) fn next(&self, first: &Url, answer: &Response, page: &RecordStream) -> Result<Option<Url>, Failure> {
        let next = match self {
            Self::Single => None,
            Self::Link(path) => kept_text(page, path, answer.name(), false)?,
            Self::Cursor { path, .. } => kept_text(page, path, answer.name(), true)?,
            Self::Header => {
                let links = answer.headers().get_all(LINK).iter().filter_map(|link| link.to_str().ok());
                link_header::next(links).map(str::to_owned)
            }
        };
        let Some(next) = next else { return Ok(None) };
        if let Self::Cursor { param, .. } = self {
            return Ok(Some(with_param(first, param, &next)));
        }
        let mut url = answer.url().join(&next).map_err(|why| {
            Failure::retryable(format!("{}: the link to the next page is no URL ({why})", answer.name()))
        })?;
        url.set_fragment(None);
        Ok(Some(url))
    }
}

fn in_document(name: &str, text: &str, format: Format, records: &Path) -> Result<Path, SettingError> {
    let path = Path::dotted(text).map_err(|why| SettingError::at(name, why))?;
    if format == Format::Jsonl {
        let why = format!("{name} needs format = \"json\"; lines have no place for it");
        return Err(SettingError::at(name, why).also(&["format"]));
    }
    if path.is_root() || records.is_root() {
        let why = format!("{name} needs a document with names; set {name} and records to their paths");
        return Err(SettingError::at(name, why).also(&["records"]));
    }
    if path.starts_with(records) || records.starts_with(&path) {
        let why = format!("{name} and records cannot be inside each other; correct one of them");
        return Err(SettingError::at(name, why).also(&["records"]));
    }
    Ok(path)
}

/// A cursor may be a number; a link is a text.
fn kept_text(page: &RecordStream, path: &Path, name: &str, numbers: bool) -> Result<Option<String>, Failure> {
    let value = page.kept(0).map_or(Ok(Value::Null), serde_json::from_slice);
    match value {
        Ok(Value::Null | Value::Bool(false)) => Ok(None),
        Ok(Value::String(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
        Ok(Value::Number(number)) if numbers => Ok(Some(number.to_string())),
        Ok(Value::Bool(true) | Value::Number(_) | Value::Array(_) | Value::Object(_)) | Err(_) => {
            Err(Failure::retryable(format!("{name}: {path} is no text, so the next page cannot be found")))
        }
    }
}

/// The URL with a query parameter, in place of one of that name. The others stay as they are written.
fn with_param(url: &Url, param: &str, value: &str) -> Url {
    let mut url = url.clone();
    let others: Vec<&str> = url.query().map_or_else(Vec::new, |query| {
        let is_other =
            |pair: &&str| url::form_urlencoded::parse(pair.as_bytes()).next().is_none_or(|(name, _)| name != param);
        query.split('&').filter(is_other).collect()
    });
    let query = others.join("&");
    url.set_query(Some(&query).filter(|query| !query.is_empty()).map(String::as_str));
    url.query_pairs_mut().append_pair(param, value);
    url
}

/// The pages that were asked for.
#[derive(Debug)]
pub(super) struct PageGuard<'a> {
    first: &'a Url,
    next_hosts: &'a [String],
    max_pages: u64,
    pages: u64,
    /// Hashes, because a cursor can be long.
    seen: HashSet<u128>,
}

impl<'a> PageGuard<'a> {
    pub(super) fn new(first: &'a Url, settings: &'a Settings) -> Self {
        let (next_hosts, max_pages) = (settings.next_hosts.as_slice(), settings.max_pages);
        Self { first, next_hosts, max_pages, pages: 0, seen: HashSet::new() }
    }

    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// Fails when a page must not be asked for.
    pub(super) fn admit(&mut self, page: &Url) -> Result<(), Failure> {
        let shown = without_query(page);
        self.check_site(page, &shown)?;
        let mut hasher = SipHasher13::new();
        hasher.write(page.as_str().as_bytes());
        if !self.seen.insert(hasher.finish128().as_u128()) {
            return Err(Failure::retryable(format!("page {} at {shown} was there before: a loop", self.pages + 1)));
        }
        if self.pages == self.max_pages {
            let max = self.max_pages;
            return Err(Failure::fatal(format!("there are more than {max} pages at {shown}; raise max_pages")));
        }
        self.pages += 1;
        Ok(())
    }

    fn check_site(&self, page: &Url, shown: &str) -> Result<(), Failure> {
        if page.origin() == self.first.origin() {
            return Ok(());
        }
        let host = page.host_str().unwrap_or_default();
        if !self.next_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host)) {
            let advice = match host {
                "" => "that is no place for a page".to_owned(),
                host => format!("put {host:?} into next_hosts if that is right"),
            };
            return Err(Failure::fatal(format!("the next page is at {shown}, another site; {advice}")));
        }
        if self.first.scheme() == "https" && page.scheme() != "https" {
            return Err(Failure::fatal(format!(
                "the next page is at {shown}, which is not encrypted as the first was"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_takes_the_place_of_the_one_before() {
        for (url, expected) in [
            ("http://a/x", "http://a/x?c=1%2F+2"),
            ("http://a/x?q=a%20b&d", "http://a/x?q=a%20b&d&c=1%2F+2"),
            ("http://a/x?c=old&q=1&c=older", "http://a/x?q=1&c=1%2F+2"),
            ("http://a/x?c", "http://a/x?c=1%2F+2"),
        ] {
            assert_eq!(with_param(&url.parse().unwrap(), "c", "1/ 2").as_str(), expected);
        }
    }

    #[test]
    fn a_trail_keeps_to_its_site_unless_told_otherwise() {
        let settings: Settings =
            serde_json::from_value(serde_json::json!({"url": "https://a/x", "next_hosts": ["B.example"]})).unwrap();
        let first: Url = "https://a/x".parse().unwrap();
        let mut guard = PageGuard::new(&first, &settings);
        for (page, fine) in [
            ("https://a/x", true),
            ("https://a:443/y", true),
            ("https://a:444/y", false),
            ("http://a/y", false),
            ("https://b.example/y", true),
            ("http://b.example/z", false),
            ("https://c/y", false),
        ] {
            assert_eq!(guard.admit(&page.parse().unwrap()).is_ok(), fine, "{page}");
        }
    }
}
