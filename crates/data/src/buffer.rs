//! A text that grows up to a known length.

/// Appends to a text of at most about `longest` bytes. A buffer that doubles would take up to twice as much.
pub(crate) fn append(text: &mut Vec<u8>, bytes: &[u8], longest: usize) {
    let needed = text.len() + bytes.len();
    if needed > text.capacity() {
        let doubled = (2 * text.capacity()).min(longest);
        text.reserve_exact(doubled.max(needed) - text.len());
    }
    text.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::append;

    #[test]
    fn a_text_takes_no_more_than_it_may_have() {
        let mut text = Vec::new();
        while text.len() < 1000 {
            append(&mut text, b"some bytes", 1000);
            assert!(text.capacity() <= 1000, "{}", text.capacity());
        }
        append(&mut text, b"more", 1000);
        assert_eq!(text.len(), 1004);
    }
}
