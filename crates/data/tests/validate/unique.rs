//! Keys that may come only once.

use redrive_data::Error;
use redrive_data::validate::Scratch;

use crate::lab::{Lab, rules, submission, told, verdict};

#[tokio::test]
async fn the_first_duplicates_are_named_and_all_are_counted() {
    let mut lines: Vec<String> = (1..=20).map(|n| format!("{{\"campaign\":{{\"id\":\"{n}\"}}}}")).collect();
    for repeated in [4, 4, 9, 9, 9] {
        lines.push(lines[repeated - 1].clone());
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!(told(r#"{"unique":["campaign.id"]}"#, &lines[..20]).await, Ok(20));
    assert_eq!(
        told(r#"{"unique":["campaign.id"]}"#, &lines).await.unwrap_err(),
        "unique (campaign.id): 5 duplicates, first record 21 repeats record 4: \"4\", \
         record 22 repeats record 4: \"4\", record 23 repeats record 9: \"9\""
    );
}

#[tokio::test]
async fn all_fields_together_are_the_key_and_a_missing_one_is_null() {
    let settings = r#"{"unique":["a","b"]}"#;
    let different = [r#"{"a":1,"b":1}"#, r#"{"a":1,"b":2}"#, r#"{"a":1}"#, r#"{"b":1}"#, "{}"];
    assert_eq!(told(settings, &different).await, Ok(5));
    assert_eq!(
        told(settings, &[r#"{"a":1}"#, r#"{"b":null,"a":1.0}"#]).await.unwrap_err(),
        "unique (a, b): 1 duplicate, first record 2 repeats record 1: 1.0, null"
    );
}

#[tokio::test]
async fn keys_are_equal_by_value() {
    let settings = r#"{"unique":["a"]}"#;
    let different = [r#"{"a":1}"#, r#"{"a":"1"}"#, r#"{"a":[1]}"#, r#"{"a":true}"#, r#"{"a":9007199254740993}"#];
    assert_eq!(told(settings, &different).await, Ok(5));
    assert_eq!(told(settings, &[r#"{"a":9007199254740992}"#, r#"{"a":9007199254740993}"#]).await, Ok(2));
    for (one, other) in [("1", "1.0"), (r#""a""#, r#""\u0061""#), ("[1, 2]", "[1,2]"), ("null", "null")] {
        let lines = [format!("{{\"a\":{one}}}"), format!("{{\"a\":{other}}}")];
        let told = told(settings, &[&lines[0], &lines[1]]).await.unwrap_err();
        assert!(told.starts_with("unique (a): 1 duplicate, first record 2 repeats record 1"), "{told}");
    }
}

#[tokio::test]
async fn records_that_cannot_be_read_have_no_key() {
    let told = told(r#"{"unique":["a"]}"#, &["[]", "[]", r#"{"a":1}"#, r#"{"a":1}"#]).await.unwrap_err();
    assert!(told.starts_with("2 records are not one JSON object"), "{told}");
    assert!(told.ends_with("unique (a): 1 duplicate, first record 4 repeats record 3: 1"), "{told}");
}

/// More keys than fit, in several parts and pieces.
#[tokio::test]
async fn keys_that_do_not_fit_in_memory_are_sorted_on_disk() {
    let pad = "x".repeat(500);
    let mut lines: Vec<String> = (0..5000).map(|n| format!("{{\"pad\":\"{pad}\",\"id\":{n}}}")).collect();
    let scratch = tempfile::tempdir().unwrap();
    let small = Scratch { memory: 24 * 100, dir: scratch.path().to_owned(), ..Scratch::default() };
    let rules = rules(r#"{"unique":["id"]}"#).with_scratch(small);
    let judged = async |lines: &[String]| {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        verdict(Lab::with(&lines).await.verdict(&rules).await)
    };
    assert_eq!(judged(&lines).await, Ok(5000));
    lines[4321] = lines[17].clone();
    assert_eq!(judged(&lines).await.unwrap_err(), "unique (id): 1 duplicate, first record 4322 repeats record 18: 17");
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

/// Trouble of ours is no verdict on the data.
#[tokio::test]
async fn no_room_for_sorting_is_an_error_and_no_judgement() {
    let lab = Lab::with(&["{\"a\":1}", "{\"a\":2}", "{\"a\":3}"]).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let rules = rules(r#"{"unique":["a"]}"#).with_scratch(Scratch {
        memory: 1,
        dir: file.path().to_owned(),
        ..Scratch::default()
    });
    let error = lab.judge(&rules, &submission()).await.unwrap_err();
    assert!(matches!(error, Error::Scratch(_)), "{error}");
    assert!(error.to_string().contains(&file.path().display().to_string()), "{error}");
}
