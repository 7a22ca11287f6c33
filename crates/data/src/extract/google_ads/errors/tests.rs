//! The table of errors, row by row.

use serde_json::json;

use super::*;

fn failure(errors: &Value) -> Value {
    json!({"error": {"code": 400, "message": "Request contains an invalid argument.", "status": "INVALID_ARGUMENT",
        "details": [{"@type": "type.googleapis.com/google.ads.googleads.v26.errors.GoogleAdsFailure", "errors": errors}]}})
}

fn meaning(status: u16, body: &Value) -> Meaning {
    let plain = of_answer(status, body.to_string().as_bytes());
    assert_eq!(of_answer(status, json!([body]).to_string().as_bytes()), plain, "in an array it means the same");
    plain
}

fn coded(category: &str, word: &str) -> Value {
    json!({"errorCode": {category: word}, "message": "because"})
}

#[test]
fn every_code_has_its_class() {
    use Kind::{Final, RateLimited, Retryable, StaleToken};
    let table = [
        ("quotaError", "RESOURCE_EXHAUSTED", RateLimited),
        ("quotaError", "RESOURCE_TEMPORARILY_EXHAUSTED", RateLimited),
        ("quotaError", "EXCESSIVE_SHORT_TERM_QUERY_RESOURCE_CONSUMPTION", RateLimited),
        ("quotaError", "EXCESSIVE_LONG_TERM_QUERY_RESOURCE_CONSUMPTION", RateLimited),
        ("internalError", "INTERNAL_ERROR", Retryable),
        ("internalError", "TRANSIENT_ERROR", Retryable),
        ("internalError", "DEADLINE_EXCEEDED", Retryable),
        ("databaseError", "CONCURRENT_MODIFICATION", Retryable),
        ("requestError", "RPC_DEADLINE_TOO_SHORT", Retryable),
        ("requestError", "EXPIRED_PAGE_TOKEN", Retryable),
        ("authenticationError", "OAUTH_TOKEN_EXPIRED", StaleToken),
        ("authenticationError", "OAUTH_TOKEN_INVALID", StaleToken),
        ("authenticationError", "CUSTOMER_NOT_FOUND", Final),
        ("authenticationError", "NOT_ADS_USER", Final),
        ("authenticationError", "OAUTH_TOKEN_REVOKED", Final),
        ("authorizationError", "USER_PERMISSION_DENIED", Final),
        ("authorizationError", "CUSTOMER_NOT_ENABLED", Final),
        ("headerError", "INVALID_LOGIN_CUSTOMER_ID", Final),
        ("quotaError", "ACCESS_PROHIBITED", Final),
        ("requestError", "UNSUPPORTED_VERSION", Final),
        ("queryError", "UNRECOGNIZED_FIELD", Final),
        ("queryError", "UNEXPECTED_END_OF_QUERY", Final),
        ("dateRangeError", "INVALID_DATE", Final),
        ("changeEventError", "START_DATE_TOO_OLD", Final),
        ("clickViewError", "DATE_TOO_OLD", Final),
        ("changeEventError", "LIMIT_NOT_SPECIFIED", Retryable),
        ("clickViewError", "UNKNOWN", Retryable),
        ("quotaError", "UNKNOWN", Retryable),
        ("requestError", "UNKNOWN", Retryable),
        ("somethingNewError", "WHATEVER", Retryable),
    ];
    for (category, word, expected) in table {
        let found = meaning(400, &failure(&json!([coded(category, word)])));
        assert_eq!(found.kind, expected, "{category}.{word}");
        assert_eq!(found.text, format!("{category}.{word}: because"));
    }
}

#[test]
fn an_answer_without_codes_is_judged_by_its_status() {
    for (status, expected) in [
        (401, Kind::StaleToken),
        (429, Kind::RateLimited),
        (500, Kind::Retryable),
        (502, Kind::Retryable),
        (503, Kind::Retryable),
        (504, Kind::Retryable),
        (400, Kind::Retryable),
        (403, Kind::Retryable),
        (404, Kind::Retryable),
    ] {
        for body in ["", "<html>no</html>", "[]", "{}", "7", r#"{"error":"no"}"#] {
            assert_eq!(of_answer(status, body.as_bytes()).kind, expected, "{status} {body}");
        }
        let plain = json!({"error": {"code": status, "message": "m", "status": "S"}});
        let found = meaning(status, &plain);
        assert_eq!((found.kind, found.text.as_str()), (expected, "S: m"), "{status}");
    }
    let inside = of_error(200, &json!({"code": 401, "message": "m"}));
    assert_eq!(inside.kind, Kind::StaleToken, "an error in a good answer brings its own code");
}

#[test]
fn of_several_errors_the_most_permanent_decides() {
    let rate = coded("quotaError", "RESOURCE_EXHAUSTED");
    let passing = coded("internalError", "TRANSIENT_ERROR");
    let token = coded("authenticationError", "OAUTH_TOKEN_EXPIRED");
    let lasting = coded("queryError", "UNRECOGNIZED_FIELD");
    for (errors, expected) in [
        (json!([rate, passing]), Kind::RateLimited),
        (json!([passing, rate, token]), Kind::StaleToken),
        (json!([passing, lasting, token, rate]), Kind::Final),
        (json!([passing, coded("x", "Y")]), Kind::Retryable),
    ] {
        assert_eq!(meaning(400, &failure(&errors)).kind, expected, "{errors}");
    }
    let text = meaning(400, &failure(&json!([rate, lasting]))).text;
    assert_eq!(text, "quotaError.RESOURCE_EXHAUSTED: because; queryError.UNRECOGNIZED_FIELD: because");
}

#[test]
fn a_delay_is_obeyed_however_long() {
    let told = |delay: &str, scope: &str| {
        let quota = json!({"rateScope": scope, "rateName": "x", "retryDelay": delay});
        let error = json!({"errorCode": {"quotaError": "RESOURCE_EXHAUSTED"}, "details": {"quotaErrorDetails": quota}});
        let found = meaning(429, &failure(&json!([error])));
        (found.retry_after, found.scope)
    };
    assert_eq!(told("40591s", "ACCOUNT"), (Some(Duration::from_secs(40_591)), Scope::Customer));
    assert_eq!(told("1.5s", "DEVELOPER"), (Some(Duration::from_millis(1500)), Scope::Source));
    assert_eq!(told("9000000s", "UNKNOWN"), (Some(Duration::from_secs(9_000_000)), Scope::Customer));
    for wrong in ["", "s", "12", "-5s", "NaNs", "infs", "1h"] {
        assert_eq!(told(wrong, "ACCOUNT").0, None, "{wrong}");
    }
    let info = json!({"error": {"code": 429, "details":
        [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "30s"}]}});
    assert_eq!(meaning(429, &info).retry_after, Some(Duration::from_secs(30)));
}

#[test]
fn only_the_apis_own_details_are_read_and_of_any_version() {
    let detail = |name: &str| {
        let detail = json!({"@type": name, "errors": [coded("queryError", "X")]});
        meaning(400, &json!({"error": {"code": 400, "details": [{"@type": "a.b.DebugInfo"}, detail]}})).kind
    };
    assert_eq!(detail("type.googleapis.com/google.ads.googleads.v31.errors.GoogleAdsFailure"), Kind::Final);
    assert_eq!(detail("type.googleapis.com/google.rpc.BadRequest"), Kind::Retryable);
    let odd = json!({"error": {"code": "400", "details": [7, null], "message": "m"}});
    assert_eq!(meaning(500, &odd).kind, Kind::Retryable);
}

#[test]
fn an_odd_field_does_not_hide_the_code() {
    let code = json!({"authorizationError": "USER_PERMISSION_DENIED"});
    for odd in [
        json!({"errorCode": code, "details": null}),
        json!({"errorCode": code, "details": {"quotaErrorDetails": null}}),
        json!({"errorCode": code, "message": null}),
        json!({"errorCode": code, "details": {"quotaErrorDetails": {"retryDelay": 7}}, "message": ["x"]}),
    ] {
        assert_eq!(meaning(403, &failure(&json!([odd]))).kind, Kind::Final, "{odd}");
    }
    let mut report = failure(&json!([{"errorCode": code}]));
    report["error"]["message"] = json!(null);
    report["error"]["status"] = json!(7);
    assert_eq!(meaning(403, &report).kind, Kind::Final);
}
