//! Properties over a database: few cases in a normal run, more by `PROPTEST_CASES`, and a seed that repeats a failure.

use std::fmt::Debug;
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

/// Checks `test` for `cases` values; a failure tells how to see it again.
pub fn check<S>(cases: u32, strategy: S, test: impl Fn(S::Value) -> Result<(), TestCaseError>)
where
    S: Strategy,
    S::Value: Debug,
{
    let asked = Config::default();
    let seed = match asked.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().build_hasher().finish(),
    };
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { cases };
    let config =
        Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, max_shrink_iters: 300, ..asked };
    tokio::task::block_in_place(|| {
        if let Err(error) = TestRunner::new(config).run(&strategy, test) {
            panic!("{error}\nsee it again with PROPTEST_RNG_SEED={seed} PROPTEST_CASES={cases}");
        }
    });
}

/// What a future gives, for the inside of a property.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Handle::current().block_on(future)
}
