//! Singer catalogs: finding a stream, and selecting it and no other.

use serde_json::{Map, Value, json};

use crate::extract::Failure;
use crate::extract::connector::listed;

/// The stream that is wanted, and the names that its messages may go by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stream {
    pub(super) wanted: String,
    id: String,
    name: String,
}

impl Stream {
    pub(super) fn is(&self, name: &str) -> bool {
        name == self.wanted || name == self.name || name == self.id
    }
}

pub(super) fn find(catalog: &Value, wanted: &str) -> Result<Stream, Failure> {
    let streams = catalog.get("streams").and_then(Value::as_array);
    let streams = streams.ok_or_else(|| Failure::fatal("the tap's catalog has no list of streams"))?;
    let by_id: Vec<&Value> = streams.iter().filter(|stream| id(stream) == wanted).collect();
    let by_name: Vec<&Value> = streams.iter().filter(|stream| name(stream) == wanted).collect();
    let found = if by_id.is_empty() { by_name } else { by_id };
    match found.as_slice() {
        [stream] => Ok(Stream { wanted: wanted.to_owned(), id: id(stream).to_owned(), name: name(stream).to_owned() }),
        [] => Err(Failure::fatal(format!(
            "the tap has no stream {wanted:?}; it has {}; name one as the query",
            listed(streams.iter().map(id))
        ))),
        several => Err(Failure::fatal(format!(
            "the tap has several streams {wanted:?}; name one of {} as the query",
            listed(several.iter().map(|stream| id(stream)))
        ))),
    }
}

fn name(stream: &Value) -> &str {
    stream.get("stream").or_else(|| stream.get("tap_stream_id")).and_then(Value::as_str).unwrap_or_default()
}

fn id(stream: &Value) -> &str {
    stream.get("tap_stream_id").or_else(|| stream.get("stream")).and_then(Value::as_str).unwrap_or_default()
}

/// Selects the stream with all its fields, and deselects the others.
pub(super) fn select(catalog: &mut Value, wanted: &Stream) {
    let Some(streams) = catalog.get_mut("streams").and_then(Value::as_array_mut) else { return };
    for stream in streams {
        let selected = id(stream) == wanted.id && name(stream) == wanted.name;
        let Some(stream) = stream.as_object_mut() else { continue };
        // For taps that are older than metadata.
        stream.insert("selected".to_owned(), selected.into());
        select_by_metadata(stream, selected);
    }
}

fn select_by_metadata(stream: &mut Map<String, Value>, selected: bool) {
    let metadata = stream.entry("metadata").or_insert_with(|| json!([]));
    if !metadata.is_array() {
        *metadata = json!([]);
    }
    let Some(entries) = metadata.as_array_mut() else { return };
    if !entries.iter().any(is_of_stream) {
        entries.push(json!({ "breadcrumb": [], "metadata": {} }));
    }
    for entry in entries {
        let of_stream = is_of_stream(entry);
        let Some(about) = entry.get_mut("metadata").and_then(Value::as_object_mut) else { continue };
        let unsupported = about.get("inclusion").and_then(Value::as_str) == Some("unsupported");
        if of_stream || (selected && !unsupported) {
            about.insert("selected".to_owned(), selected.into());
        }
    }
}

fn is_of_stream(entry: &Value) -> bool {
    entry.get("breadcrumb").and_then(Value::as_array).is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Value {
        json!({ "streams": [
            { "tap_stream_id": "a-users", "stream": "users", "metadata": [
                { "breadcrumb": ["properties", "id"], "metadata": { "inclusion": "automatic" } },
                { "breadcrumb": ["properties", "odd"], "metadata": { "inclusion": "unsupported" } },
            ] },
            { "tap_stream_id": "b-users", "stream": "users" },
            { "tap_stream_id": "orders", "stream": "orders", "metadata": [
                { "breadcrumb": [], "metadata": { "selected": true, "table-key-properties": ["id"] } },
            ] },
        ] })
    }

    #[test]
    fn one_stream_is_selected_with_its_fields_and_the_others_are_not() {
        let mut catalog = catalog();
        let stream = find(&catalog, "a-users").unwrap();
        assert!(stream.is("users") && stream.is("a-users") && !stream.is("orders"));
        select(&mut catalog, &stream);
        let [users, others, orders] = &catalog["streams"].as_array().unwrap()[..] else { panic!("{catalog}") };
        assert_eq!(users["selected"], true);
        assert_eq!(users["metadata"][0]["metadata"]["selected"], true);
        assert_eq!(users["metadata"][1]["metadata"]["selected"], Value::Null);
        assert_eq!(users["metadata"][2], json!({ "breadcrumb": [], "metadata": { "selected": true } }));
        assert_eq!(others["metadata"][0]["metadata"]["selected"], false);
        assert_eq!(orders["selected"], false);
        assert_eq!(orders["metadata"][0]["metadata"], json!({ "selected": false, "table-key-properties": ["id"] }));
    }

    #[test]
    fn a_stream_that_is_not_there_or_there_twice_is_named_with_those_that_are() {
        let gone = find(&catalog(), "user").unwrap_err();
        assert_eq!(
            gone.message,
            "the tap has no stream \"user\"; it has a-users, b-users, orders; name one as the query"
        );
        let twice = find(&catalog(), "users").unwrap_err();
        assert!(twice.message.ends_with("name one of a-users, b-users as the query"), "{twice}");
    }
}
