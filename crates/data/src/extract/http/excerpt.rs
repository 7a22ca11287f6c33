//! A few words of what a source answered, fit for an error message.

use crate::extract::redact;

const MAX_CHARS: usize = 400;

/// The beginning of a text, on one line and without secrets. `whole` says that nothing follows the bytes.
pub(in crate::extract) fn excerpt(bytes: &[u8], whole: bool, secrets: &[String]) -> String {
    // A secret that was cut in two would not be recognised, so what may be the beginning of one goes as well.
    let longest = secrets.iter().map(String::len).max().unwrap_or(0);
    let kept = if whole { bytes.len() } else { bytes.len().saturating_sub(longest) };
    let text = redact(&String::from_utf8_lossy(&bytes[..kept]), secrets);
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_short_line() {
        assert_eq!(
            excerpt(b" <p>\r\n\tno\0such \xff thing\x1b[0m</p>\n", true, &[]),
            "<p> no such \u{fffd} thing [0m</p>"
        );
        let long = excerpt("é".repeat(1000).as_bytes(), false, &[]);
        assert_eq!((long.chars().count(), long.ends_with('…')), (MAX_CHARS + 1, true));
    }

    #[test]
    fn no_part_of_a_secret_is_shown() {
        let secrets = ["hush-hush-hush".to_owned()];
        assert_eq!(excerpt(b"token hush-hush-hush is bad", true, &secrets), "token *** is bad");
        assert!(!excerpt(b"the token you sent was hush-hush", false, &secrets).contains("hush"));
    }
}
