//! The stream beside serde_json: any value, cut into chunks anywhere.

use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::*;

fn path(text: &str) -> Path {
    Path::dotted(text).unwrap()
}

/// Feeds a document in chunks of these sizes, over and over.
fn pick(stream: &mut RecordStream, document: &[u8], sizes: &[usize]) -> Result<Vec<String>, Fault> {
    let mut records = Vec::new();
    let mut sizes = sizes.iter().copied().cycle();
    let mut rest = document;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(sizes.next().unwrap_or(usize::MAX).clamp(1, rest.len()));
        let mut chunk = chunk;
        while let Some(record) = stream.next(&mut chunk)? {
            records.push(String::from_utf8(record.to_vec()).unwrap());
        }
        rest = after;
    }
    stream.finish()?;
    Ok(records)
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("a number", |number| number.is_finite()).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        r#"["\\/\n\r\t\u{0}é😀]{0,6}"#.prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((".{0,6}", inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// The same document with white space at every place where it may stand.
fn spread(json: &str, spaces: &[&str]) -> String {
    let mut spaces = spaces.iter().cycle();
    let mut spread = String::new();
    let (mut in_string, mut escaped) = (false, false);
    for c in json.chars() {
        let structural = !in_string && matches!(c, '{' | '}' | '[' | ']' | ',' | ':');
        if structural {
            spread.push_str(spaces.next().unwrap());
        }
        spread.push(c);
        if structural {
            spread.push_str(spaces.next().unwrap());
        }
        if c == '"' && !escaped {
            in_string = !in_string;
        }
        escaped = in_string && c == '\\' && !escaped;
    }
    spread
}

const SPACES: [&str; 6] = ["", " ", "\n", "\r\n\t", "  \n  ", "\t"];

fn any_spaces() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(SPACES.to_vec()), 1..8)
}

fn any_sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1..40_usize, 1..6)
}

#[test]
fn records_that_come_twice_are_a_fault() {
    for (way, document) in [
        ("items", r#"{"items":[1],"items":[2]}"#),
        ("items", r#"{"items":null,"x":1,"it\u0065ms":[2]}"#),
        ("data.items", r#"{"data":{"items":[1]},"data":{"items":[2]}}"#),
        ("data.items", r#"{"data":{"items":[1],"items":[]}}"#),
    ] {
        let found = pick(&mut RecordStream::new(path(way), []), document.as_bytes(), &[3]);
        assert_eq!(found, Err(Fault::Twice { path: way.to_owned() }), "{document}");
    }
    let batches = || Path::new([Step::Each, Step::Key("rows".to_owned())]);
    let once_each = br#"[{"rows":[1]},{"rows":[2],"more":{"rows":[3]}}]"#;
    assert_eq!(pick(&mut RecordStream::new(batches(), []), once_each, &[5]).unwrap(), ["1", "2"]);
    let twice = br#"[{"rows":[1]},{"rows":[2],"rows":[3]}]"#;
    assert!(matches!(pick(&mut RecordStream::new(batches(), []), twice, &[5]), Err(Fault::Twice { .. })));
}

proptest! {
    #[test]
    fn elements_come_as_they_stand_whatever_the_chunks(
        elements in prop::collection::vec(any_value(), 0..6),
        beside in any_value(),
        next in any_value(),
        spaces in any_spaces(),
        sizes in any_sizes(),
    ) {
        let spread_out: Vec<String> =
            elements.iter().map(|element| spread(&element.to_string(), &spaces)).collect();
        let document = format!(
            "{{\"x\":{beside},\"d\\u0061ta\":{{\"more\":{beside},\"items\":[ \n{}\r\n],\"next\":{}}},\"items\":{beside}}}\n",
            spread_out.join("\n , "),
            spread(&next.to_string(), &spaces),
        );
        let mut stream = RecordStream::new(path("data.items"), [path("data.next"), path("data.nothing")]);
        let records = pick(&mut stream, document.as_bytes(), &sizes).unwrap();

        let one_line = |text: &String| text.replace(['\n', '\r'], "").trim_start_matches([' ', '\t']).to_owned();
        let expected: Vec<String> = spread_out.iter().map(one_line).map(|text| text.trim_end().to_owned()).collect();
        prop_assert_eq!(&records, &expected);
        let parsed: Vec<Value> = records.iter().map(|record| serde_json::from_str(record).unwrap()).collect();
        prop_assert_eq!(parsed, elements);
        prop_assert!(stream.found());
        prop_assert_eq!(serde_json::from_slice::<Value>(stream.kept(0).unwrap()).unwrap(), next);
        prop_assert_eq!(stream.kept(1), None);
    }

    #[test]
    fn it_takes_and_refuses_what_serde_json_does(
        value in any_value(),
        spaces in any_spaces(),
        sizes in any_sizes(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..3_u8, prop::sample::select(
            br#"{}[]",:\-+.eE0123truefalsn "#.to_vec())), 0..3),
    ) {
        let mut document = spread(&value.to_string(), &spaces).into_bytes();
        for (at, kind, byte) in edits {
            let at = at.index(document.len() + 1);
            match kind {
                0 => document.insert(at, byte),
                1 if at < document.len() => document[at] = byte,
                _ => document.truncate(at),
            }
        }
        let expected = serde_json::from_slice::<IgnoredAny>(&document).is_ok();
        let mut stream = RecordStream::new(path("no.such.thing"), []);
        let outcome = pick(&mut stream, &document, &sizes);
        prop_assert_eq!(outcome.is_ok(), expected, "{:?} {:?}", String::from_utf8_lossy(&document), outcome);
    }
}

#[test]
fn every_beginning_of_a_document_is_a_cut_one() {
    let document = r#" {"a":[1,-2.5e+3,"x\u00e9\"é",true,false,null,{"b":[]}],"c":{}}"#;
    for end in 0..document.len() {
        let outcome = pick(&mut RecordStream::new(path("a"), []), &document.as_bytes()[..end], &[3]);
        let at = u64::try_from(end).unwrap();
        assert_eq!(outcome, Err(Fault::Cut { at }), "{}", &document[..document.floor_char_boundary(end)]);
    }
    assert_eq!(pick(&mut RecordStream::new(path("a"), []), document.as_bytes(), &[1]).unwrap().len(), 7);
}

#[test]
fn what_follows_the_end_is_refused() {
    for more in ["x", "{}", ",", "]", "\0", "\n\n1"] {
        let document = format!("[1] {more}");
        let outcome = pick(&mut RecordStream::new(Path::default(), []), document.as_bytes(), &[2]);
        assert!(
            matches!(outcome, Err(Fault::Malformed { why: "there is more after its end", .. })),
            "{more} {outcome:?}"
        );
    }
    assert_eq!(pick(&mut RecordStream::new(Path::default(), []), b"[1] \r\n\t ", &[2]).unwrap(), ["1"]);
}

#[test]
fn records_may_stand_in_many_arrays() {
    let each = |name: &str| Path::new([Step::Each, Step::Key(name.to_owned())]);
    let document = br#"[{"results":[{"n":1},{"n":2}],"id":"a"},{"id":"b"},{"results":[],"x":[[3]]},
        {"results":null},{"results":[4],"id":"c"}]"#;
    let mut stream = RecordStream::new(each("results"), [each("id"), each("error"), path("error")]);
    assert_eq!(pick(&mut stream, document, &[5]).unwrap(), [r#"{"n":1}"#, r#"{"n":2}"#, "4"]);
    assert_eq!(stream.kept(0), Some(&br#""c""#[..]), "the last one");
    assert_eq!(stream.kept(1), None);

    let mut stream = RecordStream::new(each("results"), [path("error")]);
    assert!(pick(&mut stream, br#"{"error": {"code":7}}"#, &[4]).unwrap().is_empty());
    assert_eq!(stream.kept(0), Some(&br#"{"code":7}"#[..]));
    assert!(!stream.found());
}

#[test]
fn a_place_that_holds_no_array_is_said() {
    for (document, named) in [(r#"{"a":{"b":{}}}"#, "a.b is no array"), (r#"{"a":{"b":"n"}}"#, "a.b is no array")] {
        let fault = pick(&mut RecordStream::new(path("a.b"), []), document.as_bytes(), &[9]).unwrap_err();
        assert_eq!(fault.to_string(), named);
    }
    let fault = pick(&mut RecordStream::new(Path::default(), []), b"{}", &[9]).unwrap_err();
    assert_eq!(fault.to_string(), "the document is no array");
}

#[test]
fn depth_ends_where_serde_json_ends() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    for depth in [126, 127, 128, 129] {
        let document = nested(depth);
        let expected = serde_json::from_str::<Value>(&document).is_ok();
        let outcome = pick(&mut RecordStream::new(path("x"), []), document.as_bytes(), &[7]);
        assert_eq!(outcome.is_ok(), expected, "{depth} {outcome:?}");
    }
}

#[test]
fn bytes_that_are_not_utf8_are_refused() {
    let outcome = pick(&mut RecordStream::new(Path::default(), []), b"[\"a\xc3\"]", &[1]);
    assert!(matches!(outcome, Err(Fault::Malformed { why: "a record is not UTF-8", .. })), "{outcome:?}");
}

#[test]
fn memory_follows_the_longest_record_and_not_the_document() {
    let record = format!("{{\"pad\":\"{}\",\"n\":[1,2,3]}},\n", "x".repeat(9_000));
    let chunk = record.repeat(8);
    let mut stream = RecordStream::new(path("rows"), []);
    let mut count = 0;
    let mut feed = |stream: &mut RecordStream, bytes: &str| {
        for mut piece in bytes.as_bytes().chunks(8 << 10) {
            while stream.next(&mut piece).unwrap().is_some() {
                count += 1;
            }
            assert!(stream.buffered() < 64 << 10, "{}", stream.buffered());
        }
    };
    feed(&mut stream, "{\"rows\":[");
    for _ in 0..1400 {
        feed(&mut stream, &chunk);
    }
    feed(&mut stream, "0]}");
    stream.finish().unwrap();
    assert_eq!(count, 1400 * 8 + 1, "about 100 MB");
}

#[test]
fn what_is_too_long_is_refused_before_it_is_held() {
    let text = "x".repeat(1 << 20);
    let mut stream = RecordStream::new(Path::default(), []);
    let fault = std::iter::once("[\"").chain(std::iter::repeat(text.as_str())).take(64).find_map(|part| {
        let mut part = part.as_bytes();
        stream.next(&mut part).err()
    });
    assert!(matches!(fault, Some(Fault::LongRecord { bytes }) if bytes <= (5 << 20) + 2), "{fault:?}");

    let mut stream = RecordStream::new(path("rows"), [path("next")]);
    let document = format!("{{\"next\":\"{text}\"}}");
    let fault = pick(&mut stream, document.as_bytes(), &[1 << 14]).unwrap_err();
    assert_eq!(fault.to_string(), "next is longer than 262144 bytes");

    let long_name = format!("{{\"{text}\":1,\"rows\":[2]}}");
    let mut stream = RecordStream::new(path("rows"), []);
    assert_eq!(pick(&mut stream, long_name.as_bytes(), &[1 << 14]).unwrap(), ["2"]);
    assert!(stream.buffered() < 64 << 10, "{}", stream.buffered());
}
