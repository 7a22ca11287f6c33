//! A table's columns, once: their names, their kinds, and what a row has in each.
//!
//! Statements, arrays and SELECT lists are made from the same list, so that none of them can disagree with another.

use super::sql::Kind;
use super::value::{Column, Param};

/// A column as a statement names it.
pub(crate) type Named = (&'static str, Kind);

/// A column, and what a `T` has in it.
pub(crate) struct Field<T> {
    name: &'static str,
    kind: Kind,
    value: for<'a> fn(&'a T) -> Param<'a>,
}

impl<T> Clone for Field<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Field<T> {}

impl<T> Field<T> {
    pub(crate) const fn int(name: &'static str, value: for<'a> fn(&'a T) -> Param<'a>) -> Self {
        Self { name, kind: Kind::Int, value }
    }

    pub(crate) const fn text(name: &'static str, value: for<'a> fn(&'a T) -> Param<'a>) -> Self {
        Self { name, kind: Kind::Text, value }
    }

    pub(crate) const fn id(name: &'static str, value: for<'a> fn(&'a T) -> Param<'a>) -> Self {
        Self { name, kind: Kind::Id, value }
    }

    pub(crate) const fn bytes(name: &'static str, value: for<'a> fn(&'a T) -> Param<'a>) -> Self {
        Self { name, kind: Kind::Bytes, value }
    }
}

/// The names and kinds of some fields, for a batch statement.
pub(crate) const fn named<T, const N: usize>(fields: &[Field<T>; N]) -> [Named; N] {
    let mut all = [("", Kind::Int); N];
    let mut nth = 0;
    while nth < N {
        all[nth] = (fields[nth].name, fields[nth].kind);
        nth += 1;
    }
    all
}

/// Two lists of columns as one. `C` is the sum of both lengths.
pub(crate) const fn join<const A: usize, const B: usize, const C: usize>(
    first: [Named; A],
    second: [Named; B],
) -> [Named; C] {
    assert!(A + B == C, "the lengths do not add up");
    let mut all = [("", Kind::Int); C];
    let mut nth = 0;
    while nth < C {
        all[nth] = if nth < A { first[nth] } else { second[nth - A] };
        nth += 1;
    }
    all
}

/// The values of some rows, column by column.
pub(crate) fn columns<'a, T>(fields: &[Field<T>], rows: &[&'a T]) -> Vec<Column<'a>> {
    fields.iter().map(|field| Column::of(field.kind, rows.iter().map(|row| (field.value)(row)))).collect()
}

/// A SELECT list of some fields of a table that the statement calls `table`.
pub(crate) fn select_list<T>(table: &str, fields: &[Field<T>]) -> String {
    let names: Vec<String> = fields.iter().map(|field| format!("{table}.{}", field.name)).collect();
    names.join(", ")
}
