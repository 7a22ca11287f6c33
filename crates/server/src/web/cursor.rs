//! Where a list goes on: the key of the last row that was given, and a mark of the filter and order that it was given for.
//! Callers pass it back as it is.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redrive_store::raw::Sha256;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::code::Code;
use crate::error::{Error, Result};

#[derive(Serialize, Deserialize)]
struct Cursor<K> {
    key: K,
    mark: String,
}

const MARK: usize = 16;

/// A mark of what is listed, and in which order.
pub fn mark(of: &str) -> String {
    let mut digest = Sha256::of(of.as_bytes()).to_string();
    digest.truncate(MARK);
    digest
}

pub fn write<K: Serialize>(key: K, mark: &str) -> Result<String> {
    let json = serde_json::to_vec(&Cursor { key, mark: mark.to_owned() })?;
    Ok(URL_SAFE_NO_PAD.encode(json))
}

pub fn read<K: DeserializeOwned>(text: &str, mark: &str) -> Result<K> {
    let cursor = URL_SAFE_NO_PAD.decode(text).ok().and_then(|json| serde_json::from_slice::<Cursor<K>>(&json).ok());
    match cursor {
        Some(cursor) if cursor.mark == mark => Ok(cursor.key),
        Some(_) => Err(bad("the cursor came from a list with another filter; begin again without it")),
        None => Err(bad("the cursor cannot be read; pass on `next` as it was given, or begin again without it")),
    }
}

fn bad(detail: &str) -> Error {
    Error::of_code(Code::BadCursor, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_serves_the_list_it_came_from_and_no_other() {
        let mine = mark("partitions source=ads");
        let cursor = write(("ads", 7), &mine).unwrap();
        assert_eq!(read::<(String, u32)>(&cursor, &mine).unwrap(), ("ads".to_owned(), 7));
        for (text, mark) in [
            (cursor.as_str(), mark("partitions source=crm")),
            (&cursor[1..], mine.clone()),
            ("", mine.clone()),
            ("%%%", mine.clone()),
        ] {
            let error = read::<(String, u32)>(text, &mark).unwrap_err();
            assert_eq!(error.code(), Code::BadCursor, "{text}");
        }
        assert_eq!(read::<u32>(&cursor, &mine).unwrap_err().code(), Code::BadCursor, "the key of another list");
    }
}
