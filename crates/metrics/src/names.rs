//! Names that become labels: the first so many as they are, and all others as one. Callers choose sources and categories, so
//! that their number is nobody's promise.

use std::collections::HashMap;

/// How many names of sources and categories are told apart.
pub const MOST_NAMES: usize = 64;

/// What all others are called.
const OTHER: &str = "other";

/// A name's place.
pub type NameId = usize;

#[derive(Debug, Default)]
pub struct Names {
    places: HashMap<String, NameId>,
    names: Vec<String>,
}

impl Names {
    /// Where a name is counted.
    pub fn place(&mut self, name: &str) -> NameId {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        if self.names.len() >= MOST_NAMES {
            return MOST_NAMES;
        }
        let place = self.names.len();
        self.places.insert(name.to_owned(), place);
        self.names.push(name.to_owned());
        place
    }

    pub fn name(&self, place: NameId) -> &str {
        self.names.get(place).map_or(OTHER, String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_bound_all_names_are_one() {
        let mut names = Names::default();
        let places: Vec<NameId> = (0..1000).map(|nth| names.place(&format!("source-{nth}"))).collect();
        assert_eq!(names.place("source-3"), places[3]);
        assert_eq!(names.name(places[3]), "source-3");
        let shown: std::collections::BTreeSet<&str> = places.iter().map(|place| names.name(*place)).collect();
        assert_eq!(shown.len(), MOST_NAMES + 1);
        assert_eq!(names.name(places[999]), "other");
    }
}
