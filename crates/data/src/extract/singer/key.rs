//! A record's key: the values of its key properties, hashed as they stand.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// Makes keys into numbers that nobody outside can foresee.
#[derive(Debug)]
pub(super) struct Keys {
    hasher: SipHasher13,
}

impl Default for Keys {
    fn default() -> Self {
        let random = || RandomState::new().build_hasher().finish();
        Self { hasher: SipHasher13::new_with_keys(random(), random()) }
    }
}

impl Keys {
    /// None for a record that lacks one of the properties: it cannot be told from others.
    pub(super) fn of(&self, record: &RawValue, properties: &[String]) -> serde_json::Result<Option<u128>> {
        let values = serde_json::Deserializer::from_str(record.get()).deserialize_map(Picked(properties))?;
        let mut hasher = self.hasher;
        for value in values {
            let Some(value) = value else { return Ok(None) };
            let text = value.get();
            hasher.write(&text.len().to_le_bytes());
            hasher.write(text.as_bytes());
        }
        Ok(Some(hasher.finish128().as_u128()))
    }
}

/// The values of some properties of an object, in the order of the properties.
struct Picked<'p>(&'p [String]);

impl<'de> Visitor<'de> for Picked<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = vec![None; self.0.len()];
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match self.0.iter().position(|property| *property == name) {
                Some(place) => values[place] = Some(map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_equal_when_all_their_values_are() {
        let keys = Keys::default();
        let properties = ["a".to_owned(), "b".to_owned()];
        let key = |json: &'static str| keys.of(serde_json::from_str(json).unwrap(), &properties).unwrap();
        let one = key(r#"{"a":1,"b":"x","c":1}"#);
        assert!(one.is_some());
        assert_eq!(one, key(r#"{"c":[2],"b":"x","a":1}"#));
        assert_ne!(one, key(r#"{"a":"x","b":1}"#));
        assert_ne!(key(r#"{"a":1,"b":23}"#), key(r#"{"a":12,"b":3}"#));
        assert_eq!(key(r#"{"a":1}"#), None);
    }
}
