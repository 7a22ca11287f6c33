//! When two values are the same, for `unique`.
//!
//! By value: `1`, `1.0` and `1e0` are one number, `"a"` and `"\u0061"` one text, and `1` is not `"1"`. Numbers are
//! compared exactly, as many digits as they have. Of arrays and objects the parts are compared in the order in which
//! they are written; space between them does not count.

use std::borrow::Cow;

use serde::de::Deserializer as _;

use super::field_type::Kind;
use super::number::Decimal;
use crate::count;

/// Where the bytes of a value go.
pub trait Take {
    fn take(&mut self, bytes: &[u8]);
}

impl Take for Vec<u8> {
    fn take(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Appends what all texts of the same value share and no text of another value has. It ends itself: several values one
/// after the other are the same only if each is.
pub fn append_same(json: &str, into: &mut impl Take) {
    let mut rest = json;
    while let Some(&first) = rest.as_bytes().first() {
        let taken = match first {
            b'"' => append_text(rest, into),
            b'{' | b'}' | b'[' | b']' | b',' | b':' => append_mark(first, into),
            b' ' | b'\t' | b'\r' | b'\n' => 1,
            _ => append_plain(rest, into),
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
}

/// The value of a JSON string. Half of a surrogate pair, which JSON can write and UTF-8 cannot, becomes the three bytes
/// that would encode it.
pub fn text_of(json: &str) -> Cow<'_, [u8]> {
    let inside = json.get(1..json.len().saturating_sub(1)).unwrap_or_default();
    if !inside.as_bytes().contains(&b'\\') {
        return Cow::Borrowed(inside.as_bytes());
    }
    let unescaped = serde_json::Deserializer::from_str(json).deserialize_bytes(Unescaped);
    Cow::Owned(unescaped.unwrap_or_else(|_| inside.as_bytes().to_vec()))
}

fn append_mark(mark: u8, into: &mut impl Take) -> usize {
    into.take(&[mark]);
    1
}

fn append_text(rest: &str, into: &mut impl Take) -> usize {
    let end = end_of_text(rest);
    append_sized(b's', &text_of(&rest[..end]), into);
    end
}

/// A number or one of `true`, `false` and `null`.
fn append_plain(rest: &str, into: &mut impl Take) -> usize {
    let end = rest.bytes().position(|byte| b",:]} \t\r\n".contains(&byte)).unwrap_or(rest.len());
    let word = &rest[..end];
    match Kind::of(word) {
        Kind::Number => append_number(word, into),
        Kind::Null | Kind::Boolean | Kind::Text | Kind::Array | Kind::Object => into.take(&word.as_bytes()[..1]),
    }
    end
}

fn append_number(number: &str, into: &mut impl Take) {
    // What most numbers are needs no arithmetic.
    let plain = number.as_bytes()[0] != b'0' && number.bytes().all(|byte| byte.is_ascii_digit());
    if plain && number.as_bytes().last() != Some(&b'0') {
        return append_decimal(false, i64::try_from(number.len()).unwrap_or(i64::MAX), number.as_bytes(), into);
    }
    match Decimal::read(number) {
        Some(read) => append_decimal(read.negative, read.exponent, &read.digits, into),
        None => append_sized(b'?', number.as_bytes(), into),
    }
}

fn append_decimal(negative: bool, exponent: i64, digits: &[u8], into: &mut impl Take) {
    into.take(if negative { b"-" } else { b"+" });
    into.take(&exponent.to_le_bytes());
    append_sized(b'#', digits, into);
}

fn append_sized(mark: u8, bytes: &[u8], into: &mut impl Take) {
    into.take(&[mark]);
    into.take(&count::of(bytes.len()).to_le_bytes());
    into.take(bytes);
}

/// Past the closing quote of the string that `rest` begins with.
fn end_of_text(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

struct Unescaped;

impl serde::de::Visitor<'_> for Unescaped {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn same(a: &str, b: &str) -> bool {
        let of = |json: &str| {
            let mut bytes = Vec::new();
            append_same(json, &mut bytes);
            bytes
        };
        of(a) == of(b)
    }

    #[test]
    fn values_are_the_same_by_value_and_not_by_spelling() {
        for (a, b) in [
            ("1", "1.0"),
            ("100", "1e2"),
            ("-0", "0"),
            (r#""a\/b""#, r#""\u0061/b""#),
            (r#""\ud83d\ude00""#, r#""😀""#),
            ("[1, {\"a\": 2.0}]", "[1,{\"a\":2}]"),
            (r#""\ud800""#, r#""\uD800""#),
        ] {
            assert!(same(a, b), "{a} {b}");
        }
    }

    #[test]
    fn other_values_are_not_the_same() {
        for (a, b) in [
            ("1", "\"1\""),
            ("null", "\"null\""),
            ("null", "\"\""),
            ("true", "false"),
            ("9007199254740993", "9007199254740992"),
            ("1e99999999999999999999", "1e99999999999999999998"),
            ("[1,2]", "[2,1]"),
            ("[[1],2]", "[[1,2]]"),
            ("[12]", "[1,2]"),
            (r#"["a,b"]"#, r#"["a","b"]"#),
            (r#"["a,sb"]"#, r#"["a","b"]"#),
            (r#"["a\",\"b"]"#, r#"["a","b"]"#),
            (r#""\ud800""#, r#""\ud801""#),
            ("{}", "[]"),
        ] {
            assert!(!same(a, b), "{a} {b}");
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        assert!(same(&deep, &deep));
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-3_i64..13).prop_map(Value::from),
            "[a\"\\\\,\u{1}é]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[ab]", inner, 0..3).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn sequences_are_the_same_only_if_each_value_is(a in prop::collection::vec(json(), 2), b in prop::collection::vec(json(), 2)) {
            let of = |values: &[Value], pretty: bool| {
                let mut bytes = Vec::new();
                for value in values {
                    let text = if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
                    append_same(&text.unwrap(), &mut bytes);
                }
                bytes
            };
            prop_assert_eq!(of(&a, false) == of(&b, true), a == b);
            prop_assert_eq!(of(&a, false), of(&a, true));
        }
    }
}
