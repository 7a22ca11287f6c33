//! How sure a person must be before many partitions change.

/// What stands between a command and its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    None,
    /// Ask yes or no.
    YesNo,
    /// Have the number typed.
    TypeNumber,
    /// Only `--force` will do.
    OverLimit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rails {
    pub confirm_above: u64,
    pub hard_limit: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Given {
    pub yes: bool,
    pub force: bool,
}

/// What a change of `count` partitions asks for.
pub fn confirmation(count: u64, rails: Rails, given: Given) -> Confirmation {
    if given.force {
        return Confirmation::None;
    }
    if count > rails.hard_limit {
        return Confirmation::OverLimit;
    }
    if given.yes || count <= 1 {
        return Confirmation::None;
    }
    if count > rails.confirm_above { Confirmation::TypeNumber } else { Confirmation::YesNo }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_change_the_surer_one_must_be() {
        let rails = Rails { confirm_above: 20, hard_limit: 10_000 };
        let ask = |count, yes, force| confirmation(count, rails, Given { yes, force });
        assert_eq!(
            [0, 1, 2, 20].map(|n| ask(n, false, false)),
            [Confirmation::None, Confirmation::None, Confirmation::YesNo, Confirmation::YesNo]
        );
        assert_eq!(ask(21, false, false), Confirmation::TypeNumber);
        assert_eq!(ask(10_000, true, false), Confirmation::None);
        assert_eq!(ask(10_001, true, false), Confirmation::OverLimit);
        assert_eq!(ask(1_000_000, false, true), Confirmation::None);
    }
}
