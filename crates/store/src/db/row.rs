//! A row of an answer: a cursor over its columns, from the first to the last.

use redrive_core::time::Timestamp;
use tokio_postgres::types::{FromSql, Type};
use uuid::Uuid;

use crate::error::{Error, Result};

pub(crate) enum Row<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

/// An integer of any width that PostgreSQL has.
struct AnyInt(i64);

impl<'a> FromSql<'a> for AnyInt {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(match *ty {
            Type::INT2 => i16::from_sql(ty, raw)?.into(),
            Type::INT4 => i32::from_sql(ty, raw)?.into(),
            _ => i64::from_sql(ty, raw)?,
        }))
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT2 | Type::INT4 | Type::INT8)
    }
}

impl Row<'_> {
    /// The columns one after another, from the first on.
    pub(crate) fn cursor(&self) -> Cursor<'_> {
        self.cursor_at(0)
    }

    /// The same, from a later column on.
    pub(crate) fn cursor_at(&self, next: usize) -> Cursor<'_> {
        Cursor { row: self, next }
    }

    fn get<T>(&self, nth: usize) -> Result<T>
    where
        T: rusqlite::types::FromSql + for<'r> FromSql<'r>,
    {
        match self {
            Self::Sqlite(row) => row.get(nth).map_err(|error| Error::row("an answer", error)),
            Self::Postgres(row) => row.try_get(nth).map_err(|error| Error::row("an answer", error)),
        }
    }

    pub(crate) fn int(&self, nth: usize) -> Result<i64> {
        self.opt_int(nth)?.ok_or_else(|| Error::row("an answer", format!("column {nth} is null")))
    }

    pub(crate) fn opt_int(&self, nth: usize) -> Result<Option<i64>> {
        match self {
            Self::Sqlite(row) => row.get(nth).map_err(|error| Error::row("an answer", error)),
            Self::Postgres(row) => {
                let value: Option<AnyInt> = row.try_get(nth).map_err(|error| Error::row("an answer", error))?;
                Ok(value.map(|AnyInt(value)| value))
            }
        }
    }

    pub(crate) fn text(&self, nth: usize) -> Result<String> {
        self.get(nth)
    }

    pub(crate) fn opt_text(&self, nth: usize) -> Result<Option<String>> {
        self.get(nth)
    }

    /// Reads a text where it lies.
    fn opt_str(&self, nth: usize) -> Result<Option<&str>> {
        match self {
            Self::Sqlite(row) => {
                let value = row.get_ref(nth).map_err(|error| Error::row("an answer", error))?;
                value.as_str_or_null().map_err(|error| Error::row("an answer", error))
            }
            Self::Postgres(row) => row.try_get(nth).map_err(|error| Error::row("an answer", error)),
        }
    }

    pub(crate) fn bytes(&self, nth: usize) -> Result<Vec<u8>> {
        self.get(nth)
    }

    pub(crate) fn id(&self, nth: usize) -> Result<Uuid> {
        self.opt_id(nth)?.ok_or_else(|| Error::row("an answer", format!("column {nth} is null")))
    }

    pub(crate) fn opt_id(&self, nth: usize) -> Result<Option<Uuid>> {
        match self {
            Self::Sqlite(row) => {
                let bytes: Option<[u8; 16]> = row.get(nth).map_err(|error| Error::row("an answer", error))?;
                Ok(bytes.map(Uuid::from_bytes))
            }
            Self::Postgres(row) => row.try_get(nth).map_err(|error| Error::row("an answer", error)),
        }
    }

    /// Reads a word, such as a status, without making a string of it.
    pub(crate) fn word<T>(&self, nth: usize) -> Result<T>
    where
        T: std::str::FromStr,
        T::Err: std::fmt::Display,
    {
        self.opt_word(nth)?.ok_or_else(|| Error::row("an answer", format!("column {nth} is null")))
    }

    pub(crate) fn opt_word<T>(&self, nth: usize) -> Result<Option<T>>
    where
        T: std::str::FromStr,
        T::Err: std::fmt::Display,
    {
        self.opt_str(nth)?.map(|text| text.parse().map_err(|error| Error::row("an answer", error))).transpose()
    }
}

/// A row's columns, each read once and in the order of the SELECT list.
pub(crate) struct Cursor<'a> {
    row: &'a Row<'a>,
    next: usize,
}

impl Cursor<'_> {
    fn step(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// Passes over columns.
    pub(crate) fn skip(&mut self, columns: usize) {
        self.next += columns;
    }

    pub(crate) fn int(&mut self) -> Result<i64> {
        self.row.int(self.step())
    }

    pub(crate) fn opt_int(&mut self) -> Result<Option<i64>> {
        self.row.opt_int(self.step())
    }

    /// A number that is not negative and fits.
    pub(crate) fn count<T: TryFrom<i64>>(&mut self) -> Result<T>
    where
        T::Error: std::fmt::Display,
    {
        self.int()?.try_into().map_err(|error| Error::row("an answer", error))
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp> {
        self.int().map(Timestamp::from_micros)
    }

    pub(crate) fn opt_time(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.opt_int()?.map(Timestamp::from_micros))
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        self.row.text(self.step())
    }

    /// A text where it lies in the answer.
    pub(crate) fn str(&mut self) -> Result<&str> {
        let nth = self.step();
        self.row.opt_str(nth)?.ok_or_else(|| Error::row("an answer", format!("column {nth} is null")))
    }

    pub(crate) fn opt_text(&mut self) -> Result<Option<String>> {
        self.row.opt_text(self.step())
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>> {
        self.row.bytes(self.step())
    }

    pub(crate) fn id(&mut self) -> Result<Uuid> {
        self.row.id(self.step())
    }

    pub(crate) fn opt_id(&mut self) -> Result<Option<Uuid>> {
        self.row.opt_id(self.step())
    }

    pub(crate) fn word<T>(&mut self) -> Result<T>
    where
        T: std::str::FromStr,
        T::Err: std::fmt::Display,
    {
        self.row.word(self.step())
    }

    pub(crate) fn opt_word<T>(&mut self) -> Result<Option<T>>
    where
        T: std::str::FromStr,
        T::Err: std::fmt::Display,
    {
        self.row.opt_word(self.step())
    }
}
