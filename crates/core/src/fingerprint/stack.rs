//! Stack traces: which lines of a message tell the cause. Frames and the code that they quote do not.

/// What an operator's log and the data plane put between the lines of a message.
const BETWEEN: &str = " | ";

/// The lines that count, each with the part of it that does.
pub(super) fn telling(message: &str) -> Vec<&str> {
    if !message.contains('\n') && !message.contains(BETWEEN) {
        return vec![message];
    }
    let lines: Vec<&str> = message.split('\n').flat_map(|line| line.split(BETWEEN)).map(str::trim).collect();
    let mut kept: Vec<&str> = Vec::with_capacity(lines.len());
    let mut after_frame = false;
    for (number, line) in lines.iter().enumerate() {
        let is_last = number + 1 == lines.len();
        match what(line) {
            What::Words if after_frame && !is_last => after_frame = false,
            What::Words => {
                kept.push(line);
                after_frame = false;
            }
            What::Frame { before, quotes } => {
                // Where a message has only the end of a trace, the line in front of a frame is another frame's code.
                if quotes && before.is_empty() && number == 1 {
                    drop_code(&mut kept);
                }
                kept.push(before);
                after_frame = quotes;
            }
            What::Underline => {
                drop_code(&mut kept);
                after_frame = false;
            }
            What::End => break,
        }
    }
    kept.retain(|line| !line.is_empty());
    if kept.is_empty() { lines.last().copied().into_iter().collect() } else { kept }
}

/// Takes the last line away: it is code. The first one has how the program ended in front of it.
fn drop_code(kept: &mut Vec<&str>) {
    if let Some(line) = kept.pop()
        && kept.is_empty()
        && let Some((end, _)) = line.split_once(": ")
    {
        kept.push(end);
    }
}

enum What<'a> {
    Words,
    /// A frame, what stands before it, and whether a line of code follows.
    Frame {
        before: &'a str,
        quotes: bool,
    },
    /// Marks below a line of code.
    Underline,
    /// What follows is frames.
    End,
}

fn what(line: &str) -> What<'_> {
    let before = |found: usize, quotes: bool| What::Frame { before: line[..found].trim(), quotes };
    if let Some(found) = line.find("Traceback (most recent call last)") {
        return before(found, false);
    }
    if let Some(found) = line.find("File \"").filter(|found| line[*found..].contains("\", line ")) {
        return before(found, true);
    }
    let is_call = line.starts_with("at ") && line.contains(['(', ':']);
    if is_call
        || line.starts_with("... ")
        || line.contains("the above exception")
        || line.contains("The above exception")
    {
        return before(0, false);
    }
    if !line.is_empty() && line.bytes().all(|byte| matches!(byte, b'^' | b'~' | b' ')) {
        return What::Underline;
    }
    let is_dump = line.starts_with("goroutine ") && line.contains('[');
    if is_dump || line == "stack backtrace:" { What::End } else { What::Words }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_and_what_was_raised_stays() {
        let cases: [(&str, &[&str]); 7] = [
            ("one line", &["one line"]),
            (
                "Traceback (most recent call last):\n  File \"/a/b.py\", line 3, in <module>\n    main()\n  File \"/a/b.py\", line 9, in main\nKeyError: 'x'",
                &["KeyError: 'x'"],
            ),
            (
                "python3 ended with exit code 1: File \"/a/b.py\", line 3, in <module> | main() | KeyError: 'x'",
                &["python3 ended with exit code 1:", "KeyError: 'x'"],
            ),
            (
                "tap ended with exit code 1: raise HTTPError(message) | ^^^^^^^^ | HTTPError: 404",
                &["tap ended with exit code 1", "HTTPError: 404"],
            ),
            (
                "java.net.SocketTimeoutException: Read timed out\n\tat a.B.c(B.java:12)\n\t... 12 more\nCaused by: x",
                &["java.net.SocketTimeoutException: Read timed out", "Caused by: x"],
            ),
            ("panic: boom\n\ngoroutine 1 [running]:\nmain.main()\n", &["panic: boom"]),
            ("    at a (b.js:1:2)", &["    at a (b.js:1:2)"]),
        ];
        for (message, expected) in cases {
            assert_eq!(telling(message), expected, "{message}");
        }
    }
}
