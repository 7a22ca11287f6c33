//! Taking the wanted fields out of a record, and only those; the rest is passed over, though it must be JSON too.
//!
//! Passing over needs no stack, so depth alone does no harm. Of a key that comes twice in an object the last one counts.

use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{FieldPath, Kind};

/// The JSON text of each wanted field, by slot; none where the record does not have it.
pub type FieldValues<'a> = Vec<Option<&'a str>>;

/// The wanted fields, as a tree of names.
#[derive(Debug, Default)]
pub struct WantedFields {
    root: Vec<(String, Node)>,
    slots: Vec<FieldPath>,
}

/// A name that leads to wanted fields, or is one.
#[derive(Debug, Default)]
struct Node {
    /// The slot of the field that ends here.
    own: Option<usize>,
    /// The slots of this field and of all below it.
    all: Range<usize>,
    below: Vec<(String, Node)>,
}

impl WantedFields {
    /// Slots are given in the order of the paths, so that those below one name lie side by side.
    pub fn want(&mut self, paths: &[&FieldPath]) {
        self.slots = paths.iter().map(|path| (*path).clone()).collect();
        self.slots.sort_unstable();
        self.slots.dedup();
        self.root = tree(&self.slots, 0, 0);
    }

    /// Where the value of a wanted field stands.
    pub fn slot(&self, path: &FieldPath) -> usize {
        self.slots.binary_search(path).expect("every field of a rule was wanted")
    }

    /// The values of a record without any of them.
    pub fn none<'a>(&self) -> FieldValues<'a> {
        vec![None; self.slots.len()]
    }

    /// Fails when the line is not one JSON object.
    pub fn take<'a>(&self, line: &'a str, values: &mut FieldValues<'a>) -> serde_json::Result<()> {
        values.fill(None);
        let mut json = serde_json::Deserializer::from_str(line);
        Walk { below: &self.root, values }.deserialize(&mut json)?;
        json.end()
    }
}

/// The tree of sorted paths that share their first `depth` names; `first` is the slot of the first path.
fn tree(paths: &[FieldPath], depth: usize, first: usize) -> Vec<(String, Node)> {
    let mut nodes = Vec::new();
    let mut begin = 0;
    for same in paths.chunk_by(|a, b| a.names()[depth] == b.names()[depth]) {
        let all = first + begin..first + begin + same.len();
        begin += same.len();
        // The shortest path sorts first.
        let ends_here = same[0].names().len() == depth + 1;
        let deeper = usize::from(ends_here);
        let below = tree(&same[deeper..], depth + 1, all.start + deeper);
        nodes.push((same[0].names()[depth].clone(), Node { own: ends_here.then_some(all.start), all, below }));
    }
    nodes
}

struct Walk<'n, 'v, 'a> {
    below: &'n [(String, Node)],
    values: &'v mut FieldValues<'a>,
}

impl<'a> DeserializeSeed<'a> for Walk<'_, '_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Walk<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(node) = map.next_key_seed(Key(self.below))? {
            let Some(node) = node else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let json = map.next_value::<&'a RawValue>()?.get();
            // An earlier value of the same key counts no more, nor does anything in it.
            self.values[node.all.clone()].fill(None);
            if let Some(own) = node.own {
                self.values[own] = Some(json);
            }
            if !node.below.is_empty() && Kind::of(json) == Kind::Object {
                let walk = Walk { below: &node.below, values: self.values };
                let mut json = serde_json::Deserializer::from_str(json);
                walk.deserialize(&mut json).map_err(serde::de::Error::custom)?;
            }
        }
        Ok(())
    }
}

/// Finds a key among the wanted names.
struct Key<'n>(&'n [(String, Node)]);

impl<'a, 'n> DeserializeSeed<'a> for Key<'n> {
    type Value = Option<&'n Node>;

    /// As bytes: a key may be written with half of a surrogate pair, which no rule can name.
    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl<'n> Visitor<'_> for Key<'n> {
    type Value = Option<&'n Node>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_bytes<E>(self, key: &[u8]) -> Result<Self::Value, E> {
        let found = self.0.binary_search_by(|(name, _)| name.as_bytes().cmp(key));
        Ok(found.ok().map(|at| &self.0[at].1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(paths: &[&str], line: &str) -> Result<Vec<Option<String>>, serde_json::Error> {
        let paths: Vec<FieldPath> = paths.iter().map(|path| path.parse().unwrap()).collect();
        let mut fields = WantedFields::default();
        fields.want(&paths.iter().collect::<Vec<_>>());
        let mut values = fields.none();
        fields.take(line, &mut values)?;
        Ok(paths.iter().map(|path| values[fields.slot(path)].map(str::to_owned)).collect())
    }

    fn taken(paths: &[&str], line: &str) -> Vec<Option<String>> {
        take(paths, line).unwrap()
    }

    #[test]
    fn fields_are_found_wherever_they_stand() {
        let line =
            r#" { "z":[{"id":0}], "campaign" : {"x":{"id":9}, "id": "7" , "name":"n"}, "a.b":null,"a":{"b":1e400} } "#;
        let paths = ["campaign.id", "campaign", "a.b", r"a\.b", "id", "z.id", "campaign.id.deeper", "campaign.x.id"];
        let expected = [
            Some("\"7\""),
            Some(r#"{"x":{"id":9}, "id": "7" , "name":"n"}"#),
            Some("1e400"),
            Some("null"),
            None,
            None,
            None,
            Some("9"),
        ];
        assert_eq!(taken(&paths, line), expected.map(|value| value.map(str::to_owned)));
    }

    #[test]
    fn of_two_equal_keys_the_last_counts_with_all_that_is_in_it() {
        assert_eq!(taken(&["a"], r#"{"a":1,"a":2}"#), [Some("2".to_owned())]);
        assert_eq!(taken(&["a.b", "a"], r#"{"a":{"b":1},"a":{}}"#), [None, Some("{}".to_owned())]);
        assert_eq!(taken(&["a.b"], r#"{"a":{"b":1},"a":5}"#), [None]);
        assert_eq!(
            taken(&["a.b", "c"], r#"{"a":{"b":1},"c":3,"a":{"b":2}}"#),
            [Some("2".to_owned()), Some("3".to_owned())]
        );
    }

    #[test]
    fn keys_are_compared_as_they_are_meant() {
        assert_eq!(taken(&["é/"], r#"{"\u00e9\/":1}"#), [Some("1".to_owned())]);
        assert_eq!(taken(&["a"], r#"{"\ud800":1,"a":"\ud800"}"#), [Some("\"\\ud800\"".to_owned())]);
    }

    #[test]
    fn a_line_is_one_object_and_nothing_more() {
        for bad in [
            "",
            " ",
            "null",
            "1",
            "\"a\"",
            "[{}]",
            "{",
            "{}{}",
            "{} x",
            "{\"a\"}",
            "{\"a\":}",
            "{'a':1}",
            "{\"a\":01}",
            "{\"a\":1,}",
        ] {
            assert!(take(&["a"], bad).is_err(), "{bad:?}");
            assert!(take(&[], bad).is_err(), "{bad:?}");
        }
        for good in ["{}", " { } \r", "{\"a\":1}", "{\"\":0}"] {
            assert!(take(&["a"], good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        let line = format!("{{\"x\":{deep},\"a\":{deep}}}");
        assert_eq!(taken(&["a", "a.b"], &line), [Some(deep), None]);
    }
}
