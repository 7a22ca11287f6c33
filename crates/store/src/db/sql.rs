//! Each statement is written once; this is where the two databases' dialects part.
//!
//! A statement uses `?1` for parameters and `{…}` for the few fragments that differ. A lookup is written as if for one row, with
//! `@column` for its values; statements that change many rows are in `batch`.

use std::sync::OnceLock;

use super::shared::Shared;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// What a fragment stands for.
fn fragment(name: &str, dialect: Dialect) -> &'static str {
    match (name, dialect) {
        ("skip_locked", Dialect::Postgres) => "FOR UPDATE SKIP LOCKED",
        ("lock", Dialect::Postgres) => "FOR UPDATE",
        // Until the transaction ends nobody takes the row away; heartbeats may go on.
        ("stay", Dialect::Postgres) => "FOR KEY SHARE",
        // PostgreSQL must not flatten the picking subquery into the update, or it picks more than it was asked for.
        ("materialized", Dialect::Postgres) => "MATERIALIZED",
        ("skip_locked" | "lock" | "stay" | "materialized", Dialect::Sqlite) => "",
        // The place of a text in another, from 1 on; 0 where it is not in it.
        ("place_in", Dialect::Sqlite) => "instr",
        ("place_in", Dialect::Postgres) => "strpos",
        (name, dialect) => crate::partitions::fragment(name, dialect)
            .or_else(|| crate::audit::fragment(name))
            .or_else(|| crate::holds::fragment(name))
            .unwrap_or_else(|| unreachable!("unknown fragment {{{name}}}")),
    }
}

/// A statement, rendered once for each dialect.
#[derive(Debug)]
pub(crate) struct Sql {
    text: &'static str,
    sqlite: OnceLock<String>,
    postgres: OnceLock<String>,
}

impl Sql {
    pub(crate) const fn new(text: &'static str) -> Self {
        Self { text, sqlite: OnceLock::new(), postgres: OnceLock::new() }
    }

    pub(crate) fn render(&self, dialect: Dialect) -> &str {
        match dialect {
            Dialect::Sqlite => self.sqlite.get_or_init(|| render(self.text, dialect)),
            Dialect::Postgres => self.postgres.get_or_init(|| render(self.text, dialect)),
        }
    }
}

/// Renders a statement whose text was put together for one call, such as a filter.
pub(crate) fn render(text: &str, dialect: Dialect) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(at) = rest.find(['{', '?']) {
        out.push_str(&rest[..at]);
        if rest.as_bytes()[at] == b'?' {
            out.push(match dialect {
                Dialect::Sqlite => '?',
                Dialect::Postgres => '$',
            });
            rest = &rest[at + 1..];
        } else {
            let end = rest.find('}').unwrap_or_else(|| unreachable!("a fragment is not closed in {text}"));
            out.push_str(fragment(&rest[at + 1..end], dialect));
            rest = &rest[end + 1..];
        }
    }
    out.push_str(rest);
    out
}

/// The type of a batch column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Text,
    Id,
    Bytes,
}

impl Kind {
    fn array(self) -> &'static str {
        match self {
            Self::Int => "bigint[]",
            Self::Text => "text[]",
            Self::Id => "uuid[]",
            Self::Bytes => "bytea[]",
        }
    }

    pub(super) fn scalar(self) -> &'static str {
        self.array().trim_end_matches("[]")
    }
}

/// The columns that a text mentions as `@column`.
pub(super) fn placeholders(text: &str) -> Vec<&str> {
    let ends = |rest: &str| rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
    text.split('@').skip(1).map(|rest| &rest[..ends(rest)]).collect()
}

/// Puts values in for `@column`.
pub(super) fn put_values(text: &str, columns: &[(&str, Kind)], value: impl Fn(usize, &str) -> String) -> String {
    let mut parts = text.split('@');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for (rest, name) in parts.zip(placeholders(text)) {
        let nth = columns.iter().position(|(column, _)| *column == name);
        let nth = nth.unwrap_or_else(|| unreachable!("no column {name} in {text}"));
        out.push_str(&value(nth, name));
        out.push_str(&rest[name.len()..]);
    }
    out
}

/// A question asked for many rows at once. It is written as if for one, with `@column` for its values: SQLite asks it row
/// by row, PostgreSQL once over arrays. Each answer says which row it belongs to.
#[derive(Debug)]
pub(crate) struct Lookup {
    text: &'static str,
    columns: &'static [(&'static str, Kind)],
    sqlite: OnceLock<String>,
    postgres: OnceLock<String>,
}

impl Lookup {
    pub(crate) const fn new(text: &'static str, columns: &'static [(&'static str, Kind)]) -> Self {
        Self { text, columns, sqlite: OnceLock::new(), postgres: OnceLock::new() }
    }

    pub(crate) fn render(&self, dialect: Dialect) -> &str {
        let rendered = match dialect {
            Dialect::Sqlite => &self.sqlite,
            Dialect::Postgres => &self.postgres,
        };
        rendered.get_or_init(|| render_lookup(self.text, self.columns, dialect))
    }
}

/// Renders a question for many rows whose text was put together for one call.
pub(crate) fn render_lookup(text: &str, columns: &[(&str, Kind)], dialect: Dialect) -> String {
    let text = render(text, dialect);
    match dialect {
        Dialect::Sqlite => put_values(&text, columns, |nth, _| format!("?{}", nth + 1)),
        Dialect::Postgres => {
            let one = put_values(&text, columns, |_, name| format!("r.v_{name}"));
            // The subquery is not flattened, so that it is asked once for each row and steps down its index.
            format!(
                "SELECT r.v_ord, q.* FROM {} CROSS JOIN LATERAL ({one} OFFSET 0) q",
                arrays_as_rows(columns, Shared::NONE)
            )
        }
    }
}

/// Arrays as rows of a table `r`, with their place as `v_ord`. Of a column that is shared there is no array.
pub(super) fn arrays_as_rows(columns: &[(&str, Kind)], shared: Shared) -> String {
    let own = || columns.iter().enumerate().filter(|(nth, _)| !shared.has(*nth));
    let arrays: Vec<_> = own().map(|(nth, (_, kind))| format!("${}::{}", nth + 1, kind.array())).collect();
    let names: Vec<_> = own().map(|(_, (name, _))| format!("v_{name}")).collect();
    format!("unnest({}) WITH ORDINALITY AS r({}, v_ord)", arrays.join(", "), names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_fragments_follow_the_dialect() {
        static PICK: Sql = Sql::new("SELECT id FROM t WHERE a = ?1 LIMIT ?2 {skip_locked}");
        assert_eq!(PICK.render(Dialect::Sqlite), "SELECT id FROM t WHERE a = ?1 LIMIT ?2 ");
        assert_eq!(PICK.render(Dialect::Postgres), "SELECT id FROM t WHERE a = $1 LIMIT $2 FOR UPDATE SKIP LOCKED");
    }
}
