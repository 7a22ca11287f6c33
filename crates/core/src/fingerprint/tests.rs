use proptest::prelude::*;

use super::*;

fn template(message: &str) -> String {
    template_of(message, &[])
}

fn template_of(message: &str, own: &[&str]) -> String {
    fingerprint(ErrorClass::Retryable, None, message, own).template
}

#[test]
fn what_differs_from_try_to_try_is_folded() {
    for (message, expected) in [
        ("upstream request 7f3a2b1c-0000-4000-8000-1234567890ab timed out", "upstream request <id> timed out"),
        ("took 12.5s, 3 of 8 rows", "took <n> of <n> rows"),
        ("no column \"a b\" in 'x'", "no column <text> in <text>"),
        ("at 2026-01-31T04:05:06.123Z on Mon, 02 Jan 2006 15:04:05 GMT", "at <time> on <time>"),
        ("10.1.2.3:8080 refused", "<address> refused"),
        ("[2001:db8::1]:443 refused", "[<address>]:<n> refused"),
        ("GET https://a.example/v2/c/77/report?x=1 failed", "GET <address>/v<n>/c/<id>/report failed"),
        ("cannot open /tmp/x8Kq2/part.json", "cannot open /tmp/<id>"),
        ("cannot open /srv/app/main.py:41", "cannot open /srv/app/main.py:<n>"),
        ("key=abc request_id=Zm9vYmFy", "key=abc request_id=<id>"),
        ("lost 0xdeadbeef and deadbeefcafe", "lost <id> and <id>"),
        ("refused req-0000001a after req-00000019 and req-0000000d", "refused <id> after <id> and <id>"),
        ("mail to jo@x.example", "mail to <address>"),
    ] {
        assert_eq!(template(message), expected, "{message}");
    }
}

#[test]
fn what_says_the_cause_stays() {
    for message in [
        "HTTP 503",
        "answered 404 Not Found",
        "ended with exit code 2",
        "Connection refused (os error 111)",
        "ORA-00942: table or view does not exist",
        "AADSTS700016: no application",
        "java.net.SocketTimeoutException: Read timed out",
        "authorizationError.USER_PERMISSION_DENIED: no",
        "EXCESSIVE_SHORT_TERM_QUERY_RESOURCE_CONSUMPTION",
        "{error:invalid_grant}",
    ] {
        assert_eq!(template(message), message);
    }
    assert_ne!(template("HTTP 503"), template("HTTP 500"));
}

#[test]
fn one_and_many_are_one_group() {
    let group = |message: &str| fingerprint(ErrorClass::Final, None, message, &[]).group;
    assert_eq!(group("lost 1 record of 2 files"), group("lost 7 records of 1 file"));
    assert_ne!(group("no pass"), group("no past"));
}

#[test]
fn objects_keep_their_words_and_codes() {
    let json =
        r#"answered 400 Bad Request: {"error": {"code": 190, "message": "Error validating 'x'", "fbtrace_id": "AbC"}}"#;
    let python =
        "answered 400 Bad Request: {'error': {'code': 190, 'message': \"Error validating 'y'\", 'fbtrace_id': 'ZZy'}}";
    let found = template(json);
    assert_eq!(found, "answered 400 Bad Request: {error:{code:190,message:Error validating <text>,fbtrace_id:<id>}}");
    assert_eq!(template(python).replace(' ', ""), found.replace(' ', ""));
}

#[test]
fn the_works_own_values_are_folded_where_they_are_names() {
    let own = ["northwind", "report", "campaign_daily"];
    assert_eq!(template_of("stream campaign_daily of customer northwind", &own), "stream <key> of customer <key>");
    assert_eq!(template_of("no such report", &own), "no such report");
    assert_eq!(template_of("no report \"x\" in table report", &own), "no report <text> in table <key>");
}

#[test]
fn a_message_that_was_cut_is_in_the_group_of_the_whole() {
    let whole = format!("boom: {}", "a few words and no more ".repeat(100));
    let cut = crate::text::cut(&whole, 700);
    assert_eq!(template(&cut), template(&whole));
    assert_eq!(template("connection reset by the pe…"), template("connection reset by the"));
}

/// Messages as they come: words, ids, quotes and brackets in any order.
fn noise() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-zA-Z]{1,12}",
        "[0-9]{1,12}",
        "[0-9a-f]{6,32}",
        "[A-Za-z0-9_.:/=-]{1,24}",
        Just("\"".to_owned()),
        Just("'".to_owned()),
        Just("{\"a\":".to_owned()),
        Just("<p class=\"x\">".to_owned()),
        Just("<n>".to_owned()),
        Just("code 7".to_owned()),
        Just("https://a.b/c".to_owned()),
        Just("File \"x\", line 3".to_owned()),
        Just("Jan 5 seconds".to_owned()),
        "[ \\n|,;:(){}\\[\\]<>\\\\…é/.'\"-]{1,4}",
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_template_is_its_own_template(text in any::<String>(), noise in noise()) {
        for message in [text, noise] {
            let found = fingerprint(ErrorClass::Final, None, &message, &["abc", "a-1"]);
            let again = fingerprint(ErrorClass::Final, None, &found.template, &["abc", "a-1"]);
            prop_assert_eq!(again, found, "{}", message);
        }
    }

    #[test]
    fn messages_that_differ_only_in_ids_have_one_group(
        first in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{12}", second in "[0-9a-f]{16,32}", number in 0_u64..u64::MAX, other in 0_u64..99,
    ) {
        let message = |id: &str, number: u64| format!("request {id} of shard {number} failed: no route to {id} (\"{number}\")");
        prop_assert_eq!(template(&message(&first, number)).replace("<id>", "<n>"), template(&message(&second, other)).replace("<id>", "<n>"));
        let group = |message: &str| fingerprint(ErrorClass::Final, None, message, &[]).group;
        prop_assert_eq!(group(&message(&first, number)), group(&message(&second, other)));
    }

    #[test]
    fn long_messages_end_soon_and_templates_are_short(piece in "[ -~]{1,8}", times in 1_usize..20_000) {
        let started = std::time::Instant::now();
        let found = template(&piece.repeat(times));
        prop_assert!(started.elapsed().as_millis() < 500, "{:?}", started.elapsed());
        prop_assert!(found.len() < 4096);
        prop_assert!(!found.contains('\n'));
    }
}
