//! What the records did wrong, in words.

use std::fmt;

use super::field_type::FieldType;
use super::path::FieldPath;
use crate::key::LogicalDate;

/// How many offenders are named for each rule.
pub const NAMED: usize = 3;

/// What may be asked of records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Each record is one JSON object. Always asked.
    Object,
    /// The field is there and is not null.
    Required(FieldPath),
    Type(FieldPath, FieldType),
    /// The field's day is the partition's.
    Date(FieldPath, LogicalDate),
    /// No two records have the same values in all these fields.
    Unique(Vec<FieldPath>),
    Schema,
}

/// Who broke one rule: how many, and the first of them.
#[derive(Debug, Clone)]
pub struct Tally {
    rule: Rule,
    count: u64,
    first: Vec<String>,
}

impl Tally {
    pub fn new(rule: Rule) -> Self {
        Self { rule, count: 0, first: Vec::new() }
    }

    /// One more offender. It is described only while there is room to name it.
    pub fn offend(&mut self, description: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < NAMED {
            self.first.push(description());
        }
    }

    /// Offenders that are counted and not named.
    pub fn add(&mut self, unnamed: u64) {
        self.count += unnamed;
    }
}

/// Everything that is wrong with an attempt's records.
#[derive(Debug, Clone, Default)]
pub struct Findings(Vec<String>);

impl Findings {
    pub fn new(totals: Vec<String>, tallies: &[Tally]) -> Self {
        let offended = tallies.iter().filter(|tally| tally.count > 0).map(Tally::to_string);
        Self(totals.into_iter().chain(offended).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

/// `types (clicks is integer): 2 records do not fit, first record 3: "many", record 9: 1.5`
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count;
        let s = if count == 1 { "" } else { "s" };
        let (verb, does, lacks) = if count == 1 { ("is", "does", "lacks") } else { ("are", "do", "lack") };
        match &self.rule {
            Rule::Object => write!(f, "{count} record{s} {verb} not one JSON object")?,
            Rule::Required(field) => write!(f, "required_fields ({field}): {count} record{s} {lacks} it")?,
            Rule::Type(field, wanted) => write!(f, "types ({field} is {wanted}): {count} record{s} {does} not fit")?,
            Rule::Date(field, day) => write!(f, "date_field ({field}): {count} record{s} {verb} not of {day}")?,
            Rule::Unique(fields) => write!(f, "unique ({}): {count} duplicate{s}", joined(fields))?,
            Rule::Schema => write!(f, "schema: {count} record{s} {does} not fit")?,
        }
        for (n, description) in self.first.iter().enumerate() {
            write!(f, "{}{description}", if n == 0 { ", first " } else { ", " })?;
        }
        Ok(())
    }
}

fn joined(fields: &[FieldPath]) -> String {
    fields.iter().map(FieldPath::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> FieldPath {
        text.parse().unwrap()
    }

    fn told(rule: Rule, offenders: &[&str]) -> String {
        let mut tally = Tally::new(rule);
        for offender in offenders {
            tally.offend(|| (*offender).to_owned());
        }
        tally.to_string()
    }

    #[test]
    fn each_rule_says_how_many_and_who_came_first() {
        let day = "2026-01-31".parse().unwrap();
        let key = vec![path("campaign.id"), path("day")];
        for (rule, one, two) in [
            (Rule::Object, "1 record is not one JSON object, first A", "2 records are not one JSON object, first A, B"),
            (
                Rule::Required(path("a.b")),
                "required_fields (a.b): 1 record lacks it, first A",
                "required_fields (a.b): 2 records lack it, first A, B",
            ),
            (
                Rule::Type(path("n"), FieldType::Integer),
                "types (n is integer): 1 record does not fit, first A",
                "types (n is integer): 2 records do not fit, first A, B",
            ),
            (
                Rule::Date(path("day"), day),
                "date_field (day): 1 record is not of 2026-01-31, first A",
                "date_field (day): 2 records are not of 2026-01-31, first A, B",
            ),
            (
                Rule::Unique(key),
                "unique (campaign.id, day): 1 duplicate, first A",
                "unique (campaign.id, day): 2 duplicates, first A, B",
            ),
            (Rule::Schema, "schema: 1 record does not fit, first A", "schema: 2 records do not fit, first A, B"),
        ] {
            assert_eq!(told(rule.clone(), &["A"]), one);
            assert_eq!(told(rule, &["A", "B"]), two);
        }
    }

    #[test]
    fn only_the_first_are_named_and_the_rest_not_even_described() {
        let mut tally = Tally::new(Rule::Schema);
        for n in 0..NAMED {
            tally.offend(|| n.to_string());
        }
        tally.offend(|| panic!("nobody reads this"));
        tally.add(6);
        assert_eq!(tally.to_string(), "schema: 10 records do not fit, first 0, 1, 2");
    }

    #[test]
    fn findings_are_joined_and_rules_that_were_kept_are_silent() {
        let kept = Tally::new(Rule::Object);
        let mut broken = Tally::new(Rule::Schema);
        broken.add(1);
        let found = Findings::new(vec!["min_records: …".to_owned()], &[kept.clone(), broken]);
        assert_eq!(found.to_string(), "min_records: …; schema: 1 record does not fit");
        assert!(Findings::new(Vec::new(), &[kept]).is_empty());
    }
}
