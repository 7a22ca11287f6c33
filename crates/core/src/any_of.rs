//! Exact values of one field, any of which is meant.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};

/// The values that are meant; where none is named, all are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnyOf<T>(BTreeSet<T>);

impl<T> Default for AnyOf<T> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<T: Ord> AnyOf<T> {
    pub fn one(value: T) -> Self {
        Self(BTreeSet::from([value]))
    }

    /// Whether no value is named, and so all are meant.
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    pub fn admits(&self, value: &T) -> bool {
        self.0.is_empty() || self.0.contains(value)
    }

    /// The value, where exactly one is named.
    pub fn only(&self) -> Option<&T> {
        self.0.first().filter(|_| self.0.len() == 1)
    }

    /// The values that are named, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.0.iter()
    }
}

impl<T: Ord> FromIterator<T> for AnyOf<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

/// One value is itself; several are a list.
impl<T: Ord + Serialize> Serialize for AnyOf<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.only() {
            Some(value) => value.serialize(serializer),
            None => self.0.serialize(serializer),
        }
    }
}
