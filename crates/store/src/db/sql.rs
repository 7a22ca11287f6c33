//! Each statement is written once; this is where the two databases' dialects part.
//!
//! A statement uses `?1` for parameters and `{…}` for the few fragments that differ. A batch statement is written as if
//! for one row, with `@column` for its values: SQLite runs it row by row in one transaction, PostgreSQL runs it once over
//! arrays.

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
///
/// `{columns}` names all columns and `{values}` gives all their values; `{set}` sets every column that the statement does
/// not mention by itself.
#[derive(Debug)]
pub(crate) struct Batch {
    text: &'static str,
    columns: &'static [(&'static str, Kind)],
    effect: Effect,
    sqlite: OnceLock<String>,
    sqlite_rows: OnceLock<Option<String>>,
    postgres: OnceLock<String>,
}

impl Batch {
    /// How many rows SQLite inserts by one statement: starting one costs as much as inserting a small row.
    pub(crate) const ROWS_A_STATEMENT: usize = 16;

    pub(crate) const fn new(text: &'static str, columns: &'static [(&'static str, Kind)], effect: Effect) -> Self {
        Self { text, columns, effect, sqlite: OnceLock::new(), sqlite_rows: OnceLock::new(), postgres: OnceLock::new() }
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

    /// The statement for [`Self::ROWS_A_STATEMENT`] rows at once on SQLite, where it is an insert of which every row takes
    /// effect.
    pub(crate) fn sqlite_rows(&self) -> Option<&str> {
        self.sqlite_rows.get_or_init(|| self.for_sqlite_rows()).as_deref()
    }

    fn for_sqlite_rows(&self) -> Option<String> {
        let Effect::All = self.effect else { return None };
        let text = self.with_lists();
        let (head, rest) = text.split_once(VALUES)?;
        let (list, tail) = rest.split_once('}')?;
        let row = |row: usize| {
            let first = row * self.columns.len();
            format!("({})", put_values(list, self.columns, |nth, _| format!("?{}", first + nth + 1)))
        };
        let rows: Vec<String> = (0..Self::ROWS_A_STATEMENT).map(row).collect();
        (!head.contains('@') && !tail.contains('@')).then(|| format!("{head}VALUES {}{tail}", rows.join(", ")))
    }

    fn for_postgres(&self) -> String {
        let rows = arrays_as_rows(self.columns);
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

    /// Writes the column lists out where the statement leaves them to be filled in.
    fn with_lists(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        let values: Vec<String> = names.iter().map(|name| format!("@{name}")).collect();
        let mentioned = placeholders(self.text);
        let rest = names.iter().filter(|name| !mentioned.contains(*name));
        let set: Vec<String> = rest.map(|name| format!("{name} = @{name}")).collect();
        self.text
            .replace("{columns}", &names.join(", "))
            .replace("{values}", &format!("{{values {}}}", values.join(", ")))
            .replace("{set}", &set.join(", "))
    }

    /// Puts values in for `@column`, and the row source in for `{from}`, `{using}` or `{values …}`.
    fn substitute(&self, rows: &str, value: impl Fn(usize, &str) -> String) -> String {
        let text = self.with_lists();
        let text = if rows.is_empty() {
            // SQLite runs a plain VALUES without the temporary table that an INSERT … SELECT gets.
            let bare = text.replace("{from}", "").replace("{using}", "");
            replace_values(&bare, |list| format!("VALUES ({list})"))
        } else {
            let text = text.replace("{from}", &format!("FROM {rows}")).replace("{using}", &format!("USING {rows}"));
            // Without a WHERE, what follows could be taken for a join's condition.
            replace_values(&text, |list| format!("SELECT {list} FROM {rows} WHERE true"))
        };
        put_values(&text, self.columns, value)
    }
}

/// The columns that a text mentions as `@column`.
fn placeholders(text: &str) -> Vec<&str> {
    let ends = |rest: &str| rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
    text.split('@').skip(1).map(|rest| &rest[..ends(rest)]).collect()
}

/// Puts values in for `@column`.
fn put_values(text: &str, columns: &[(&str, Kind)], value: impl Fn(usize, &str) -> String) -> String {
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
            format!("SELECT r.v_ord, q.* FROM {} CROSS JOIN LATERAL ({one} OFFSET 0) q", arrays_as_rows(columns))
        }
    }
}

/// Arrays as rows of a table `r`, with their place as `v_ord`.
fn arrays_as_rows(columns: &[(&str, Kind)]) -> String {
    let arrays: Vec<_> =
        columns.iter().enumerate().map(|(nth, (_, kind))| format!("${}::{}", nth + 1, kind.array())).collect();
    let names: Vec<_> = columns.iter().map(|(name, _)| format!("v_{name}")).collect();
    format!("unnest({}) WITH ORDINALITY AS r({}, v_ord)", arrays.join(", "), names.join(", "))
}

/// What opens `{values a, b, c}`.
const VALUES: &str = "{values ";

/// Puts something in for `{values a, b, c}`.
fn replace_values(text: &str, make: impl Fn(&str) -> String) -> String {
    let Some(start) = text.find(VALUES) else { return text.to_owned() };
    let end = text[start..].find('}').map_or(text.len(), |end| start + end);
    format!("{}{}{}", &text[..start], make(&text[start + VALUES.len()..end]), &text[end + 1..])
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
    fn an_insert_that_skips_nothing_takes_many_rows_at_once() {
        static ADD: Batch =
            Batch::new("INSERT INTO t (a, b) {values @a, @b}", &[("a", Kind::Int), ("b", Kind::Int)], Effect::All);
        static SKIPS: Batch =
            Batch::new("INSERT INTO t (a) {values @a}", &[("a", Kind::Int)], Effect::Inserted(&["a"]));
        let text = ADD.sqlite_rows().unwrap();
        assert!(text.starts_with("INSERT INTO t (a, b) VALUES (?1, ?2), (?3, ?4), "), "{text}");
        assert!(text.ends_with("(?31, ?32)"), "{text}");
        assert_eq!(SKIPS.sqlite_rows(), None);
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
