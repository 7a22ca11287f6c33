//! Numbers of things, as the rules and the database count them.

/// A count as people read it: 4,312.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A length as a count.
pub fn of(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_told_apart() {
        let told = [0, 7, 999, 1_000, 4_312, 100_000, 1_234_567].map(grouped);
        assert_eq!(told, ["0", "7", "999", "1,000", "4,312", "100,000", "1,234,567"]);
    }
}
