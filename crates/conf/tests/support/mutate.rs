//! Changes bytes at random, from a seed that a failing test prints.

/// A generator of random numbers that gives the same ones for the same seed (SplitMix64).
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Gives a number below `end`, or 0 when there is none.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap().max(1);
        usize::try_from(self.next() % end).unwrap()
    }

    pub fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

/// Changes a few places of `bytes`. `words` are what the format is sensitive to, `other` is material to splice in.
pub fn mutate(bytes: &mut Vec<u8>, words: &[&[u8]], other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len() + 1);
        match random.below(8) {
            0 if at < bytes.len() => bytes[at] = random.byte(),
            1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..(at + random.below(64)).min(bytes.len()))),
            4 => {
                let word = words[random.below(words.len())];
                drop(bytes.splice(at..at, word.iter().copied()));
            }
            5 if at < bytes.len() => {
                let word = words[random.below(words.len())];
                let end = (at + word.len()).min(bytes.len());
                drop(bytes.splice(at..end, word.iter().copied()));
            }
            6 => {
                let piece = bytes[at..(at + random.below(256)).min(bytes.len())].to_vec();
                let to = random.below(bytes.len() + 1);
                drop(bytes.splice(to..to, piece));
            }
            7 => {
                let from = random.below(other.len());
                let piece = other[from..(from + random.below(512)).min(other.len())].to_vec();
                drop(bytes.splice(at..at, piece));
            }
            _ => bytes.insert(at, random.byte()),
        }
    }
}

/// How many times, or until when, a fuzz loop runs: a fixed number of rounds from a fixed seed in ordinary tests.
/// `REDRIVE_FUZZ_SECONDS=60` makes it a long run from `REDRIVE_FUZZ_SEED`, or from a new seed.
pub fn rounds(ordinary: u64) -> impl Iterator<Item = u64> {
    #[expect(clippy::disallowed_methods, reason = "a test has no configuration to read this from")]
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let until = number("REDRIVE_FUZZ_SECONDS")
        .map(|seconds| std::time::Instant::now() + std::time::Duration::from_secs(seconds));
    let seed = match (until, number("REDRIVE_FUZZ_SEED")) {
        (_, Some(seed)) => seed,
        (Some(_), None) => u64::from(std::process::id()) << 32,
        (None, None) => 0,
    };
    let mut round = 0;
    std::iter::from_fn(move || {
        let more = until.map_or(round < ordinary, |until| std::time::Instant::now() < until);
        if !more && until.is_some() {
            #[expect(clippy::print_stdout, reason = "a long run tells what it did")]
            let () = println!("{round} rounds from seed {seed}");
        }
        round += 1;
        more.then(|| seed.wrapping_add(round - 1))
    })
}
