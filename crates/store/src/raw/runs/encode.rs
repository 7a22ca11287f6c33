//! Key values as directory names.
//!
//! Rules, all of them for plain percent-decoding (DuckDB, Spark and Polars decode Hive values that way):
//! - `a-z 0-9 - _` stand for themselves; every other byte is `%XX`, with upper-case digits.
//! - `.` stands for itself only between two of those, so no name has `..`, a leading dot, or the trailing dot that
//!   Windows drops.
//! - `A-Z` are encoded too. Otherwise the customers `ACME` and `acme` would share a directory on macOS and Windows,
//!   and one would be read as the other. Names in lower case, which are the rule, are not touched by this.
//! - Everything outside ASCII is encoded, so the composed and decomposed forms of a letter stay apart on file systems
//!   that normalise.
//! - A directory name has at most 255 bytes. A value that would need more becomes `<beginning>~<sha256 of the value>`.
//!   No plain encoding holds a `~`, so the two forms cannot meet. That form cannot be decoded; the manifest has the key.
//!
//! Device names (`CON`, `NUL`) need no rule: every name starts with its field, as in `source=`.

use percent_encoding::percent_encode_byte;

use crate::raw::digest::Sha256;

/// The longest file name that ext4, XFS, APFS and NTFS all take.
const NAME_MAX: usize = 255;
/// How much of a value that is too long is kept readable in front of its hash.
const BEGINNING_MAX: usize = 64;

/// The directory name `field=value`.
pub(super) fn segment(field: &str, value: &str) -> String {
    let (whole, cut) = encode(value);
    if field.len() + 1 + whole.len() <= NAME_MAX {
        return format!("{field}={whole}");
    }
    format!("{field}={}~{}", &whole[..cut], Sha256::of(value.as_bytes()))
}

/// The encoded value, and where to cut it so that no more than `BEGINNING_MAX` bytes and only whole characters remain:
/// half a character would be bytes that are no UTF-8 once the name is decoded.
fn encode(value: &str) -> (String, usize) {
    let bytes = value.as_bytes();
    let mut encoded = String::with_capacity(value.len());
    let mut cut = 0;
    for (at, character) in value.char_indices() {
        for (offset, &byte) in bytes[at..at + character.len_utf8()].iter().enumerate() {
            let inner_dot = byte == b'.' && at > 0 && is_plain(bytes.get(at - 1)) && is_plain(bytes.get(at + 1));
            if inner_dot || is_plain(bytes.get(at + offset)) {
                encoded.push(char::from(byte));
            } else {
                encoded.push_str(percent_encode_byte(byte));
            }
        }
        if encoded.len() <= BEGINNING_MAX {
            cut = encoded.len();
        }
    }
    (encoded, cut)
}

fn is_plain(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    #[test]
    fn names_are_as_documented() {
        for (value, name) in [
            ("google-ads", "source=google-ads"),
            ("111-111-1111", "source=111-111-1111"),
            ("v1.2", "source=v1.2"),
            ("a..b", "source=a%2E%2Eb"),
            (".", "source=%2E"),
            ("..", "source=%2E%2E"),
            (".a.", "source=%2Ea%2E"),
            ("../../x", "source=%2E%2E%2F%2E%2E%2Fx"),
            ("%2e", "source=%252e"),
            ("Acme", "source=%41cme"),
            ("CON", "source=%43%4F%4E"),
            ("a b ", "source=a%20b%20"),
            ("a~b", "source=a%7Eb"),
            ("é", "source=%C3%A9"),
            ("e\u{301}", "source=e%CC%81"),
        ] {
            assert_eq!(segment("source", value), name);
        }
    }

    #[test]
    fn a_long_value_keeps_whole_characters_and_its_hash() {
        let value = "é".repeat(128);
        let name = segment("customer_id", &value);
        assert_eq!(name, format!("customer_id={}~{}", "%C3%A9".repeat(10), Sha256::of(value.as_bytes())));
        // 243 + "customer_id=" is exactly 255.
        assert_eq!(segment("customer_id", &"a".repeat(243)).len(), 255);
        assert!(segment("customer_id", &"a".repeat(244)).contains('~'));
    }

    fn hostile() -> impl Strategy<Value = String> {
        let letter = prop_oneof![
            4 => proptest::sample::select(vec!["a", "A", ".", "..", "/", "\\", "%", "~", " ", "=", "2", "E", "e", "é", "e\u{301}", "🦀", "#", ":"])
                .prop_map(str::to_owned),
            1 => any::<char>().prop_filter("keys hold no control character", |c| !c.is_control()).prop_map(String::from),
        ];
        proptest::collection::vec(letter, 1..100).prop_map(|parts| {
            let mut value = String::new();
            for part in parts {
                if value.len() + part.len() <= 256 {
                    value.push_str(&part);
                }
            }
            value
        })
    }

    proptest! {
        #[test]
        fn a_name_is_safe_and_decodable(value in hostile()) {
            let name = segment("customer_id", &value);
            prop_assert!(name.len() <= NAME_MAX);
            prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.%~=".contains(&b)), "{}", name);
            prop_assert!(!name.contains("..") && !name.ends_with('.') && !name.contains("=."), "{}", name);
            prop_assert!(object_store::path::Path::parse(&name).is_ok_and(|path| path.as_ref() == name));
            let encoded = name.strip_prefix("customer_id=").unwrap();
            let decoded = percent_decode_str(encoded).decode_utf8().unwrap();
            match encoded.split_once('~') {
                None => prop_assert_eq!(decoded, value),
                Some((beginning, hash)) => {
                    prop_assert!(value.starts_with(&*percent_decode_str(beginning).decode_utf8().unwrap()));
                    prop_assert_eq!(hash, Sha256::of(value.as_bytes()).to_string());
                }
            }
        }

        #[test]
        fn two_values_have_two_names_even_where_case_is_ignored(a in hostile(), b in hostile()) {
            let fold = |value: &str| segment("source", value).to_lowercase();
            prop_assert_eq!(fold(&a) == fold(&b), a == b);
            let other_case = if a.to_lowercase() == a { a.to_uppercase() } else { a.to_lowercase() };
            prop_assert_eq!(fold(&a) == fold(&other_case), a == other_case);
        }
    }
}
