//! Two hundred messages of twenty-five causes, as extractors, validators and handlers write them: fingerprints find the
//! causes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use redrive_core::failure::{ErrorClass, with_terminal_mark};
use redrive_core::fingerprint::{Fingerprint, fingerprint};

/// Sections `== cause`; lines of class, customer, query, day and message.
const MESSAGES: &str = include_str!("failures/messages.tsv");

struct Case {
    cause: &'static str,
    class: ErrorClass,
    own: [&'static str; 3],
    message: String,
}

impl Case {
    fn fingerprint(&self) -> Fingerprint {
        fingerprint(self.class, None, &self.message, &self.own)
    }
}

fn cases() -> Vec<Case> {
    let mut cause = "";
    let mut cases = Vec::new();
    for line in MESSAGES.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            cause = name;
            continue;
        }
        let fields: Vec<&str> = line.splitn(5, '\t').collect();
        let [class, customer, query, day, message] = fields[..] else { panic!("{line:?}") };
        let message = message.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\");
        cases.push(Case { cause, class: class.parse().expect("a class"), own: [customer, query, day], message });
    }
    cases
}

#[test]
fn no_group_has_two_causes_and_few_causes_have_two_groups() {
    let cases = cases();
    let mut groups: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    let mut templates: BTreeMap<&str, BTreeMap<_, String>> = BTreeMap::new();
    for case in &cases {
        let found = case.fingerprint();
        groups.entry(found.group).or_default().insert(case.cause);
        templates.entry(case.cause).or_default().entry(found.group).or_insert(found.template);
    }
    assert_eq!((cases.len(), templates.len()), (200, 25));
    let mixed: Vec<_> = groups.values().filter(|causes| causes.len() > 1).collect();
    assert!(mixed.is_empty(), "{mixed:#?}");
    let split: Vec<_> = templates.iter().filter(|(_, found)| found.len() > 1).collect();
    assert!(groups.len() <= 28, "{} groups: {split:#?}", groups.len());
}

#[test]
fn a_template_and_a_marked_message_are_in_the_messages_own_group() {
    for case in cases() {
        let found = case.fingerprint();
        let again = fingerprint(case.class, None, &found.template, &case.own);
        assert_eq!(again, found, "{}", case.message);
        let marked = fingerprint(case.class, None, &with_terminal_mark(Some(&case.message)), &case.own);
        assert_eq!(marked, found, "{}", case.message);
    }
}

#[test]
fn class_and_code_are_part_of_a_group() {
    let group = |class, code| fingerprint(class, code, "boom", &[]).group;
    let all = BTreeSet::from([
        group(ErrorClass::Final, None),
        group(ErrorClass::Retryable, None),
        group(ErrorClass::Retryable, Some("malformed_archive")),
    ]);
    assert_eq!(all.len(), 3);
}

/// A few microseconds a message where the code is optimised; here a bound that only a mistake exceeds.
#[test]
fn two_hundred_messages_take_little_time() {
    let cases = cases();
    let started = Instant::now();
    for case in &cases {
        std::hint::black_box(case.fingerprint());
    }
    let each = started.elapsed() / 200;
    assert!(each.as_millis() < 5, "{each:?}");
}
