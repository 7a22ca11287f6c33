//! Whichever key is wrong, it is named with its line, or with the variable that has set it.

use std::collections::{BTreeMap, BTreeSet};

use crate::home::Home;

const EVERY_KEY: &str = include_str!("every_key.toml");

/// No key takes a list of lists.
const WRONG: &str = "[[0]]";

/// A line of the file: the section that it is in, and its key; none for the section's header itself.
struct Line {
    number: usize,
    section: String,
    key: Option<String>,
}

fn lines() -> Vec<Line> {
    let mut section = String::new();
    let mut lines = Vec::new();
    for (at, text) in EVERY_KEY.lines().enumerate() {
        let number = at + 1;
        if let Some(list) = text.strip_prefix("[[") {
            section = format!("{}[0]", list.trim_end_matches("]]"));
            lines.push(Line { number, section: section.clone(), key: None });
        } else if let Some(header) = text.strip_prefix('[') {
            section = header.trim_end_matches(']').to_owned();
            lines.push(Line { number, section: section.clone(), key: None });
        } else if let Some((key, _)) = text.split_once(" = ") {
            lines.push(Line { number, section: section.clone(), key: Some(key.to_owned()) });
        }
    }
    lines
}

/// The file with another line in the place of this one.
fn with_line(number: usize, line: &str) -> Home {
    let mut all: Vec<&str> = EVERY_KEY.lines().collect();
    all[number - 1] = line;
    Home::with_config(&all.join("\n"))
}

#[test]
fn a_value_of_the_wrong_type_is_named_with_its_line() {
    let mut broken = 0;
    for Line { number, section, key } in lines() {
        let Some(key) = key else { continue };
        let told = with_line(number, &format!("{key} = {WRONG}")).run(&["doctor"]).complaint(2);
        let place = format!("error: redrive.toml:{number}: {section}.{key}");
        assert!(told.starts_with(&place), "{told}\nis not about\n{place}");
        broken += 1;
    }
    assert!(broken > 90, "only {broken} keys were found");
}

#[test]
fn a_value_of_the_wrong_type_is_named_with_its_variable() {
    for Line { section, key, .. } in lines() {
        let Some(key) = key else { continue };
        let variable = format!("REDRIVE_{section}.{key}").to_uppercase().replace("[0]", "").replace('.', "__");
        let told = Home::with_config(EVERY_KEY).env(&variable, WRONG).run(&["doctor"]).complaint(2);
        assert!(told.starts_with(&format!("error: {variable}: ")), "{told}\nis not about\n{variable}");
    }
}

#[test]
fn a_malformed_url_is_named_with_its_line_or_its_variable() {
    let is_url = |line: &Line| line.key.as_deref() == Some("url") && ["store", "raw"].contains(&line.section.as_str());
    let urls: Vec<Line> = lines().into_iter().filter(is_url).collect();
    assert_eq!(urls.len(), 2);
    for Line { number, section, .. } in urls {
        for command in [["doctor"].as_slice(), &["worker", "--drain"], &["state", "inspect"], &["data", "ls"]] {
            let told = with_line(number, "url = 'gopher://u:hunter2@h/x'").run(command).complaint(2);
            assert!(told.starts_with(&format!("error: redrive.toml:{number}: {section}.url: ")), "{told}");
            assert!(!told.contains("hunter2"), "{told}");
        }
        let variable = format!("REDRIVE_{}__URL", section.to_uppercase());
        let told = Home::with_config(EVERY_KEY).env(&variable, "gopher:x").run(&["doctor"]).complaint(2);
        assert!(told.starts_with(&format!("error: {variable}: ")), "{told}");
    }
}

/// An unknown key is answered with those that are known, and each of them is in the file.
#[test]
fn an_unknown_key_is_named_with_its_line_and_all_known_ones_are_tried_here() {
    let mut tried: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for Line { number, section, key } in lines() {
        if key.is_some() {
            continue;
        }
        let header = EVERY_KEY.lines().nth(number - 1).unwrap();
        let told = with_line(number, &format!("{header}\nnonsense = 7")).run(&["doctor"]).complaint(2);
        let place = format!("error: redrive.toml:{}: {section}.nonsense: ", number + 1);
        assert!(told.starts_with(&place), "{told}\nis not about\n{place}");
        if let Some((_, known)) = told.split_once("unknown field `nonsense`, expected ") {
            tried.entry(known.to_owned()).or_default().extend(keys_of(&section));
        }
    }
    assert!(tried.len() > 15, "{tried:?}");
    for (known, tried) in tried {
        for key in known.split('`').skip(1).step_by(2) {
            assert!(tried.contains(key), "{key} is in no section of every_key.toml that knows {known}");
        }
    }
}

/// Keys, and sections as keys of the section around them.
fn keys_of(section: &str) -> Vec<String> {
    let key = |line: Line| match line.key {
        Some(key) => (line.section == section).then_some(key),
        None => Some(line.section.strip_prefix(section)?.strip_prefix('.')?.split(['.', '[']).next()?.to_owned()),
    };
    lines().into_iter().filter_map(key).collect()
}
