//! Parameters as JSON Schema: in a query, and as the fields of a filter in a body.

use redrive_core::key::{KEY_PATTERN, MAX_KEY_BYTES};
use serde_json::{Map, Value, json};

use crate::web::{Param, ParamKind};

/// A value of a filter on keys: no control characters, and nothing that looks like a wildcard.
const EXACT: &str = r"^([^*?%\u0000-\u001f\u007f-\u009f]|%[0-9A-Fa-f]{2})+$";

/// A parameter of a query.
pub fn in_query(param: &Param) -> Value {
    let mut described = json!({
        "name": param.name, "in": "query", "description": param.what, "schema": value(param.kind),
    });
    if param.is_required {
        described["required"] = true.into();
    }
    described
}

/// The same names as the fields of an object.
pub fn of_filter(params: &[Param]) -> Value {
    let field = |param: &Param| {
        let one = if param.is_repeated() {
            json!({"anyOf": [single(param.kind), value(param.kind), {"type": "null"}]})
        } else {
            json!({"anyOf": [value(param.kind), {"type": "null"}]})
        };
        (param.name.to_owned(), one)
    };
    let fields: Map<String, Value> = params.iter().map(field).collect();
    json!({"type": "object", "properties": fields, "additionalProperties": false})
}

/// No database keeps a NUL.
pub const NO_NUL: &str = r"^[^\u0000]*$";

fn text() -> Value {
    json!({"type": "string", "pattern": NO_NUL})
}

/// A value of a partition's key.
pub fn key() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": MAX_KEY_BYTES, "pattern": KEY_PATTERN})
}

fn exact() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": MAX_KEY_BYTES, "pattern": EXACT})
}

/// A day, or a word that stands for one.
pub fn day() -> Value {
    json!({"anyOf": [
        {"type": "string", "format": "date"},
        {"type": "string", "enum": ["today", "yesterday"]},
        {"type": "string", "pattern": "^[0-9]{1,4}[dw]$"},
    ]})
}

fn moment() -> Value {
    let mut schema = day();
    if let Some(ways) = schema["anyOf"].as_array_mut() {
        ways.push(json!({"type": "string", "format": "date-time"}));
    }
    schema
}

/// One of several values.
fn single(kind: ParamKind) -> Value {
    match kind {
        ParamKind::Words(words) => json!({"type": "string", "enum": words}),
        ParamKind::Keys => exact(),
        ParamKind::Text
        | ParamKind::Key
        | ParamKind::Id
        | ParamKind::Hex { .. }
        | ParamKind::Cursor
        | ParamKind::Date
        | ParamKind::Time
        | ParamKind::Number { .. }
        | ParamKind::Flag
        | ParamKind::Word(_)
        | ParamKind::Texts => text(),
    }
}

fn value(kind: ParamKind) -> Value {
    match kind {
        ParamKind::Text => text(),
        ParamKind::Key => key(),
        ParamKind::Id => json!({"type": "string", "format": "uuid"}),
        ParamKind::Hex { most } => json!({"type": "string", "pattern": format!("^[0-9A-Fa-f]{{1,{most}}}$")}),
        ParamKind::Cursor => json!({"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}),
        ParamKind::Date => day(),
        ParamKind::Time => moment(),
        ParamKind::Number { least, most } => json!({"type": "integer", "minimum": least, "maximum": most}),
        ParamKind::Flag => json!({"type": "boolean"}),
        ParamKind::Word(words) => json!({"type": "string", "enum": words}),
        ParamKind::Keys | ParamKind::Texts | ParamKind::Words(_) => json!({"type": "array", "items": single(kind)}),
    }
}
