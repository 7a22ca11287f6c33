//! What programs say, made fit for a message: no colours, no control characters.

/// A line without terminal escapes and control characters.
pub(crate) fn plain(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip_escape(&mut rest),
            '\t' => kept.push(' '),
            c if c.is_control() => {}
            c => kept.push(c),
        }
    }
    kept.trim().to_owned()
}

/// `ESC [ … letter` sets colours and moves the cursor; `ESC ] … BEL` or `ESC ] … ESC \` sets titles and links; `ESC (`
/// and its like are followed by one character more; others are themselves one.
fn skip_escape(rest: &mut std::str::Chars<'_>) {
    match rest.next() {
        Some('[') => {
            rest.find(|c| ('\u{40}'..='\u{7e}').contains(c));
        }
        Some(']') => {
            if rest.find(|c| matches!(c, '\u{7}' | '\u{1b}')) == Some('\u{1b}') {
                rest.next();
            }
        }
        Some('\u{20}'..='\u{2f}') => {
            rest.next();
        }
        Some(_) | None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_titles_and_control_characters_go() {
        let said = "\u{1b}[1;31merror\u{1b}[0m:\tno \u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{7}\r\u{1b}(Bend\u{1b}";
        assert_eq!(plain(said), "error: no linkend");
    }
}
