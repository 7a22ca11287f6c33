//! Which columns of a batch have one value for all rows. Most have: the runs of a claim share their worker, their task and their
//! times. Such a value is sent and bound once, and not once a row.

use super::value::Column;

/// The columns of a batch whose rows share their value, by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shared(u64);

impl Shared {
    pub(crate) const NONE: Self = Self(0);

    /// Fewer rows are not worth a statement of their own.
    const FEWEST_ROWS: usize = 16;

    /// Looks at the values. One column stays as it is, so that the rows can be counted.
    pub(crate) fn of(columns: &[Column<'_>]) -> Self {
        let (Some(first), true) = (columns.first(), columns.len() <= 64) else { return Self::NONE };
        if first.len() < Self::FEWEST_ROWS {
            return Self::NONE;
        }
        let shared = columns.iter().enumerate().filter(|(_, column)| column.is_shared());
        let found = Self(shared.fold(0, |found, (nth, _)| found | (1 << nth)));
        let all = columns.len() == usize::try_from(found.0.count_ones()).unwrap_or(usize::MAX);
        if all { Self(found.0 & !1) } else { found }
    }

    /// Without these.
    pub(crate) fn except(self, places: impl Iterator<Item = usize>) -> Self {
        places.fold(self, |left, nth| Self(left.0 & !(1 << nth)))
    }

    pub(crate) fn has(self, nth: usize) -> bool {
        self.0 >> nth & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(values: impl Iterator<Item = i64>) -> Column<'static> {
        Column::Int(values.map(Some).collect())
    }

    #[test]
    fn a_column_is_shared_where_all_rows_have_its_value() {
        let texts = Column::Text((0..16).map(|nth| Some(if nth < 15 { "a" } else { "b" })).collect());
        let absent = Column::Id(vec![None; 16]);
        let found = Shared::of(&[column(0..16), column((0..16).map(|_| 7)), texts, absent]);
        let shared: Vec<usize> = (0..4).filter(|nth| found.has(*nth)).collect();
        assert_eq!(shared, [1, 3]);
    }

    #[test]
    fn a_few_rows_share_nothing_and_one_column_is_never_shared() {
        assert_eq!(Shared::of(&[column(0..15), column((0..15).map(|_| 7))]), Shared::NONE);
        let same = || column((0..16).map(|_| 7));
        let found = Shared::of(&[same(), same()]);
        assert!(!found.has(0) && found.has(1));
    }
}
