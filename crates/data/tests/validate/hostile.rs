//! Records that no source should send, and some that look worse than they are.

use crate::lab::{Lab, rules, told, verdict};

async fn told_bytes(settings: &str, line: &[u8]) -> Result<u64, String> {
    verdict(Lab::with_bytes(&[b"{}", line]).await.verdict(&rules(settings)).await)
}

#[tokio::test]
async fn what_is_not_one_json_object_is_refused() {
    let bad: [&[u8]; 20] = [
        b" ",
        b"\r",
        b"not json",
        b"null",
        b"true",
        b"1",
        b"1e999",
        b"\"text\"",
        b"[]",
        b"[{}]",
        b"{",
        b"{\"a\":1",
        b"{\"a\":1,}",
        b"{\"a\":1}{\"a\":2}",
        b"{\"a\":NaN}",
        b"{\"a\":\"\x00\"}",
        b"{\"a\":\"tab\there\"}",
        b"{\"a\":\"\\x\"}",
        b"{\"a\":\"\xff\"}",
        b"\xef\xbb\xbf{}",
    ];
    for line in bad {
        for settings in ["{}", r#"{"required_fields":["x"],"unique":["x"]}"#] {
            let shown = String::from_utf8_lossy(line);
            let told = told_bytes(settings, line).await.expect_err(&shown);
            assert!(told.contains("1 record is not one JSON object, first record 2 ("), "{shown:?}: {told}");
            assert!(!told.chars().any(char::is_control), "{shown:?}: {told:?}");
        }
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_record_is_said() {
    for (line, expected) in [
        (&b"[1]"[..], "record 2 (invalid type: sequence, expected an object at byte 0): [1]"),
        (b"{\"a\":\xff}", "record 2 (it is not UTF-8): {\"a\":\u{fffd}}"),
        (b"{\"a\":tru", "record 2 (EOF while parsing a value at byte 8): {\"a\":tru"),
    ] {
        let told = told_bytes("{}", line).await.unwrap_err();
        assert_eq!(told, format!("1 record is not one JSON object, first {expected}"));
    }
}

#[tokio::test]
async fn what_is_odd_and_yet_json_is_accepted() {
    let odd: [&[u8]; 9] = [
        b"{}\r",
        b" \t{ } ",
        b"{\"\":0}",
        b"{\"a\":1e999,\"b\":-0,\"c\":123456789012345678901234567890}",
        b"{\"a\":\"\\u0000\"}",
        b"{\"a\":\"\\ud800\",\"\\udfff\":1}",
        b"{\"a\":1,\"a\":2}",
        "{\"ключ\":\"\u{202e}\"}".as_bytes(),
        b"{\"__proto__\":{\"constructor\":1}}",
    ];
    for line in odd {
        for settings in ["{}", r#"{"types":{"b":"number"},"unique":["a","c"]}"#] {
            let told = verdict(Lab::with_bytes(&[line]).await.verdict(&rules(settings)).await);
            assert_eq!(told, Ok(1), "{:?}", String::from_utf8_lossy(line));
        }
    }
}

#[tokio::test]
async fn depth_alone_does_no_harm() {
    let deep = format!("{{\"a\":{}1{},\"b\":2}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(told(r#"{"types":{"a":"array","b":"integer"},"unique":["a","b"]}"#, &[&deep]).await, Ok(1));
    let unclosed = "{\"a\":".repeat(100_000);
    let message = told("{}", &[&unclosed]).await.unwrap_err();
    assert!(message.starts_with("1 record is not one JSON object"), "{message}");
}

/// The last of equal keys counts, for every rule alike.
#[tokio::test]
async fn the_last_of_equal_keys_counts() {
    let twice = r#"{"a":{"b":1},"a":{"b":"x"}}"#;
    assert_eq!(told(r#"{"types":{"a.b":"string"}}"#, &[twice]).await, Ok(1));
    assert!(told(r#"{"required_fields":["a.b"]}"#, &[r#"{"a":{"b":1},"a":{}}"#]).await.is_err());
    assert_eq!(told(r#"{"unique":["a.b"]}"#, &[twice, r#"{"a":{"b":1}}"#]).await, Ok(2));
}

/// The longest that an extractor may bring is read, whatever the pieces it comes in.
#[tokio::test]
async fn long_records_are_read_and_longer_ones_are_not_held() {
    let record = |length: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(length - 8));
    let longest = redrive_data::extract::MAX_RECORD_BYTES;
    assert_eq!(told(r#"{"required_fields":["a"]}"#, &["{\"a\":1}", &record(longest), "{\"a\":1}"]).await, Ok(3));
    let message = told("{}", &["{}", &record(longest + 1), "[]"]).await.unwrap_err();
    assert!(message.starts_with("2 records are not one JSON object, first record 2 (it is too long"), "{message}");
    assert!(message.contains(", record 3 ("), "{message}");
}
