//! `docs/traceability.md` is true: every requirement stands in it once, nothing of it is open, and every test it names exists.

use std::collections::BTreeSet;
use std::path::Path;

#[rustfmt::skip]
const REQUIREMENTS: [&str; 113] = [
    "RP-1.1", "RP-1.2", "RP-1.3", "RP-1.4",
    "RP-2.1", "RP-2.2", "RP-2.3", "RP-2.4", "RP-2.5", "RP-2.6",
    "RP-3.1", "RP-3.2",
    "RP-4.1", "RP-4.2", "RP-4.3",
    "RP-5.1",
    "RP-6.1", "RP-6.2", "RP-6.3",
    "RP-7.1",
    "RP-8.1", "RP-8.2", "RP-8.3", "RP-8.4", "RP-8.5",
    "RP-9.1", "RP-9.2", "RP-9.3", "RP-9.4", "RP-9.5",
    "CP-1.1",
    "CP-2.1", "CP-2.2", "CP-2.3", "CP-2.4", "CP-2.5",
    "CP-3a.1", "CP-3a.2", "CP-3a.3", "CP-3a.4", "CP-3b.1", "CP-3b.2", "CP-3c.1", "CP-3c.2", "CP-3d.1", "CP-3d.2",
    "CP-4.1", "CP-4.2", "CP-4.3", "CP-4.4",
    "CP-5.1", "CP-5.2", "CP-5.3", "CP-5.4", "CP-5.5",
    "CP-6.1", "CP-6.2", "CP-6.3",
    "CP-7.1", "CP-7.2", "CP-7.3",
    "RD-1", "RD-2", "RD-3", "RD-4", "RD-5", "RD-6", "RD-7", "RD-8", "RD-9", "RD-10",
    "IN-1", "IN-2", "IN-3", "IN-4", "IN-5", "IN-6", "IN-7", "IN-8", "IN-9", "IN-10", "IN-11",
    "AR-1", "AR-2", "AR-3", "AR-4", "AR-5", "AR-6", "AR-7", "AR-8", "AR-9", "AR-10", "AR-11", "AR-12",
    "OP-1", "OP-2", "OP-3", "OP-4", "OP-5", "OP-6", "OP-7", "OP-8", "OP-9", "OP-10", "OP-11",
    "SV-1", "SV-2", "SV-3", "SV-4", "SV-5", "SV-6", "SV-7", "SV-8",
];

/// A row of the table: the requirement, the tests, and what is still open.
struct Row<'a> {
    id: &'a str,
    tests: Vec<&'a str>,
    open: &'a str,
}

/// The rows under "Proven" and the ids under "Not yet".
fn read(page: &str) -> (Vec<Row<'_>>, Vec<&str>) {
    let section = |title: &str| {
        let text = page.split_once(&format!("\n## {title}\n")).map_or("", |(_, after)| after);
        text.split("\n## ").next().unwrap_or_default()
    };
    let rows = section("Proven").lines().filter(|line| line.starts_with('|') && !line.starts_with("|--"));
    let rows = rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let rows = rows.filter(|cells| cells[0] != "id").map(|cells| Row {
        id: cells[0],
        tests: cells.get(2).map_or(vec![], |tests| tests.split('`').skip(1).step_by(2).collect()),
        open: cells.get(3).copied().unwrap_or_default(),
    });
    let later = section("Not yet").lines().filter_map(|line| line.strip_prefix("- "));
    (rows.collect(), later.map(|line| line.split([' ', ':']).next().unwrap_or_default()).collect())
}

/// What is wrong with the page; `file` gives a source file's text.
fn problems(page: &str, file: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let (rows, later) = read(page);
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for id in rows.iter().map(|row| row.id).chain(later.iter().copied()) {
        if !REQUIREMENTS.contains(&id) {
            found.push(format!("{id:?} is no requirement"));
        }
        if !seen.insert(id) {
            found.push(format!("{id} stands there twice"));
        }
    }
    found.extend(REQUIREMENTS.iter().filter(|id| !seen.contains(*id)).map(|id| format!("{id} is missing")));
    for Row { id, tests, open } in &rows {
        if tests.is_empty() {
            found.push(format!("{id} names no test"));
        }
        if !open.is_empty() {
            found.push(format!("{id} is still open: {open}"));
        }
        for test in tests {
            let Some((path, name)) = test.split_once("::") else {
                found.push(format!("{id} names {test:?}, which is no FILE::TEST"));
                continue;
            };
            match file(path) {
                None => found.push(format!("{id} names {path}, which does not exist")),
                Some(text) if !text.contains(&format!("fn {name}(")) => {
                    found.push(format!("{id} names {name}, which is not in {path}"));
                }
                Some(_) => {}
            }
        }
    }
    found.extend(later.iter().map(|id| format!("{id} is not done yet")));
    found
}

fn from_repository(path: &str) -> Option<String> {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).ok()
}

fn page() -> String {
    from_repository("docs/traceability.md").expect("docs/traceability.md is there")
}

#[test]
fn every_requirement_stands_there_once_and_every_named_test_exists() {
    let found = problems(&page(), from_repository);
    assert!(found.is_empty(), "docs/traceability.md:\n  {}", found.join("\n  "));
}

#[test]
fn a_slip_in_the_page_is_found() {
    let page = page();
    let (rows, _) = read(&page);
    let (first, test) = (rows[0].id, rows[0].tests[0]);
    let (path, name) = test.split_once("::").expect("a test has a file");
    let row = page.lines().find(|line| line.starts_with(&format!("| {first} |"))).expect("the first row is a line");
    let slips = [
        (page.replacen(name, "no_such_test", 1), "no_such_test, which is not in"),
        (page.replacen(path, "crates/core/src/no_such_file.rs", 1), "no_such_file.rs, which does not exist"),
        (page.replacen(test, name, 1), "which is no FILE::TEST"),
        (page.replacen(row, &format!("{row}\n{row}"), 1), "stands there twice"),
        (page.replacen(&format!("{row}\n"), "", 1), "is missing"),
        (page.replacen(&format!("| {first} |"), "| RP-99 |", 1), "\"RP-99\" is no requirement"),
        (page.replacen(row, &row.replace("|  |", "| the rest |"), 1), "is still open: the rest"),
        (format!("{page}- {first}: it comes later\n"), "stands there twice"),
    ];
    for (slip, complaint) in slips {
        assert_ne!(slip, page, "{complaint}");
        let found = problems(&slip, from_repository);
        assert!(found.iter().any(|problem| problem.contains(complaint)), "{complaint}: {found:?}");
    }
    let later = page.replacen(&format!("{row}\n"), "", 1) + &format!("- {first}: it comes later\n");
    let found = problems(&later, from_repository);
    assert!(found.contains(&format!("{first} is not done yet")), "{found:?}");
}
