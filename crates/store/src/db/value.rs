//! What goes into a statement: parameters one by one, or columns of many rows.

use rusqlite::types::{ToSqlOutput, ValueRef};
use tokio_postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};
use uuid::Uuid;

use super::sql::Kind;

/// One parameter.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Param<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    Id(Uuid),
    Bytes(&'a [u8]),
}

impl<'a> Param<'a> {
    fn as_int(self) -> Option<i64> {
        if let Self::Int(value) = self { Some(value) } else { None }
    }

    fn as_text(self) -> Option<&'a str> {
        if let Self::Text(value) = self { Some(value) } else { None }
    }

    fn as_id(self) -> Option<Uuid> {
        if let Self::Id(value) = self { Some(value) } else { None }
    }

    fn as_bytes(self) -> Option<&'a [u8]> {
        if let Self::Bytes(value) = self { Some(value) } else { None }
    }
}

impl From<i64> for Param<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<Uuid> for Param<'_> {
    fn from(value: Uuid) -> Self {
        Self::Id(value)
    }
}

impl<'a> From<&'a str> for Param<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a String> for Param<'a> {
    fn from(value: &'a String) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a [u8]> for Param<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Bytes(value)
    }
}

impl<'a, T: Into<Param<'a>>> From<Option<T>> for Param<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl rusqlite::ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(*value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
            Self::Id(value) => ValueRef::Blob(value.as_bytes()),
            Self::Bytes(value) => ValueRef::Blob(value),
        }))
    }
}

impl ToSql for Param<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            // A narrow column makes a narrow parameter of what is compared with it.
            Self::Int(value) if *ty == Type::INT4 => i32::try_from(*value)?.to_sql(ty, out),
            Self::Int(value) if *ty == Type::INT2 => i16::try_from(*value)?.to_sql(ty, out),
            Self::Int(value) => value.to_sql_checked(ty, out),
            Self::Text(value) => value.to_sql_checked(ty, out),
            Self::Id(value) => value.to_sql_checked(ty, out),
            Self::Bytes(value) => value.to_sql_checked(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        // Each variant checks for itself.
        true
    }

    to_sql_checked!();
}

/// One column of a batch.
#[derive(Debug)]
pub(crate) enum Column<'a> {
    Int(Vec<Option<i64>>),
    Text(Vec<Option<&'a str>>),
    Id(Vec<Option<Uuid>>),
    Bytes(Vec<Option<&'a [u8]>>),
}

impl<'a> Column<'a> {
    /// A column of values that are all of its kind.
    pub(crate) fn of(kind: Kind, values: impl Iterator<Item = Param<'a>>) -> Self {
        match kind {
            Kind::Int => Self::Int(values.map(Param::as_int).collect()),
            Kind::Text => Self::Text(values.map(Param::as_text).collect()),
            Kind::Id => Self::Id(values.map(Param::as_id).collect()),
            Kind::Bytes => Self::Bytes(values.map(Param::as_bytes).collect()),
        }
    }

    pub(crate) fn ints<T>(rows: &'a [T], value: impl Fn(&'a T) -> Option<i64>) -> Self {
        Self::Int(rows.iter().map(value).collect())
    }

    pub(crate) fn texts<T>(rows: &'a [T], value: impl Fn(&'a T) -> Option<&'a str>) -> Self {
        Self::Text(rows.iter().map(value).collect())
    }

    pub(crate) fn ids<T>(rows: &'a [T], value: impl Fn(&'a T) -> Option<Uuid>) -> Self {
        Self::Id(rows.iter().map(value).collect())
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Int(values) => values.len(),
            Self::Text(values) => values.len(),
            Self::Id(values) => values.len(),
            Self::Bytes(values) => values.len(),
        }
    }

    /// Whether all rows have the same value.
    pub(super) fn is_shared(&self) -> bool {
        fn all_same<T: PartialEq>(values: &[T]) -> bool {
            values.windows(2).all(|pair| pair[0] == pair[1])
        }
        match self {
            Self::Int(values) => all_same(values),
            Self::Text(values) => all_same(values),
            Self::Id(values) => all_same(values),
            Self::Bytes(values) => all_same(values),
        }
    }

    pub(crate) fn row(&self, nth: usize) -> Param<'_> {
        match self {
            Self::Int(values) => values[nth].into(),
            Self::Text(values) => values[nth].into(),
            Self::Id(values) => values[nth].into(),
            Self::Bytes(values) => values[nth].into(),
        }
    }

    pub(crate) fn array(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Int(values) => values,
            Self::Text(values) => values,
            Self::Id(values) => values,
            Self::Bytes(values) => values,
        }
    }
}
