//! Each statement is written once; this is where the two databases' dialects part.
//!
//! A statement uses `?1` for parameters and `{…}` for the few fragments that differ. A batch statement is written as if
//! for one row, with `@column` for its values: SQLite runs it row by row in one transaction, PostgreSQL runs it once over
//! arrays.

use std::fmt::Write as _;
use std::sync::OnceLock;

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
        // With a constant for one key column, PostgreSQL would look the others up without the index; a subquery that it may
        // not flatten keeps the whole key together.
        ("with_control", Dialect::Postgres) => {
            "LEFT JOIN LATERAL (SELECT * FROM partition_control k WHERE k.source = p.source \
             AND k.customer_id = p.customer_id AND k.query_name = p.query_name AND k.logical_date = p.logical_date \
             OFFSET 0) c ON true"
        }
        ("with_control", Dialect::Sqlite) => {
            "LEFT JOIN partition_control c ON c.source = p.source AND c.customer_id = p.customer_id \
             AND c.query_name = p.query_name AND c.logical_date = p.logical_date"
        }
        // PostgreSQL must not flatten the picking subquery into the update, or it picks more than it was asked for.
        ("materialized", Dialect::Postgres) => "MATERIALIZED",
        ("skip_locked" | "lock" | "materialized", Dialect::Sqlite) => "",
        _ => unreachable!("unknown fragment {{{name}}}"),
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
}

/// How a batch statement says which of its rows took effect.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Effect {
    /// An update or delete: by the row itself.
    Row,
    /// An insert that skips what exists: by the unique columns, which must not repeat within a batch.
    Inserted(&'static [&'static str]),
    /// Every row does.
    All,
}

/// A statement over many rows. `{from}`, `{using}` or `{values …}` stands where PostgreSQL brings the arrays in.
#[derive(Debug)]
pub(crate) struct Batch {
    text: &'static str,
    columns: &'static [(&'static str, Kind)],
    effect: Effect,
    sqlite: OnceLock<String>,
    postgres: OnceLock<String>,
}

impl Batch {
    pub(crate) const fn new(text: &'static str, columns: &'static [(&'static str, Kind)], effect: Effect) -> Self {
        Self { text, columns, effect, sqlite: OnceLock::new(), postgres: OnceLock::new() }
    }

    pub(crate) fn effect(&self) -> Effect {
        self.effect
    }

    pub(crate) fn render(&self, dialect: Dialect) -> &str {
        match dialect {
            Dialect::Sqlite => self.sqlite.get_or_init(|| self.substitute("", |nth, _| format!("?{}", nth + 1))),
            Dialect::Postgres => self.postgres.get_or_init(|| self.for_postgres()),
        }
    }

    fn for_postgres(&self) -> String {
        let arrays: Vec<_> =
            self.columns.iter().enumerate().map(|(nth, (_, kind))| format!("${}::{}", nth + 1, kind.array())).collect();
        let names: Vec<_> = self.columns.iter().map(|(name, _)| format!("v_{name}")).collect();
        let rows = format!("unnest({}) WITH ORDINALITY AS r({}, v_ord)", arrays.join(", "), names.join(", "));
        let value = |_, name: &str| format!("r.v_{name}");
        match self.effect {
            Effect::All => self.substitute(&rows, value),
            Effect::Row => self.substitute(&rows, value) + " RETURNING r.v_ord",
            Effect::Inserted(unique) => format!("{} RETURNING {}", self.substitute(&rows, value), unique.join(", ")),
        }
    }

    /// Where the unique columns of an insert lie among its values, and their types.
    pub(crate) fn unique_columns(&self) -> Vec<(usize, Kind)> {
        let Effect::Inserted(unique) = self.effect else { return vec![] };
        let places = unique.iter().filter_map(|name| self.columns.iter().position(|(column, _)| column == name));
        places.map(|nth| (nth, self.columns[nth].1)).collect()
    }

    /// Puts values in for `@column`, and the row source in for `{from}`, `{using}` or `{values …}`.
    fn substitute(&self, rows: &str, value: impl Fn(usize, &str) -> String) -> String {
        let text = if rows.is_empty() {
            // SQLite runs a plain VALUES without the temporary table that an INSERT … SELECT gets.
            let bare = self.text.replace("{from}", "").replace("{using}", "");
            replace_values(&bare, |list| format!("VALUES ({list})"))
        } else {
            let text =
                self.text.replace("{from}", &format!("FROM {rows}")).replace("{using}", &format!("USING {rows}"));
            // Without a WHERE, what follows could be taken for a join's condition.
            replace_values(&text, |list| format!("SELECT {list} FROM {rows} WHERE true"))
        };
        let mut out = String::with_capacity(text.len() + 64);
        let mut rest = text.as_str();
        while let Some(at) = rest.find('@') {
            out.push_str(&rest[..at]);
            let name_end = rest[at + 1..]
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .map_or(rest.len(), |end| at + 1 + end);
            let name = &rest[at + 1..name_end];
            let nth = self.columns.iter().position(|(column, _)| *column == name);
            let nth = nth.unwrap_or_else(|| unreachable!("no column {name} in {}", self.text));
            let _ = write!(out, "{}", value(nth, name));
            rest = &rest[name_end..];
        }
        out.push_str(rest);
        out
    }
}

/// Puts something in for `{values a, b, c}`.
fn replace_values(text: &str, make: impl Fn(&str) -> String) -> String {
    const OPEN: &str = "{values ";
    let Some(start) = text.find(OPEN) else { return text.to_owned() };
    let end = text[start..].find('}').map_or(text.len(), |end| start + end);
    format!("{}{}{}", &text[..start], make(&text[start + OPEN.len()..end]), &text[end + 1..])
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

    #[test]
    fn an_insert_gives_values_or_selects_them() {
        static ADD: Batch = Batch::new(
            "INSERT INTO t (a, b) {values @a, 'x'} ON CONFLICT DO NOTHING",
            &[("a", Kind::Int)],
            Effect::All,
        );
        assert_eq!(ADD.render(Dialect::Sqlite), "INSERT INTO t (a, b) VALUES (?1, 'x') ON CONFLICT DO NOTHING");
        assert_eq!(
            ADD.render(Dialect::Postgres),
            "INSERT INTO t (a, b) SELECT r.v_a, 'x' FROM unnest($1::bigint[]) WITH ORDINALITY AS r(v_a, v_ord) \
             WHERE true ON CONFLICT DO NOTHING"
        );
    }

    #[test]
    fn a_batch_is_one_row_at_a_time_or_arrays() {
        static SET: Batch = Batch::new(
            "UPDATE t SET a = @a, a_b = @a_b {from} WHERE id = @id",
            &[("id", Kind::Id), ("a", Kind::Int), ("a_b", Kind::Text)],
            Effect::Row,
        );
        assert_eq!(SET.render(Dialect::Sqlite), "UPDATE t SET a = ?2, a_b = ?3  WHERE id = ?1");
        assert_eq!(
            SET.render(Dialect::Postgres),
            "UPDATE t SET a = r.v_a, a_b = r.v_a_b FROM unnest($1::uuid[], $2::bigint[], $3::text[]) WITH ORDINALITY \
             AS r(v_id, v_a, v_a_b, v_ord) WHERE id = r.v_id RETURNING r.v_ord"
        );
    }
}
