//! Random choices that a seed repeats.

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    /// One of several, by its place.
    pub fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(u64::try_from(count).unwrap())).unwrap()
    }
}

/// The seed that `./chaos` was given.
pub fn full_seed() -> u64 {
    setting("REDRIVE_CHAOS_SEED").unwrap_or(1)
}

/// A number that a variable of the environment gives.
pub fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var_os(name)?.to_str()?.parse().ok()
}
