//! Customer ids: ten digits, which people write as `123-456-7890`.

/// The digits alone.
pub(super) fn digits(text: &str) -> Result<String, String> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    if digits.len() == 10 && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(digits)
    } else {
        Err(format!("{text:?} is no Google Ads customer id; it has ten digits, like \"123-456-7890\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_digits_with_or_without_dashes_are_an_id() {
        assert_eq!(digits("123-456-7890").unwrap(), "1234567890");
        assert_eq!(digits("1234567890").unwrap(), "1234567890");
        for wrong in ["", "-", "123456789", "12345678901", "12345678x0", "123 456 7890", "１234567890", "../1234567"] {
            assert!(digits(wrong).is_err(), "{wrong}");
        }
    }
}
