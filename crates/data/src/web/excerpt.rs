//! A few words of what a source answered, fit for an error message.

use redrive_core::text::{ELLIPSIS, cut, one_line};

use crate::settings::redact;

const MAX_BYTES: usize = 400;

/// The beginning of a text, on one line and without secrets. `whole` says that nothing follows the bytes.
pub(crate) fn excerpt(bytes: &[u8], whole: bool, secrets: &[String]) -> String {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    if !whole {
        // Half a character would hide from the redactor what is in front of it.
        text.truncate(text.trim_end_matches(char::REPLACEMENT_CHARACTER).len());
        text.push(ELLIPSIS);
    }
    cut(&one_line(&redact(&text, secrets)), MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_short_line() {
        assert_eq!(excerpt(b" <p>\r\n\tno\0such \xff thing\x1b[0m</p>\n", true, &[]), "<p> nosuch \u{fffd} thing</p>");
        let long = excerpt("é".repeat(1000).as_bytes(), false, &[]);
        assert!(long.len() <= MAX_BYTES && long.ends_with("é…"), "{long}");
        assert_eq!(excerpt("é".as_bytes().split_at(1).0, false, &[]), "…");
    }

    #[test]
    fn no_part_of_a_secret_is_shown_wherever_reading_ends() {
        let secrets = ["hüsh-hüsh-hüsh".to_owned()];
        assert_eq!(excerpt("token hüsh-hüsh-hüsh is bad".as_bytes(), true, &secrets), "token *** is bad");
        let text = "the token you sent was hüsh-hüsh-hüsh, and it is bad".as_bytes();
        for end in 0..text.len() {
            let shown = excerpt(&text[..end], false, &secrets);
            assert!(!shown.contains("hüsh") && shown.ends_with('…'), "{shown}");
        }
    }
}
