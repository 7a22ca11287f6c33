//! What a field's value may be.

use std::borrow::Cow;

use super::day::{is_timestamp, written_day};
use super::number::Decimal;
use super::same::text_of;
use crate::word::words;

words!(
    /// The types that a source's settings may ask for.
    FieldType, "field type" {
        String = "string",
        /// A JSON number without a fraction, however it is written: `1.0` and `1e3` are whole. Text of digits is none.
        Integer = "integer",
        /// A whole number of 64 bits, as a JSON number or, as many sources write them, as text of digits.
        Int64 = "int64",
        Number = "number",
        Boolean = "boolean",
        Array = "array",
        Object = "object",
        /// Text: `2026-01-31`.
        Date = "date",
        /// Text: a date, `T` or a space, a time of day, and perhaps an offset.
        Timestamp = "timestamp",
    }
);

/// What a JSON value is, as its first byte tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Null,
    Boolean,
    Number,
    Text,
    Array,
    Object,
}

impl Kind {
    /// `json` is the text of one JSON value without space around it.
    pub fn of(json: &str) -> Self {
        match json.as_bytes().first() {
            Some(b'"') => Self::Text,
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b't' | b'f') => Self::Boolean,
            Some(b'n') | None => Self::Null,
            Some(_) => Self::Number,
        }
    }
}

impl FieldType {
    /// Whether a JSON value is of this type. `null` is of every type: whether a field may be absent is another rule's
    /// question.
    pub fn accepts(self, json: &str) -> bool {
        let kind = Kind::of(json);
        if kind == Kind::Null {
            return true;
        }
        match self {
            Self::String => kind == Kind::Text,
            Self::Number => kind == Kind::Number,
            Self::Boolean => kind == Kind::Boolean,
            Self::Array => kind == Kind::Array,
            Self::Object => kind == Kind::Object,
            Self::Integer => kind == Kind::Number && is_whole(json),
            Self::Int64 => is_int64(kind, json),
            Self::Date => {
                kind == Kind::Text && utf8(json).is_some_and(|text| text.len() == 10 && written_day(&text).is_some())
            }
            Self::Timestamp => kind == Kind::Text && utf8(json).is_some_and(|text| is_timestamp(&text)),
        }
    }
}

fn is_whole(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    digits.bytes().all(|byte| byte.is_ascii_digit()) || Decimal::read(number).is_some_and(|read| read.is_whole())
}

fn is_int64(kind: Kind, json: &str) -> bool {
    match kind {
        Kind::Number => json.parse::<i64>().is_ok() || Decimal::read(json).is_some_and(|read| fits_int64(&read)),
        Kind::Text => utf8(json).is_some_and(|text| !text.starts_with('+') && text.parse::<i64>().is_ok()),
        Kind::Null | Kind::Boolean | Kind::Array | Kind::Object => false,
    }
}

/// Whether a number with a point or an exponent is one of 64 bits all the same.
fn fits_int64(number: &Decimal) -> bool {
    const MOST_DIGITS: i64 = 19;
    if !number.is_whole() || number.exponent > MOST_DIGITS {
        return false;
    }
    let mut text = String::from(if number.negative { "-0" } else { "0" });
    text.extend(number.digits.iter().map(|digit| char::from(*digit)));
    let zeros = usize::try_from(number.exponent).unwrap_or(0).saturating_sub(number.digits.len());
    text.extend(std::iter::repeat_n('0', zeros));
    text.parse::<i64>().is_ok()
}

fn utf8(json: &str) -> Option<Cow<'_, str>> {
    match text_of(json) {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [(&str, &[FieldType]); 24] = {
        use FieldType::{Array, Boolean, Date, Int64, Integer, Number, Object, String, Timestamp};
        [
            ("null", FieldType::ALL),
            ("\"\"", &[String]),
            ("\"x\\n\"", &[String]),
            ("\"12\"", &[String, Int64]),
            ("\"-12\"", &[String, Int64]),
            ("\"+12\"", &[String]),
            ("\"12.0\"", &[String]),
            ("\"9223372036854775808\"", &[String]),
            ("12", &[Integer, Int64, Number]),
            ("-0", &[Integer, Int64, Number]),
            ("12.0", &[Integer, Int64, Number]),
            ("1.2e1", &[Integer, Int64, Number]),
            ("9223372036854775807", &[Integer, Int64, Number]),
            ("9223372036854775807.0", &[Integer, Int64, Number]),
            ("9223372036854775808.0", &[Integer, Number]),
            ("123456789012345678901234567890", &[Integer, Number]),
            ("1e400", &[Integer, Number]),
            ("1.5", &[Number]),
            ("true", &[Boolean]),
            ("[1]", &[Array]),
            ("{}", &[Object]),
            ("\"2026-01-31\"", &[String, Date]),
            ("\"2026\\u002d01-31 10:00:00\"", &[String, Timestamp]),
            ("\"\\ud800\"", &[String]),
        ]
    };

    #[test]
    fn each_value_is_of_its_types_and_of_no_other() {
        for (json, accepted) in VALUES {
            for field_type in FieldType::ALL {
                let expected = accepted.contains(field_type);
                assert_eq!(field_type.accepts(json), expected, "{json} as {field_type}");
            }
        }
    }
}
