//! The validator's findings are grouped by their rules and fields: counts and offenders do not matter.

use super::template::Hole;

/// Rules that name no field, and what is said after their name.
const TOTALS: [(&str, &str); 4] = [
    ("min_records: ", "<n> came, and <n> are the least"),
    ("max_records: ", "<n> came, and <n> are the most"),
    ("max_shrink: ", "<n> came in place of <n>, and <n> of them may be lost"),
    ("schema: ", "<n> records do not fit"),
];

/// Rules that name fields in brackets.
const FIELDS: [(&str, &str); 4] = [
    ("required_fields (", "<n> records lack it"),
    ("types (", "<n> records do not fit"),
    ("date_field (", "<n> records are not of <time>"),
    ("unique (", "<n> duplicates"),
];

const OBJECT: &str = "<n> records are not one JSON object";

/// The template of a message that is a list of findings; none when it is something else.
pub(super) fn template(message: &str) -> Option<String> {
    let mut findings = message.split("; ");
    let mut text = finding(findings.next()?)?;
    // Offenders are quoted and may hold anything: what is no finding belongs to the one before it.
    for other in findings.filter_map(finding) {
        text.push_str("; ");
        text.push_str(&other);
    }
    Some(text)
}

fn finding(text: &str) -> Option<String> {
    for (head, told) in TOTALS {
        if let Some(rest) = text.strip_prefix(head)
            && counts(rest).is_some()
        {
            return Some(format!("{head}{told}"));
        }
    }
    for (head, told) in FIELDS {
        if let Some((fields, rest)) = text.strip_prefix(head).and_then(|rest| rest.split_once("): "))
            && counts(rest).is_some()
        {
            return Some(format!("{head}{fields}): {told}"));
        }
    }
    let rest = counts(text)?;
    let is_object = [" record is not one JSON object", " records are not one JSON object"];
    is_object.iter().any(|said| rest.starts_with(said)).then(|| OBJECT.to_owned())
}

/// What follows a count, or the hole of one.
fn counts(text: &str) -> Option<&str> {
    text.strip_prefix(Hole::Number.shown()).or_else(|| {
        let rest = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
        (rest.len() < text.len()).then_some(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::{FieldType, Findings, Rule, Tally, Totals};

    fn broken(rule: Rule, offenders: &[&str]) -> Tally {
        let mut tally = Tally::new(rule);
        for offender in offenders {
            tally.offend(|| (*offender).to_owned());
        }
        tally
    }

    /// The texts are those of the rules themselves: a new wording there must be known here.
    #[test]
    fn every_rule_of_the_validator_is_known_whatever_its_counts() {
        let day = "2026-01-31".parse().unwrap();
        let rules = [
            Rule::Object,
            Rule::Required("a.b".parse().unwrap()),
            Rule::Type("n".parse().unwrap(), FieldType::Integer),
            Rule::Date("day".parse().unwrap(), day),
            Rule::Unique(vec!["a".parse().unwrap(), "b".parse().unwrap()]),
            Rule::Schema,
        ];
        let mut groups = std::collections::BTreeSet::new();
        for rule in rules {
            let one = Findings::new(Vec::new(), &[broken(rule.clone(), &["record 3: \"x\""])]).to_string();
            let two = Findings::new(Vec::new(), &[broken(rule, &["record 1: \"a; b\"", "record 9"])]).to_string();
            let found = template(&one).unwrap_or_else(|| panic!("{one}"));
            assert_eq!(template(&two).as_ref(), Some(&found), "{two}");
            assert_eq!(template(&found).as_ref(), Some(&found));
            groups.insert(found);
        }
        assert_eq!(groups.len(), 6, "{groups:?}");
        let totals = Totals::new(Some(5), Some(9), Some(0.5)).unwrap();
        for (came, replaces) in [(1, None), (4, None), (10, None), (11, None), (6, Some(20)), (7, Some(22))] {
            let told = totals.check(came, replaces).join("; ");
            groups.insert(template(&told).unwrap_or_else(|| panic!("{told}")));
        }
        assert_eq!(groups.len(), 9, "{groups:?}");
    }

    #[test]
    fn several_findings_are_one_group_with_all_their_rules() {
        let found = template("min_records: 1 came, and 2 are the least; schema: 1 record does not fit, first record 1");
        let expected = "min_records: <n> came, and <n> are the least; schema: <n> records do not fit";
        assert_eq!(found.as_deref(), Some(expected));
    }

    #[test]
    fn other_messages_are_no_findings() {
        for other in ["", "boom", "schema: unknown", "unique constraint", "types (a", "3 records lost", "schema: "] {
            assert_eq!(template(other), None, "{other}");
        }
    }
}
