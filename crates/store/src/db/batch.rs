//! A statement over many rows, written as if for one. SQLite runs it row by row in one transaction; PostgreSQL runs it once over
//! arrays.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::shared::Shared;
use super::sql::{Dialect, Kind, arrays_as_rows, placeholders, put_values};

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
    postgres: Mutex<BTreeMap<Shared, Arc<str>>>,
}

impl Batch {
    /// How many rows SQLite inserts by one statement: starting one costs as much as inserting a small row.
    pub(crate) const ROWS_A_STATEMENT: usize = 16;
    /// How many forms of it PostgreSQL is given, by what the rows share.
    const MOST_STATEMENTS: usize = 16;

    pub(crate) const fn new(text: &'static str, columns: &'static [(&'static str, Kind)], effect: Effect) -> Self {
        Self {
            text,
            columns,
            effect,
            sqlite: OnceLock::new(),
            sqlite_rows: OnceLock::new(),
            postgres: Mutex::new(BTreeMap::new()),
        }
    }

    pub(crate) fn effect(&self) -> Effect {
        self.effect
    }

    /// The statement as it is without anything shared.
    pub(crate) fn render(&self, dialect: Dialect) -> String {
        match dialect {
            Dialect::Sqlite => self.for_sqlite().to_owned(),
            Dialect::Postgres => self.over_arrays(Shared::NONE),
        }
    }

    /// The statement for one row, which SQLite runs row by row.
    pub(crate) fn for_sqlite(&self) -> &str {
        self.sqlite.get_or_init(|| undone_with_its_transaction(&self.substitute("", |nth, _| format!("?{}", nth + 1))))
    }

    /// The statement over arrays, with one value in place of an array for each column whose rows share it; and which columns
    /// those are. Every such statement is prepared and kept, so that there are only so many.
    pub(crate) fn for_postgres(&self, shared: Shared) -> (Arc<str>, Shared) {
        let shared = shared.except(self.condition_columns());
        let mut rendered = self.postgres.lock().unwrap_or_else(PoisonError::into_inner);
        // One form is left for whatever does not get its own.
        let has_own = rendered.contains_key(&shared) || rendered.len() + 1 < Self::MOST_STATEMENTS;
        let shared = if has_own { shared } else { Shared::NONE };
        let text = rendered.entry(shared).or_insert_with(|| self.over_arrays(shared).into());
        (Arc::clone(text), shared)
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
        let text = format!("{head}VALUES {}{tail}", rows.join(", "));
        (!head.contains('@') && !tail.contains('@')).then(|| undone_with_its_transaction(&text))
    }

    fn over_arrays(&self, shared: Shared) -> String {
        let rows = arrays_as_rows(self.columns, shared);
        let value = |nth: usize, name: &str| match shared.has(nth) {
            true => format!("${}::{}", nth + 1, self.columns[nth].1.scalar()),
            false => format!("r.v_{name}"),
        };
        match self.effect {
            Effect::All => self.substitute(&rows, value),
            Effect::Row => self.substitute(&rows, value) + " RETURNING r.v_ord",
            Effect::Inserted(unique) => format!("{} RETURNING {}", self.substitute(&rows, value), unique.join(", ")),
        }
    }

    /// The columns that say which rows of the table are meant. They stay arrays: the planner would take a single value for a range to
    /// scan, and not for the beginning of a key to look up.
    fn condition_columns(&self) -> impl Iterator<Item = usize> {
        let condition = self.text.split_once("WHERE").map_or("", |(_, condition)| condition);
        placeholders(condition)
            .into_iter()
            .filter_map(|name| self.columns.iter().position(|(column, _)| *column == name))
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

/// Keeps SQLite from copying every page that a statement changes so as to undo the statement alone, should it fail half-way: what fails
/// here is undone with its transaction or savepoint.
fn undone_with_its_transaction(text: &str) -> String {
    let after_comment = text.find("*/").map_or(text, |end| &text[end + 2..]).trim_start();
    let (comment, statement) = text.split_at(text.len() - after_comment.len());
    let begun = [("INSERT INTO ", "INSERT OR FAIL INTO "), ("UPDATE ", "UPDATE OR FAIL ")]
        .into_iter()
        .find_map(|(verb, failing)| Some(format!("{comment}{failing}{}", statement.strip_prefix(verb)?)));
    begun.unwrap_or_else(|| text.to_owned())
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
    use std::collections::HashSet;

    use super::super::value::Column;
    use super::*;

    #[test]
    fn an_insert_gives_values_or_selects_them() {
        static ADD: Batch = Batch::new(
            "INSERT INTO t (a, b) {values @a, 'x'} ON CONFLICT DO NOTHING",
            &[("a", Kind::Int)],
            Effect::All,
        );
        assert_eq!(ADD.for_sqlite(), "INSERT OR FAIL INTO t (a, b) VALUES (?1, 'x') ON CONFLICT DO NOTHING");
        assert_eq!(
            &*ADD.for_postgres(Shared::NONE).0,
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
        assert!(text.starts_with("INSERT OR FAIL INTO t (a, b) VALUES (?1, ?2), (?3, ?4), "), "{text}");
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
        assert_eq!(SET.for_sqlite(), "UPDATE OR FAIL t SET a = ?2, a_b = ?3  WHERE id = ?1");
        assert_eq!(
            &*SET.for_postgres(Shared::NONE).0,
            "UPDATE t SET a = r.v_a, a_b = r.v_a_b FROM unnest($1::uuid[], $2::bigint[], $3::text[]) WITH ORDINALITY \
             AS r(v_id, v_a, v_a_b, v_ord) WHERE id = r.v_id RETURNING r.v_ord"
        );
    }

    #[test]
    fn what_rows_share_is_one_value_unless_it_says_which_rows_are_meant() {
        static SET: Batch = Batch::new(
            "UPDATE t SET a = @a, b = @b {from} WHERE id = @id AND kind = @kind",
            &[("id", Kind::Id), ("kind", Kind::Text), ("a", Kind::Int), ("b", Kind::Text)],
            Effect::Row,
        );
        let column = |shared: bool| Column::Int((0..16).map(|nth| Some(if shared { 7 } else { nth })).collect());
        let shared = Shared::of(&[false, true, true, false].map(column));
        assert!(shared.has(1) && shared.has(2));
        let (text, used) = SET.for_postgres(shared);
        assert_eq!(
            &*text,
            "UPDATE t SET a = $3::bigint, b = r.v_b FROM unnest($1::uuid[], $2::text[], $4::text[]) WITH ORDINALITY AS \
             r(v_id, v_kind, v_b, v_ord) WHERE id = r.v_id AND kind = r.v_kind RETURNING r.v_ord"
        );
        assert!(used.has(2) && !used.has(1));
    }

    #[test]
    fn there_are_only_so_many_forms_of_a_statement() {
        const NAMES: [(&str, Kind); 6] = [
            ("a", Kind::Int),
            ("b", Kind::Int),
            ("c", Kind::Int),
            ("d", Kind::Int),
            ("e", Kind::Int),
            ("f", Kind::Int),
        ];
        static ADD: Batch = Batch::new("INSERT INTO t ({columns}) {values}", &NAMES, Effect::All);
        let column = |shared: bool| Column::Int((0..16).map(|nth| Some(if shared { 7 } else { nth })).collect());
        let forms = (1..32).map(|form| [false, form & 1 > 0, form & 2 > 0, form & 4 > 0, form & 8 > 0, form & 16 > 0]);
        let texts: HashSet<Arc<str>> = forms.map(|form| ADD.for_postgres(Shared::of(&form.map(column))).0).collect();
        assert_eq!(texts.len(), Batch::MOST_STATEMENTS);
    }
}
