//! Turns the bytes of a file into text.

use std::borrow::Cow;

/// Says why the bytes of a file are not text. The file is refused as a whole and counts as one parse error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodingError {
    #[error("the file is not UTF-8 at byte {offset}; save it as UTF-8")]
    Utf8 { offset: usize },
    #[error("the file begins with a mark of UTF-16 but is not UTF-16 at byte {offset}; save it as UTF-8")]
    Utf16 { offset: usize },
    #[error("the file is UTF-32, which is not supported; save it as UTF-8")]
    Utf32,
    #[error("the file has {bytes} bytes of text, more than the 2147483647 that can be parsed; split it")]
    TooLarge { bytes: usize },
}

impl EncodingError {
    /// Tells the line that it is about, of the bytes that did not decode.
    pub fn line(&self, bytes: &[u8]) -> u32 {
        let before: Vec<u16> = match *self {
            Self::Utf8 { offset } => bytes.iter().take(offset).map(|&byte| byte.into()).collect(),
            Self::Utf16 { offset } => {
                let unit = if bytes.starts_with(&[0xff, 0xfe]) { u16::from_le_bytes } else { u16::from_be_bytes };
                bytes[..offset.min(bytes.len())].as_chunks::<2>().0.iter().copied().map(unit).collect()
            }
            Self::Utf32 | Self::TooLarge { .. } => return 1,
        };
        let (cr, lf) = (u16::from(b'\r'), u16::from(b'\n'));
        let ends = before.windows(2).filter(|pair| pair[0] == cr && pair[1] != lf).count();
        let ends = ends + before.iter().filter(|unit| **unit == lf).count();
        u32::try_from(ends + 1).unwrap_or(u32::MAX)
    }
}

/// The parser keeps positions in 31 bits.
pub(crate) const MAX_TEXT: usize = 0x7fff_ffff;

/// Decodes a file: a byte order mark of UTF-8 or UTF-16 is honoured and dropped, anything else must be UTF-8.
///
/// UTF-8 is borrowed, UTF-16 is converted.
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, EncodingError> {
    // The mark of UTF-32 begins with the mark of UTF-16, so it is looked for first.
    if bytes.starts_with(&[0xff, 0xfe, 0, 0]) || bytes.starts_with(&[0, 0, 0xfe, 0xff]) {
        return Err(EncodingError::Utf32);
    }
    let text = match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => utf8(rest, 3)?,
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes)?,
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes)?,
        plain => utf8(plain, 0)?,
    };
    if text.len() > MAX_TEXT {
        return Err(EncodingError::TooLarge { bytes: text.len() });
    }
    Ok(text)
}

fn utf8(bytes: &[u8], skipped: usize) -> Result<Cow<'_, str>, EncodingError> {
    std::str::from_utf8(bytes)
        .map(Cow::Borrowed)
        .map_err(|error| EncodingError::Utf8 { offset: skipped + error.valid_up_to() })
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<Cow<'_, str>, EncodingError> {
    let (units, rest) = bytes.as_chunks::<2>();
    let mut text = String::with_capacity(units.len());
    let mut offset = 2;
    for decoded in char::decode_utf16(units.iter().copied().map(unit)) {
        let letter = decoded.map_err(|_| EncodingError::Utf16 { offset })?;
        offset += 2 * letter.len_utf16();
        text.push(letter);
    }
    if !rest.is_empty() {
        return Err(EncodingError::Utf16 { offset });
    }
    Ok(Cow::Owned(text))
}

/// Replaces each U+0000 by U+2400, the picture of it, because text in PostgreSQL cannot hold U+0000.
///
/// The parser itself keeps U+0000. A caller that stores what it parses replaces it in the text *before* parsing, not in
/// the values after it: U+0000 has no meaning in the format, and two stanzas that become equal are then merged like any
/// repeated stanza instead of meeting in the database.
pub fn replace_nul(text: Cow<'_, str>) -> Cow<'_, str> {
    match memchr::memchr(0, text.as_bytes()) {
        None => text,
        Some(_) => Cow::Owned(text.replace('\0', "\u{2400}")),
    }
}

/// Tells what the format counts as white space: that of Unicode, and the four separators of ASCII.
pub(crate) fn is_space(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '\u{1c}'..='\u{1f}')
}

pub(crate) fn trim_start(text: &str) -> &str {
    match text.as_bytes().first() {
        Some(byte) if byte.is_ascii_graphic() => text,
        _ => text.trim_start_matches(is_space),
    }
}

pub(crate) fn trim_end(text: &str) -> &str {
    match text.as_bytes().last() {
        Some(byte) if byte.is_ascii_graphic() => text,
        _ => text.trim_end_matches(is_space),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_do_not_decode_name_the_byte() {
        assert_eq!(decode(b"[a]\nb = \xa9"), Err(EncodingError::Utf8 { offset: 8 }));
        assert_eq!(decode(b"\xef\xbb\xbfa\xff"), Err(EncodingError::Utf8 { offset: 4 }));
        assert_eq!(decode(b"\xff\xfea\0b"), Err(EncodingError::Utf16 { offset: 4 }));
        assert_eq!(decode(b"\xfe\xff\xd8\x00\0a"), Err(EncodingError::Utf16 { offset: 2 }));
        assert_eq!(decode(b"\xff\xfe\0\0a\0\0\0"), Err(EncodingError::Utf32));
    }

    #[test]
    fn bytes_that_do_not_decode_have_a_line() {
        let line = |bytes: &[u8]| decode(bytes).unwrap_err().line(bytes);
        assert_eq!(line(b"\xff"), 1);
        assert_eq!(line(b"[a]\nb = \xa9"), 2);
        assert_eq!(line(b"a\r\nb\rc\n\xa9"), 4);
        assert_eq!(line(b"\xff\xfea\0\n\0\x00\xd8b\0"), 2);
        assert_eq!(line(b"\xfe\xff\0a\0\n\0"), 2);
        assert_eq!(line(b"\xff\xfe\0\0a\0\0\0"), 1);
    }

    #[test]
    fn marks_are_dropped_and_both_orders_of_utf_16_are_read() {
        assert_eq!(decode(b"\xef\xbb\xbfx=1").as_deref(), Ok("x=1"));
        assert_eq!(decode(b"\xff\xfex\0=\0").as_deref(), Ok("x="));
        assert_eq!(decode(b"\xfe\xff\0x\0=").as_deref(), Ok("x="));
    }

    #[test]
    fn nul_becomes_its_picture_and_text_without_it_is_borrowed() {
        assert_eq!(replace_nul(Cow::Borrowed("x\0y")), "x\u{2400}y");
        assert!(matches!(replace_nul(Cow::Borrowed("xy")), Cow::Borrowed("xy")));
    }
}
