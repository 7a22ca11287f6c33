//! Secrets at any place of a text, and cuts at any place of a secret.

use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use redrive_core::failure::{MAX_MESSAGE_BYTES, clean_message};
use redrive_core::text::cut;
use redrive_core::validation;

use super::*;

fn hidden(text: &str, secret: &str) -> String {
    redact(text, &[secret.to_owned()])
}

#[test]
fn secrets_are_blacked_out_wherever_they_stand() {
    let secrets = ["abcd".to_owned(), "abcdefgh".to_owned(), String::new(), "x".to_owned()];
    assert_eq!(redact("x=abcdefgh&y=abcd", &secrets), "x=***&y=***");
}

#[test]
fn a_redactor_is_made_again_only_where_the_secrets_have_changed() {
    let latest = LatestRedactor::default();
    let [one, two] = [vec!["abcd".to_owned()], vec!["abcd".to_owned(), "wxyz".to_owned()]];
    let first = latest.of(&one);
    assert!(Arc::ptr_eq(&first, &latest.of(&one)));
    assert_eq!(latest.of(&[]).redact("abcd"), "abcd");
    assert!(Arc::ptr_eq(&first, &latest.of(&one)), "no secrets are no reason to make it anew");
    assert_eq!(latest.of(&two).redact("abcd wxyz"), "*** ***");
}

#[test]
fn what_a_cut_has_left_of_a_secret_is_blacked_out() {
    for (text, shown) in [
        ("first record: abcdef… and abc…", "first record: ***… and abc…"),
        ("…defgh is wrong", "…*** is wrong"),
        ("…fgh is wrong", "…fgh is wrong"),
        ("…bcdef… is wrong", "…***… is wrong"),
        ("…efghabcd…", "…***…"),
        ("abcdefgh… abcdefghabcde…", "***… ***…"),
        ("no cut: efgh abcd", "no cut: efgh abcd"),
        ("…", "…"),
    ] {
        assert_eq!(hidden(text, "abcdefgh"), shown, "{text}");
    }
}

#[test]
fn what_overlaps_is_blacked_out_together() {
    let secrets = ["hello-world".to_owned(), "world-peace".to_owned(), "aXaXaXaX".to_owned()];
    for (text, shown) in [
        ("hello-world-peace", "***"),
        ("hello-world-pea…", "***…"),
        ("…llo-world-peace", "…***"),
        ("aXaXaXaXaX", "***"),
    ] {
        assert_eq!(redact(text, &secrets), shown, "{text}");
    }
}

#[test]
fn secrets_are_blacked_out_however_they_are_quoted() {
    let secret = r#"s3cr"et\T0K'N/with+odd&chars%20=ä😀"#;
    let debug = format!("{secret:?}");
    let json = serde_json::Value::from(secret).to_string();
    let repr = format!("'{}'", secret.replace('\\', r"\\").replace('\'', r"\'"));
    let ascii = r#"s3cr\"et\\T0K'N/with+odd&chars%20=\u00e4\ud83d\ude00"#;
    let careful = json.replace('/', r"\/");
    let url = utf8_percent_encode(secret, URL).to_string();
    let form: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    for said in [secret, &debug, &json, &repr, ascii, &careful, &url, &form] {
        let shown = hidden(&format!("bad token {said} refused"), secret);
        assert!(shown.contains("***") && !shown.contains("T0K"), "{shown}");
    }
}

#[test]
fn secrets_are_blacked_out_in_either_case_of_an_escape() {
    for (said, secret) in [
        ("a%2fB%3fCDE", "a/B?CDE"),
        ("a%2FB%3FCDE", "a/B?CDE"),
        ("one+two%2fTHREE", "one two/THREE"),
        ("caf\\u00E9-LATTE", "café-LATTE"),
        ("caf\\u00e9-LATTE", "café-LATTE"),
    ] {
        assert_eq!(hidden(&format!("bad {said} refused"), secret), "bad *** refused", "{said}");
    }
}

#[test]
fn secrets_are_blacked_out_in_hex_in_html_and_where_they_are_escaped_twice() {
    let secret = r#"s3cr"et\T0K'N/<odd>&chars=ä"#;
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let json = serde_json::Value::from(secret).to_string();
    let twice = serde_json::Value::from(json.as_str()).to_string();
    let url = utf8_percent_encode(secret, URL).to_string();
    let html = r#"s3cr&quot;et\T0K&#39;N/&lt;odd&gt;&amp;chars=ä"#;
    let said = [
        hex.clone(),
        hex.to_uppercase(),
        html.to_owned(),
        html.replace("&#39;", "&#x27;"),
        html.replace("&#39;", "&apos;"),
        html.replace("&quot;", "&#34;"),
        html.replace('&', "&amp;"),
        json.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&quot;")
            .replace('\'', "&#39;"),
        twice,
        utf8_percent_encode(&url, URL).to_string(),
        serde_json::Value::from(url.as_str()).to_string(),
    ];
    for said in said {
        let shown = hidden(&format!("bad token {said} refused"), secret);
        let left = shown.contains("T0K") || shown.contains("s3cr") || shown.contains("chars") || shown.contains("5430");
        assert!(shown.contains("***") && !left, "{said}\n{shown}");
    }
}

#[test]
fn secrets_are_blacked_out_in_base64() {
    for said in ["Pz8/Pj4+LXNlY3JldA==", "Pz8/Pj4+LXNlY3JldA", "Pz8_Pj4-LXNlY3JldA==", "Pz8_Pj4-LXNlY3JldA"] {
        assert_eq!(hidden(&format!("bad {said} refused"), "???>>>-secret"), "bad *** refused", "{said}");
    }
}

/// As in `Authorization: Basic`, where a user's name stands before a password.
#[test]
fn secrets_are_blacked_out_within_base64_wherever_they_begin() {
    let secret = "t0p-s3cr3t?~>";
    for before in 0..7 {
        for after in 0..4 {
            let text = format!("{}{secret}{}", "u".repeat(before), "z".repeat(after));
            for base64 in [STANDARD, URL_SAFE, STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
                let encoded = base64.encode(&text);
                let shown = hidden(&format!("Basic {encoded} was refused"), secret);
                assert!(shown.starts_with("Basic ") && shown.ends_with(" was refused"), "{shown}");
                let left = shown.replace("Basic ", "").replace(" was refused", "");
                let (head, tail) = left.split_once("***").unwrap_or_else(|| panic!("{text}: {shown}"));
                assert!(head.len() <= before * 8 / 6 && tail.len() <= (after * 8).div_ceil(6) + 2, "{text}: {shown}");
            }
        }
    }
}

#[test]
fn a_secret_of_several_lines_is_known_by_each_of_them() {
    let secret = "-----BEGIN KEY-----\r\n  MIIEvQIBADAN\n/w0BAQEFAASC\nend\n";
    assert_eq!(hidden("bad key /w0BAQEFAASC", secret), "bad key ***");
    assert_eq!(hidden(r"bad key MIIEvQIBADAN\n\/w0BAQEFAASC", secret), r"bad key ***\n***");
    assert_eq!(hidden("the end", secret), "the end", "a short line is a word like any other");
    assert_eq!(hidden(secret, secret), "***");
}

/// Whether eight characters of the secret in a row are shown.
fn is_shown(secret: &str, shown: &str) -> bool {
    let letters: Vec<char> = secret.chars().collect();
    letters.windows(8).any(|piece| shown.contains(&piece.iter().collect::<String>()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn no_cut_shows_a_piece_of_a_secret(
        secret in "[a-zA-Z0-9/+\"'\\\\é\n]{12,60}",
        before in 0..120_usize,
        after in 0..120_usize,
        limit in 8..200_usize,
        from in 0..120_usize,
    ) {
        let said = format!("{}{secret}{}", ".".repeat(before), ".".repeat(after));
        let secrets = [secret.clone()];
        let mut ways = vec![
            redact(&cut(&said, limit), &secrets),
            redact(&format!("{:?}", cut(&said, limit)), &secrets),
            redact(&validation::excerpt(said.as_bytes()), &secrets),
            redact(&validation::excerpt(serde_json::Value::from(said.as_str()).to_string().as_bytes()), &secrets),
            clean_message(&redact(&format!("{}{said}", "-".repeat(MAX_MESSAGE_BYTES - 100)), &secrets)),
            redact(&clean_message(&format!("{}{said}", "-".repeat(MAX_MESSAGE_BYTES - 100))), &secrets),
        ];
        if let Some(end) = said.get(from..) {
            ways.push(redact(&cut(&format!("{ELLIPSIS}{end}"), limit), &secrets));
        }
        for shown in ways {
            prop_assert!(!is_shown(&secret, &shown), "{shown:?}");
        }
    }
}
