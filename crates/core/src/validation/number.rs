//! JSON numbers, exactly: as decimal digits and an exponent, never through a binary fraction.

/// `±0.digits × 10^exponent`. The digits begin and end with something else than zero; zero has none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    pub negative: bool,
    pub digits: Vec<u8>,
    pub exponent: i64,
}

impl Decimal {
    /// Reads the text of a JSON number; none when its exponent is beyond all counting.
    pub(super) fn read(number: &str) -> Option<Self> {
        let (negative, unsigned) = match number.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, number),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let leading = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..leading);
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        if digits.is_empty() {
            return Some(Self { negative: false, digits, exponent: 0 });
        }
        let point = i64::try_from(whole.len()).ok()?.checked_sub(i64::try_from(leading).ok()?)?;
        Some(Self { negative, digits, exponent: exponent.checked_add(point)? })
    }

    pub(super) fn is_whole(&self) -> bool {
        i64::try_from(self.digits.len()).is_ok_and(|digits| digits <= self.exponent.max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_is_its_value_however_it_is_written() {
        let groups: [&[&str]; 4] = [
            &["0", "-0", "0.0", "0e5", "0e-5", "-0.00"],
            &["1", "1.0", "1e0", "10e-1", "0.1e1", "1E+00"],
            &["-120", "-1.2e2", "-1200E-1"],
            &["0.015", "15e-3", "1.50e-2"],
        ];
        for (n, group) in groups.iter().enumerate() {
            for text in *group {
                assert_eq!(Decimal::read(text), Decimal::read(group[0]), "{text}");
                assert_eq!(Decimal::read(text).unwrap().is_whole(), n < 3, "{text}");
            }
        }
        assert_ne!(Decimal::read("1"), Decimal::read("-1"));
        assert_ne!(Decimal::read("9007199254740993"), Decimal::read("9007199254740992"));
        assert_eq!(Decimal::read("1e99999999999999999999"), None);
        assert_eq!(Decimal::read("0.1e-9223372036854775808").map(|n| n.exponent), Some(i64::MIN));
        assert_eq!(Decimal::read("0.01e-9223372036854775808"), None);
    }

    proptest! {
        #[test]
        fn only_equal_numbers_read_alike(a in -2000_i64..2000, b in -2000_i64..2000, scale in 0_usize..4) {
            let written = |n: i64| format!("{n}e-{scale}");
            prop_assert_eq!(Decimal::read(&written(a)) == Decimal::read(&written(b)), a == b);
            let power = 10_i64.pow(u32::try_from(scale).unwrap());
            prop_assert_eq!(Decimal::read(&written(a)).unwrap().is_whole(), a % power == 0);
        }
    }
}
