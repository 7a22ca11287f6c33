//! What a route takes and what it answers with, by the types of its handler.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::web::List;

/// Describes a type, and adds the types that it is made of to the generator's.
type Describe = fn(&mut SchemaGenerator) -> Schema;

/// The body of an answer.
#[derive(Debug, Clone, Copy)]
pub enum Gives {
    Json(Describe),
    /// JSON, or everything as JSON lines where they are asked for.
    List(Describe),
    Lines,
    Html,
    Script,
    Text,
    Events,
    Nothing,
}

impl Gives {
    pub fn json<T: JsonSchema>() -> Self {
        Self::Json(described::<T>)
    }

    /// JSON that has a page of rows among others; the rows alone as JSON lines.
    pub fn json_or_lines<T: JsonSchema>() -> Self {
        Self::List(described::<T>)
    }

    /// A page of a list.
    pub fn page<L: List>() -> Self {
        Self::List(page::<L>)
    }

    pub(super) fn content(self, types: &mut SchemaGenerator) -> Option<Value> {
        let text = json!({"schema": {"type": "string"}});
        Some(match self {
            Self::Json(describe) => json!({"application/json": {"schema": describe(types)}}),
            Self::List(describe) => {
                json!({"application/json": {"schema": describe(types)}, "application/jsonl": text})
            }
            Self::Lines => json!({"application/jsonl": text}),
            Self::Html => json!({"text/html": text}),
            Self::Script => json!({"text/javascript": text}),
            Self::Text => json!({"text/plain": text}),
            Self::Events => json!({"text/event-stream": text}),
            Self::Nothing => return None,
        })
    }
}

fn described<T: JsonSchema>(types: &mut SchemaGenerator) -> Schema {
    types.subschema_for::<T>()
}

fn page<L: List>(types: &mut SchemaGenerator) -> Schema {
    let row = types.subschema_for::<L::Row>();
    let mut properties = Map::new();
    properties.insert(L::NOUN.to_owned(), json!({"type": "array", "items": row}));
    properties
        .insert("next".to_owned(), json!({"type": ["string", "null"], "description": "`cursor` of the next page"}));
    let count = "How many rows there are, where that was asked for; 10,001 stands for that many or more";
    properties.insert("count".to_owned(), json!({"type": "integer", "minimum": 0, "description": count}));
    schemars::json_schema!({"type": "object", "required": [L::NOUN, "next"], "properties": properties})
}

/// One way in which a route succeeds.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    pub status: u16,
    pub what: &'static str,
    pub gives: Gives,
    /// The headers that it always has, and what each says.
    pub headers: &'static [(&'static str, &'static str)],
}

/// A request whose path is found in an answer.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    pub name: &'static str,
    /// The `operationId` of the request.
    pub operation: &'static str,
    pub parameter: &'static str,
    /// Where in the answer the parameter is, as a runtime expression of OpenAPI.
    pub from: &'static str,
}

/// The bodies that a route takes, by their media types.
#[derive(Debug, Clone, Copy)]
pub enum Takes {
    Nothing,
    Json(Describe),
    /// Bodies that no type of Rust stands for.
    Other(fn() -> Value),
}

impl Takes {
    pub fn json<T: JsonSchema>() -> Self {
        Self::Json(inlined::<T>)
    }

    pub fn content(self) -> Option<Value> {
        match self {
            Self::Nothing => None,
            Self::Json(describe) => {
                let mut types = schemars::generate::SchemaSettings::draft2020_12()
                    .with(|settings| {
                        settings.inline_subschemas = true;
                        settings.meta_schema = None;
                    })
                    .into_generator();
                Some(json!({"application/json": {"schema": describe(&mut types)}}))
            }
            Self::Other(content) => Some(content()),
        }
    }

    pub fn is_nothing(self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Json(_) | Self::Other(_) => false,
        }
    }
}

fn inlined<T: JsonSchema>(types: &mut SchemaGenerator) -> Schema {
    T::json_schema(types)
}
