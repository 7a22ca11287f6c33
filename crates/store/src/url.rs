//! Which database a URL means.

use std::path::PathBuf;

use crate::db::PostgresAddress;
use crate::error::{Error, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    Sqlite(PathBuf),
    Postgres(String),
}

impl StoreUrl {
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = |why: &str| Error::Url { url: redacted(text), why: why.to_owned() };
        if let Some(rest) = text.strip_prefix("sqlite:") {
            let path = rest.strip_prefix("//").unwrap_or(rest);
            return match path {
                "" => Err(invalid("it names no file")),
                ":memory:" => Err(invalid("a database in memory would be lost with the process")),
                _ => Ok(Self::Sqlite(PathBuf::from(path))),
            };
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            PostgresAddress::parse(text).map_err(|why| invalid(&why))?;
            return Ok(Self::Postgres(text.to_owned()));
        }
        Err(invalid("it starts with neither sqlite: nor postgres://"))
    }

    /// The place as it may be shown: without a password.
    pub fn place(&self) -> String {
        match self {
            Self::Sqlite(path) => path.display().to_string(),
            Self::Postgres(url) => redacted(url),
        }
    }
}

/// Takes passwords out of a text that is or holds a URL, also one that cannot be parsed. Rather too much than too little.
pub fn redacted(text: &str) -> String {
    // The scheme's own colon is not the password's; everything between the next one and the last `@` is.
    let after_scheme = text.find(':').map_or(0, |colon| colon + 1);
    let password = text.rfind('@').and_then(|at| {
        let user = text.get(after_scheme..at)?;
        Some((after_scheme + user.find(':')?, at))
    });
    let shown = match password {
        Some((colon, at)) => format!("{}:***{}", &text[..colon], &text[at..]),
        None => text.to_owned(),
    };
    let mut out = String::new();
    let mut rest = shown.as_str();
    while let Some(at) = rest.find("password=") {
        let value = at + "password=".len();
        out.push_str(&rest[..value]);
        out.push_str("***");
        rest = rest[value..].find(['&', ' ']).map_or("", |end| &rest[value + end..]);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_file_or_a_server() {
        assert_eq!(StoreUrl::parse("sqlite:redrive.db").unwrap(), StoreUrl::Sqlite("redrive.db".into()));
        assert_eq!(StoreUrl::parse("sqlite:///var/x.db").unwrap(), StoreUrl::Sqlite("/var/x.db".into()));
        assert!(matches!(StoreUrl::parse("postgres://u@h/db").unwrap(), StoreUrl::Postgres(_)));
        for invalid in ["", "redrive.db", "mysql://x", "sqlite:", "sqlite::memory:", "postgres://h:notaport/db"] {
            let error = StoreUrl::parse(invalid).unwrap_err().to_string();
            assert!(error.contains("sqlite:FILE"), "{error}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let url = StoreUrl::parse("postgres://u:hunter2@h/db").unwrap();
        assert_eq!(url.place(), "postgres://u:***@h/db");
        let url = StoreUrl::parse("postgres://u@h/db?password=hunter2").unwrap();
        assert!(!url.place().contains("hunter2"));
        let invalid = StoreUrl::parse("postgres://u:hunter2@h:x/db").unwrap_err().to_string();
        assert!(!invalid.contains("hunter2"), "{invalid}");
        for text in [
            "postgres:u:hunter2@h/db",
            "postgres://u:hunter2?x@h/db",
            "host=h password=hunter2 user=u",
            "postgres://h/db?password=hunter2&x=1",
        ] {
            assert!(!redacted(text).contains("hunter2"), "{}", redacted(text));
        }
    }
}
