//! Each rule: kept, broken, and just at its edge.

use crate::lab::{Lab, rules, submission, told, verdict};

#[tokio::test]
async fn without_settings_any_objects_will_do() {
    assert_eq!(told("{}", &["{}", "{\"a\":[1,null]}", "{\"a\":1}"]).await, Ok(3));
}

const NOTHING: &str = "min_records: nothing came, and 1 is the least; set it to 0 if the source may have nothing";

#[tokio::test]
async fn that_nothing_may_come_is_said_on_purpose() {
    for settings in ["{}", r#"{"max_records":5}"#, r#"{"min_records":1}"#] {
        assert_eq!(told(settings, &[]).await.unwrap_err(), NOTHING, "{settings}");
    }
    for settings in [r#"{"min_records":0}"#, r#"{"max_records":0}"#] {
        assert_eq!(told(settings, &[]).await, Ok(0), "{settings}");
    }
}

#[tokio::test]
async fn too_few_and_too_many_records_are_refused() {
    let settings = r#"{"min_records":1,"max_records":2}"#;
    assert_eq!(told(settings, &[]).await.unwrap_err(), NOTHING);
    assert_eq!(told(settings, &["{}"]).await, Ok(1));
    assert_eq!(told(settings, &["{}", "{}"]).await, Ok(2));
    assert_eq!(told(settings, &["{}", "{}", "{}"]).await.unwrap_err(), "max_records: 3 came, and 2 are the most");
}

#[tokio::test]
async fn a_rerun_that_shrinks_too_much_is_refused() {
    let lab = Lab::with(&["{}", "{}"]).await;
    let rules = rules(r#"{"max_shrink":0.5}"#);
    for (replaces, accepted) in [(None, true), (Some(0), true), (Some(4), true), (Some(5), false)] {
        let mut submission = submission();
        submission.replaces = replaces;
        let told = verdict(lab.verdict_of(&rules, &submission).await);
        let expected = "max_shrink: 2 came in place of 5, and 0.5 of them may be lost".to_owned();
        assert_eq!(told, if accepted { Ok(2) } else { Err(expected) }, "{replaces:?}");
    }
}

#[tokio::test]
async fn required_fields_are_there_and_not_null() {
    let settings = r#"{"required_fields":["campaign.id","a\\.b"]}"#;
    assert_eq!(told(settings, &[r#"{"campaign":{"id":""},"a.b":false}"#]).await, Ok(1));
    let lines = [
        r#"{"campaign":{"id":1},"a.b":0}"#,
        r#"{"campaign":{"id":null},"a.b":0}"#,
        r#"{"campaign":5,"a.b":0}"#,
        r#"{"campaign":[{"id":1}],"a":{"b":0}}"#,
        r#"{}"#,
    ];
    assert_eq!(
        told(settings, &lines).await.unwrap_err(),
        "required_fields (campaign.id): 4 records lack it, first record 2 (null), record 3 (missing), record 4 (missing); \
         required_fields (a\\.b): 2 records lack it, first record 4 (missing), record 5 (missing)"
    );
}

#[tokio::test]
async fn fields_have_their_types_where_they_are_there() {
    let settings = r#"{"types":{"n":"integer","big":"int64","m.on":"date"}}"#;
    let fine = [r#"{"n":1,"big":"12","m":{"on":"2026-01-31"}}"#, r#"{"n":null,"m":{}}"#, "{}", r#"{"n":2.0,"m":7}"#];
    assert_eq!(told(settings, &fine).await, Ok(4));
    let lines = [r#"{"n":"1"}"#, r#"{"n":1.5,"big":1}"#, r#"{"big":"1x","m":{"on":"31.1.2026"}}"#];
    assert_eq!(
        told(settings, &lines).await.unwrap_err(),
        "types (big is int64): 1 record does not fit, first record 3: \"1x\"; \
         types (m.on is date): 1 record does not fit, first record 3: \"31.1.2026\"; \
         types (n is integer): 2 records do not fit, first record 1: \"1\", record 2: 1.5"
    );
}

#[tokio::test]
async fn dates_lie_within_the_partition() {
    let settings = r#"{"date_field":"segments.date"}"#;
    let fine = [
        r#"{"segments":{"date":"2026-01-31"}}"#,
        r#"{"segments":{"date":"2026-01-31T23:59:59+14:00"}}"#,
        r#"{"segments":{"date":"2026\u002d01-31 00:00:00"}}"#,
    ];
    assert_eq!(told(settings, &fine).await, Ok(3));
    let lines = [
        r#"{"segments":{"date":"2026-02-01"}}"#,
        r#"{"segments":{"date":1769817600}}"#,
        r#"{"segments":{}}"#,
        r#"{"segments":{"date":"2026-01-30T23:59:59-01:00"}}"#,
    ];
    assert_eq!(
        told(settings, &lines).await.unwrap_err(),
        "date_field (segments.date): 4 records are not of 2026-01-31, \
         first record 1: \"2026-02-01\", record 2: 1769817600, record 3 (missing)"
    );
}

#[tokio::test]
async fn several_rules_are_told_together() {
    let settings = r#"{"min_records":9,"required_fields":["a"],"unique":["a"],"date_field":"d"}"#;
    let lines = [r#"{"a":1,"d":"2026-01-31"}"#, r#"{"a":1,"d":"2026-01-31"}"#, r#"{"d":"2026-01-31"}"#];
    assert_eq!(
        told(settings, &lines).await.unwrap_err(),
        "min_records: 3 came, and 9 are the least; required_fields (a): 1 record lacks it, first record 3 (missing); \
         unique (a): 1 duplicate, first record 2 repeats record 1: 1"
    );
}

#[tokio::test]
async fn a_message_stays_short_however_much_is_wrong() {
    let fields: Vec<String> = (0..400).map(|n| format!("\"field_{n}\"")).collect();
    let settings = format!("{{\"required_fields\":[{}]}}", fields.join(","));
    let message = told(&settings, &["{}"]).await.unwrap_err();
    assert!(message.len() <= 4096 && message.ends_with('…'), "{} bytes", message.len());
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(10_000));
    let message = told(r#"{"types":{"a":"integer"}}"#, &[&long]).await.unwrap_err();
    assert_eq!(message, format!("types (a is integer): 1 record does not fit, first record 1: \"{}…", "x".repeat(76)));
}
