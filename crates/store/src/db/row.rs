//! A row of an answer, read by position.

use uuid::Uuid;

use crate::error::{Error, Result};

pub(crate) enum Row<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

impl Row<'_> {
    fn get<T>(&self, nth: usize) -> Result<T>
    where
        T: rusqlite::types::FromSql + for<'r> tokio_postgres::types::FromSql<'r>,
    {
        match self {
            Self::Sqlite(row) => row.get(nth).map_err(|error| Error::row("an answer", error)),
            Self::Postgres(row) => row.try_get(nth).map_err(|error| Error::row("an answer", error)),
        }
    }

    pub(crate) fn int(&self, nth: usize) -> Result<i64> {
        self.get(nth)
    }

    pub(crate) fn opt_int(&self, nth: usize) -> Result<Option<i64>> {
        self.get(nth)
    }

    pub(crate) fn text(&self, nth: usize) -> Result<String> {
        self.get(nth)
    }

    pub(crate) fn opt_text(&self, nth: usize) -> Result<Option<String>> {
        self.get(nth)
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
        let text = match self {
            Self::Sqlite(row) => {
                let value = row.get_ref(nth).map_err(|error| Error::row("an answer", error))?;
                value.as_str_or_null().map_err(|error| Error::row("an answer", error))?
            }
            Self::Postgres(row) => {
                row.try_get::<_, Option<&str>>(nth).map_err(|error| Error::row("an answer", error))?
            }
        };
        text.map(|text| text.parse().map_err(|error| Error::row("an answer", error))).transpose()
    }
}
