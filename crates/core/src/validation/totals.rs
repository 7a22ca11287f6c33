//! How many records there must be.

/// Bounds on the number of records. The default has none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    min_records: Option<u64>,
    max_records: Option<u64>,
    max_shrink: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TotalsError {
    #[error("min_records {min} is more than max_records {max}; no attempt could be accepted")]
    Crossed { min: u64, max: u64 },
    #[error("{0} is not between 0 and 1; 0.5 refuses a rerun with less than half of what it would replace")]
    Shrink(f64),
}

impl Totals {
    /// `max_shrink` is the share of the records it would replace that a rerun may lose.
    pub fn new(
        min_records: Option<u64>,
        max_records: Option<u64>,
        max_shrink: Option<f64>,
    ) -> Result<Self, TotalsError> {
        if let (Some(min), Some(max)) = (min_records, max_records)
            && min > max
        {
            return Err(TotalsError::Crossed { min, max });
        }
        if let Some(share) = max_shrink
            && !(0.0..=1.0).contains(&share)
        {
            return Err(TotalsError::Shrink(share));
        }
        Ok(Self { min_records, max_records, max_shrink })
    }

    /// What is wrong with the number of records, where `replaces` is the number they would replace.
    pub fn check(&self, records: u64, replaces: Option<u64>) -> Vec<String> {
        let too_few = self.min_records.filter(|min| records < *min);
        let too_many = self.max_records.filter(|max| records > *max);
        let shrunk = self.max_shrink.zip(replaces).filter(|(share, old)| loses_more(*share, *old, records));
        let findings = [
            too_few.map(|min| match (records, min) {
                (0, 1) => "min_records: nothing came, and 1 is the least; set it to 0 if the source may have nothing"
                    .to_owned(),
                _ => format!("min_records: {records} came, and {min} are the least"),
            }),
            too_many.map(|max| format!("max_records: {records} came, and {max} are the most")),
            shrunk.map(|(share, old)| {
                format!("max_shrink: {records} came in place of {old}, and {share} of them may be lost")
            }),
        ];
        findings.into_iter().flatten().collect()
    }
}

fn loses_more(share: f64, old: u64, new: u64) -> bool {
    // 0.29 of 100 is 28.999… in binary, and 29 is meant.
    const ROUNDING: f64 = 1.0 + 1e-12;
    approximately(old.saturating_sub(new)) > share * approximately(old) * ROUNDING
}

/// Counts are far below where a float begins to skip whole numbers.
fn approximately(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(min: Option<u64>, max: Option<u64>, shrink: Option<f64>) -> Totals {
        Totals::new(min, max, shrink).unwrap()
    }

    #[test]
    fn bounds_include_their_ends() {
        let bounds = totals(Some(2), Some(4), None);
        for fine in 2..=4 {
            assert_eq!(bounds.check(fine, Some(100)), [""; 0]);
        }
        assert_eq!(bounds.check(1, None), ["min_records: 1 came, and 2 are the least"]);
        let told = "min_records: nothing came, and 1 is the least; set it to 0 if the source may have nothing";
        assert_eq!(totals(Some(1), None, None).check(0, None), [told]);
        assert_eq!(bounds.check(5, None), ["max_records: 5 came, and 4 are the most"]);
        assert_eq!(Totals::default().check(0, Some(u64::MAX)), [""; 0]);
    }

    #[test]
    fn a_rerun_may_lose_its_share_and_no_more() {
        let half = totals(None, None, Some(0.5));
        assert_eq!(half.check(50, Some(100)), [""; 0]);
        assert_eq!(half.check(49, Some(100)), ["max_shrink: 49 came in place of 100, and 0.5 of them may be lost"]);
        assert_eq!(half.check(0, None), [""; 0], "nothing is replaced");
        assert_eq!(half.check(0, Some(0)), [""; 0]);
        assert_eq!(half.check(200, Some(100)), [""; 0]);
        assert_eq!(totals(None, None, Some(0.0)).check(99, Some(100)).len(), 1);
        assert_eq!(totals(None, None, Some(1.0)).check(0, Some(u64::MAX)), [""; 0]);
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        assert_eq!(Totals::new(Some(5), Some(4), None), Err(TotalsError::Crossed { min: 5, max: 4 }));
        assert!(Totals::new(Some(4), Some(4), None).is_ok());
        for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(matches!(Totals::new(None, None, Some(bad)), Err(TotalsError::Shrink(_))), "{bad}");
        }
    }

    #[test]
    fn a_share_in_hundredths_is_taken_as_it_is_written() {
        for hundredths in 0..=100_u64 {
            let share = format!("{}.{:02}", hundredths / 100, hundredths % 100).parse().unwrap();
            for old in (100..=20_000).step_by(100) {
                let least = old - old / 100 * hundredths;
                let refused = |new| !totals(None, None, Some(share)).check(new, Some(old)).is_empty();
                assert!(!refused(least), "{least} in place of {old}, {share} lost");
                assert!(least == 0 || refused(least - 1), "{} in place of {old}, {share} lost", least - 1);
            }
        }
    }
}
