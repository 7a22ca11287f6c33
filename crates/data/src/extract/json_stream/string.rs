//! The grammar of a string after its opening quote. Long runs without an escape are passed over at once.

use memchr::memchr2;

/// Where in a string the scanner stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    Plain,
    AfterBackslash,
    /// So many digits of a `\u` escape are still to come.
    Hex(u8),
}

/// How far a piece of input reaches into a string.
pub(super) enum Reached {
    /// The closing quote is the last of these bytes.
    End(usize),
    /// All of the input belongs to the string, and it goes on.
    Inside(Text),
    /// The byte at this place may not stand in a string.
    Wrong(usize, &'static str),
}

impl Text {
    pub(super) fn read(mut self, input: &[u8]) -> Reached {
        let mut at = 0;
        while let Some(&byte) = input.get(at) {
            self = match self {
                Self::Plain => {
                    let run = memchr2(b'"', b'\\', &input[at..]).unwrap_or(input.len() - at);
                    // One look at every byte without a way out of the loop, which compilers turn into wide instructions.
                    if input[at..at + run].iter().fold(false, |found, byte| found | (*byte < b' ')) {
                        return Reached::Wrong(at, "a control character in a string");
                    }
                    at += run;
                    match input.get(at) {
                        None => break,
                        Some(b'"') => return Reached::End(at + 1),
                        Some(_) => Self::AfterBackslash,
                    }
                }
                Self::AfterBackslash => match byte {
                    b'u' => Self::Hex(4),
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Self::Plain,
                    _ => return Reached::Wrong(at, "an unknown escape in a string"),
                },
                Self::Hex(_) if !byte.is_ascii_hexdigit() => {
                    return Reached::Wrong(at, "an unfinished \\u escape in a string");
                }
                Self::Hex(1) => Self::Plain,
                Self::Hex(left) => Self::Hex(left - 1),
            };
            at += 1;
        }
        Reached::Inside(self)
    }
}
