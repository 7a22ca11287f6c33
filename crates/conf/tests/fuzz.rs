//! What holds for any bytes: random texts, and files of the corpus with random changes.
//!
//! A minute of it: `REDRIVE_FUZZ_SECONDS=60 cargo test -p redrive-conf --test fuzz -- --nocapture`
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "support/mutate.rs"]
mod mutate;
mod support;

use std::collections::HashSet;

use mutate::{Random, mutate, rounds};
use proptest::prelude::*;
use redrive_conf::{
    Content, Context, Document, Entries, Exports, FindingKind, Inherit, LineRange, Merge, decode, diff, lint,
};

/// What the format is sensitive to.
const WORDS: [&[u8]; 24] = [
    b"[",
    b"]",
    b"=",
    b"\\",
    b"\n",
    b"\r",
    b"\r\n",
    b"\\\n",
    b"\\\r\n",
    b"#",
    b";",
    b"{",
    b" ",
    b"\t",
    b"\0",
    b"[]\n",
    b"[default]\n",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xe2\x80\xa8",
    b"\xc2\xa0",
    b"\x1c",
    b"_stanza = <<DROP>>\n",
    b"\xff",
];

type Plain = Vec<(Option<String>, Vec<(String, String)>)>;

fn plain(document: &Document<'_>) -> Plain {
    let pairs = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let stanzas = document.stanzas();
    stanzas
        .map(|stanza| {
            let settings = stanza.settings().map(|setting| pairs((setting.key, setting.value))).collect();
            (stanza.name().map(str::to_owned), settings)
        })
        .collect()
}

/// Checks everything that holds for any file.
fn check(bytes: &[u8]) {
    let mut findings = Vec::new();
    lint(bytes, |finding| findings.push(finding));
    let Ok(text) = decode(bytes) else {
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].kind, FindingKind::Encoding);
        assert!(Document::parse(bytes).is_err());
        return;
    };
    let lines = check_entries(&text);
    let document = Document::parse(bytes).unwrap();
    check_document(&document, lines);
    let dangling = findings.iter().filter(|finding| finding.kind == FindingKind::DanglingHeader).count();
    assert_eq!(document.fault().map_or(0, |fault| usize::try_from(fault.count).unwrap()), dangling);
    assert!(findings.is_sorted_by_key(|finding| finding.lines));

    let printed = document.to_string();
    let again = Document::from_text(printed.as_str().into());
    assert_eq!(plain(&again), plain(&document), "printed as {printed:?}");
    assert_eq!(again.fault(), None);

    let content = Content::from(&document);
    assert_eq!(diff(&content, &content), []);
    let mut merge = Merge::new(Context::Global, Exports::default());
    merge.add_document("a/default/props.conf", &document);
    merge.finish().stanzas("props", Inherit::Default).for_each(|stanza| drop(stanza.settings()));
}

fn check_entries(text: &str) -> u32 {
    let (mut at, mut line) = (0, 0);
    for entry in Entries::new(text) {
        assert!(entry.span.start >= at && entry.span.end >= entry.span.start && entry.span.end <= text.len());
        assert!(text[at..entry.span.start].chars().all(|letter| matches!(letter, '\r' | '\n')));
        assert_eq!(entry.lines.first, line + 1);
        assert!(entry.lines.last >= entry.lines.first);
        at = entry.span.end;
        line = entry.lines.last;
    }
    line
}

fn check_document(document: &Document<'_>, lines: u32) {
    let inside = |range: LineRange| range.first >= 1 && range.first <= range.last && range.last <= lines;
    let mut names = HashSet::new();
    let mut settings = 0;
    for stanza in document.stanzas() {
        assert!(names.insert(stanza.name()), "a name is there once");
        assert!(inside(stanza.lines()) && stanza.repeats().all(inside));
        let mut keys = HashSet::new();
        for setting in stanza.settings() {
            assert!(keys.insert(setting.key), "a key is there once");
            assert!(inside(setting.lines));
            let around = |range: LineRange| range.first <= setting.lines.first && setting.lines.last <= range.last;
            assert!(around(stanza.lines()) || stanza.repeats().any(around));
            settings += 1;
        }
    }
    assert_eq!(settings, document.setting_count());
    let starts: Vec<u32> = document.stanzas().map(|stanza| stanza.lines().first).collect();
    assert!(starts.is_sorted());
}

/// Eight times the usual number of cases: a text is checked quickly.
fn many() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.saturating_mul(8), ..usual }
}

proptest! {
    #![proptest_config(many())]

    #[test]
    fn any_text_is_parsed_and_printed_alike(text in "[\\[\\]=\\\\\n\r#;{ \tab\u{0}\u{a0}\u{1c}\u{85}\u{2028}é]{0,60}") {
        check(text.as_bytes());
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        check(&bytes);
    }
}

/// What the format counts as white space may stand behind a header's bracket, and Unicode does not count all of it.
#[test]
fn a_setting_that_ends_like_a_header_is_printed_as_a_setting() {
    for space in ["", " ", "\t", "\u{1c}", "\u{1f} ", "\u{a0}", "\u{2028}"] {
        let text = format!("[\\\n= a]{space}\n");
        assert_eq!(
            plain(&Document::from_text(text.as_str().into())),
            [(None, vec![("[".into(), format!("a]{space}"))])]
        );
        check(text.as_bytes());
    }
}

#[test]
fn changed_files_of_the_corpus_are_survived() {
    let mut files: Vec<Vec<u8>> = Vec::new();
    for archive in support::manifest() {
        files.extend(support::files(archive["archive"].as_str().unwrap()).into_iter().map(|(_, bytes)| bytes));
    }
    files.extend(support::json_lines("conf-cases.jsonl").iter().map(support::input));
    files.retain(|bytes| bytes.len() < 20_000);
    for seed in rounds(1500) {
        let mut random = Random(seed);
        let mut bytes = files[random.below(files.len())].clone();
        let other = &files[random.below(files.len())];
        mutate(&mut bytes, &WORDS, other, &mut random);
        let outcome = std::panic::catch_unwind(|| check(&bytes));
        assert!(outcome.is_ok(), "seed {seed}: {:?}", String::from_utf8_lossy(&bytes));
    }
}

/// Each of these takes minutes when anything is done again for every line or every stanza.
#[test]
fn large_files_of_hostile_shapes_take_linear_time() {
    const SIZE: usize = 512 << 10;
    let numbered = |form: fn(usize) -> String| (0..SIZE / 12).map(form).collect::<String>();
    let shapes = [
        "a".repeat(SIZE),
        format!("a = {}", "b".repeat(SIZE)),
        "[".repeat(SIZE),
        "]".repeat(SIZE),
        " ".repeat(SIZE),
        "\\\n".repeat(SIZE / 2),
        "[a\\\n".repeat(SIZE / 4),
        "[a]\n".repeat(SIZE / 4),
        "=\n".repeat(SIZE / 2),
        "[\n".repeat(SIZE / 2),
        "\r".repeat(SIZE),
        numbered(|number| format!("[{number}]\n")),
        numbered(|number| format!("{number}=\n")),
        numbered(|number| format!("[{}]\n{number}=\n", number % 7)),
        numbered(|number| format!("[{}]\n", number / 2)),
    ];
    for shape in shapes {
        let document = Document::parse(shape.as_bytes()).unwrap();
        let settings: usize = document.stanzas().map(|stanza| stanza.settings().len()).sum();
        let repeats: usize = document.stanzas().map(|stanza| stanza.repeats().count()).sum();
        assert_eq!(repeats, document.repeats().count());
        assert_eq!(settings, document.setting_count());
        lint(shape.as_bytes(), drop);
        assert!(document.to_string().len() <= 2 * shape.len() + 8);
    }
}
