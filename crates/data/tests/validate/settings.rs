//! `[sources.<name>.validate]` as people write it.

use crate::lab::parsed;

#[test]
fn what_makes_no_sense_is_named_by_its_key() {
    for (settings, expected) in [
        (
            r#"{"min_records":2,"max_records":1}"#,
            "min_records: min_records 2 is more than max_records 1; no attempt could be accepted",
        ),
        (
            r#"{"required_fields":["a","b..c"]}"#,
            "required_fields[1]: field \"b..c\" has an empty name in it; join names with single dots",
        ),
        (r#"{"types":{"":"string"}}"#, "types.\"\": field \"\" has an empty name in it; join names with single dots"),
        (r#"{"unique":["a","a"]}"#, "unique[1]: \"a\" is named twice; remove one"),
        (
            r#"{"date_field":"a\\b"}"#,
            "date_field: field \"a\\\\b\" has a backslash before neither a dot nor a backslash; write it twice",
        ),
    ] {
        assert_eq!(parsed(settings).unwrap().build().unwrap_err().to_string(), expected);
    }
    let shrink = parsed(r#"{"max_shrink":1.5}"#).unwrap().build().unwrap_err().to_string();
    assert!(shrink.starts_with("max_shrink: 1.5 is not between 0 and 1"), "{shrink}");
}

#[test]
fn slips_in_keys_and_types_are_refused() {
    let unknown = parsed(r#"{"min_record":2}"#).unwrap_err().to_string();
    assert!(unknown.contains("unknown field `min_record`"), "{unknown}");
    let unknown = parsed(r#"{"types":{"a":"int"}}"#).unwrap_err().to_string();
    assert!(unknown.contains("field type \"int\" is unknown; it is one of string, integer, int64"), "{unknown}");
}

#[test]
fn nothing_need_be_set() {
    let none = parsed("{}").unwrap();
    assert_eq!(none, redrive_data::validate::Settings::default());
    assert!(none.build().is_ok());
}
