//! Airbyte catalogs: finding a stream, and configuring it and no other.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::extract::Failure;
use crate::extract::connector::listed;

/// What a stream is called in messages.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct StreamName {
    name: String,
    #[serde(default)]
    namespace: Option<String>,
}

impl StreamName {
    fn of(stream: &Value) -> Option<Self> {
        let text = |key: &str| stream.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(Self { name: text("name")?, namespace: text("namespace") })
    }

    pub(super) fn is(&self, name: &str, namespace: Option<&str>) -> bool {
        self.name == name && self.namespace.as_deref() == namespace
    }

    /// The name with its namespace before it.
    pub(super) fn full(&self) -> String {
        match &self.namespace {
            None => self.name.clone(),
            Some(namespace) => format!("{namespace}.{}", self.name),
        }
    }
}

/// The wanted stream's name, and a catalog that reads it whole. Takes what `discover` gives, and configured catalogs,
/// whose settings for the stream are kept.
pub(super) fn configure(catalog: &Value, wanted: &str) -> Result<(StreamName, Value), Failure> {
    let streams = catalog.get("streams").and_then(Value::as_array);
    let streams = streams.ok_or_else(|| Failure::fatal("the source's catalog has no list of streams"))?;
    let named = streams.iter().filter_map(|entry| Some((StreamName::of(entry.get("stream").unwrap_or(entry))?, entry)));
    let named: Vec<(StreamName, &Value)> = named.collect();
    let full: Vec<_> = named.iter().filter(|(name, _)| name.full() == wanted).collect();
    let short: Vec<_> = named.iter().filter(|(name, _)| name.name == wanted).collect();
    match if full.is_empty() { short } else { full }.as_slice() {
        [(name, entry)] => Ok((name.clone(), json!({ "streams": [configured(entry)] }))),
        [] => Err(Failure::fatal(format!(
            "the source has no stream {wanted:?}; it has {}; name one as the query",
            names(&named.iter().collect::<Vec<_>>())
        ))),
        several => Err(Failure::fatal(format!(
            "the source has several streams {wanted:?}; name one of {} as the query",
            names(several)
        ))),
    }
}

fn configured(entry: &Value) -> Value {
    if entry.get("stream").is_some() {
        return entry.clone();
    }
    json!({ "stream": entry, "sync_mode": "full_refresh", "destination_sync_mode": "overwrite" })
}

fn names(streams: &[&(StreamName, &Value)]) -> String {
    let names: Vec<String> = streams.iter().map(|(name, _)| name.full()).collect();
    listed(names.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_stream_is_configured_to_be_read_whole() {
        let catalog = json!({ "streams": [{ "name": "users", "json_schema": { "a": 1 } }, { "name": "orders" }] });
        let (name, configured) = configure(&catalog, "users").unwrap();
        assert!(name.is("users", None) && !name.is("users", Some("x")) && !name.is("orders", None));
        let stream = json!({ "name": "users", "json_schema": { "a": 1 } });
        let whole = json!({ "streams": [{ "stream": stream, "sync_mode": "full_refresh", "destination_sync_mode": "overwrite" }] });
        assert_eq!(configured, whole);
        assert_eq!(configure(&whole, "users").unwrap().1, whole);
    }

    #[test]
    fn namespaces_tell_streams_of_one_name_apart() {
        let catalog = json!({ "streams": [
            { "name": "t", "namespace": "a" }, { "name": "t", "namespace": "b" }, { "name": "u", "namespace": "b" }
        ] });
        assert!(configure(&catalog, "b.t").unwrap().0.is("t", Some("b")));
        assert!(configure(&catalog, "u").unwrap().0.is("u", Some("b")));
        let twice = configure(&catalog, "t").unwrap_err();
        assert!(twice.message.contains("name one of a.t, b.t"), "{twice}");
        let gone = configure(&catalog, "v").unwrap_err();
        assert!(gone.message.contains("it has a.t, b.t, b.u"), "{gone}");
    }
}
