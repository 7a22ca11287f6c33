//! `ETag` and `If-Match`: a change that was decided on what was seen does not happen to something else.

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use redrive_core::refusal::Reason;

use super::code::Code;
use crate::error::{Error, Result};

/// Marks an answer with the version of what it shows.
pub fn etag(mut response: Response, version: u64) -> Response {
    if let Ok(tag) = HeaderValue::from_str(&format!("\"v{version}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// Refuses a change whose `If-Match` names another version than the one that is there now.
pub fn if_match(headers: &HeaderMap, version: u64) -> Result<()> {
    let mut given = headers.get_all(header::IF_MATCH).iter().peekable();
    if given.peek().is_none() {
        return Ok(());
    }
    let ours = format!("\"v{version}\"");
    let tags = given.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).map(str::trim);
    match tags.into_iter().any(|tag| tag == "*" || tag == ours) {
        true => Ok(()),
        false => {
            let detail = format!("it was changed since it was looked at, and is at version {ours} now; look again");
            Err(Error::of_code(Code::Refused(Reason::ChangedSincePlan), detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_happens_to_the_version_that_was_seen_and_to_no_other() {
        let headers = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::IF_MATCH, HeaderValue::from_static(value));
            }
            headers
        };
        for fits in [headers(&[]), headers(&["*"]), headers(&["\"v3\""]), headers(&["\"v1\", \"v3\""])] {
            assert!(if_match(&fits, 3).is_ok(), "{fits:?}");
        }
        for other in [headers(&["\"v2\""]), headers(&["v3"]), headers(&["W/\"v3\""]), headers(&[""])] {
            assert_eq!(if_match(&other, 3).unwrap_err().code().status(), 412, "{other:?}");
        }
    }
}
