//! `sample`: a source that is made up, for the demo and for tests. What it answers, and how it fails, follows from its
//! seed, the key and the attempt alone, so that a run can be repeated exactly.

use std::time::Duration;

use crate::settings::SettingError;
use crate::settings::duration;
use futures_util::future::BoxFuture;
use redrive_core::retry;
use serde::Deserialize;

use super::{Error, Extractor, Failure, Job, Records};

#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    #[serde(deserialize_with = "duration::option")]
    pub timeout: Option<Duration>,
    pub seed: u64,
    /// Records in a partition.
    pub records: u64,
    /// How often an attempt fails in a way that may pass: 0 to 1.
    pub failure: f64,
    /// How often the answer to an attempt is to slow down.
    pub rate_limit: f64,
    #[serde(deserialize_with = "duration::de")]
    pub retry_after: Duration,
    /// How often the source stops half-way and says that it is done.
    pub truncation: f64,
    /// Which part of the partitions can never be had.
    pub gone: f64,
    /// How long an attempt takes, on the average.
    #[serde(deserialize_with = "duration::de")]
    pub latency: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timeout: None,
            seed: 0,
            records: 100,
            failure: 0.0,
            rate_limit: 0.0,
            retry_after: Duration::from_secs(5),
            truncation: 0.0,
            gone: 0.0,
            latency: Duration::ZERO,
        }
    }
}

#[derive(Debug)]
pub struct Sample {
    settings: Settings,
}

impl Sample {
    pub fn new(settings: &Settings) -> Result<Self, SettingError> {
        let shares = [
            ("failure", settings.failure),
            ("rate_limit", settings.rate_limit),
            ("truncation", settings.truncation),
            ("gone", settings.gone),
        ];
        for (name, share) in shares {
            if !(0.0..=1.0).contains(&share) {
                return Err(SettingError::at(name, format!("{share} is not between 0 and 1")));
            }
        }
        if settings.failure + settings.rate_limit + settings.truncation > 1.0 {
            let why = "failure, rate_limit and truncation are more than 1 together";
            return Err(SettingError::at("failure", why).also(&["rate_limit", "truncation"]));
        }
        Ok(Self { settings: settings.clone() })
    }
}

impl Extractor for Sample {
    fn name(&self) -> &'static str {
        "sample"
    }

    fn extract<'a>(&'a self, job: &'a Job, records: &'a mut Records) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let settings = &self.settings;
            let mut partition = Dice::new(settings.seed, retry::seed(&job.key));
            let gone = partition.share() < settings.gone;
            let mut dice = Dice::new(partition.next(), u64::from(job.attempt));
            tokio::time::sleep(settings.latency.mul_f64(2.0 * dice.share())).await;
            if gone {
                return Err(Failure::fatal("the source has no such report any more").into());
            }
            // A rate limit costs no attempt: were it the attempt's luck, the next try would meet it again, for ever.
            let mut asked = Dice::new(settings.seed, job.run_id.uuid().as_u64_pair().1);
            if asked.share() < settings.rate_limit {
                let text = format!("too many requests; come again in {} s", settings.retry_after.as_secs());
                return Err(Failure::rate_limited(text, Some(settings.retry_after)).into());
            }
            let luck = dice.share();
            let fails = luck < settings.failure;
            let cut = fails || luck < settings.failure + settings.truncation;
            let (customer, query, date) = (&job.key.customer_id, &job.key.query_name, job.key.logical_date);
            for id in 0..if cut { settings.records / 2 } else { settings.records } {
                let (clicks, cents) = (partition.next() % 1000, partition.next() % 100_000);
                let record = serde_json::json!({
                    "id": id, "customer_id": customer, "query": query, "date": date, "clicks": clicks, "cost_cents": cents,
                });
                records.record(record.to_string().as_bytes()).await?;
            }
            if fails {
                return Err(Failure::retryable("connection reset by the source").into());
            }
            Ok(())
        })
    }
}

/// SplitMix64: the same numbers on every machine, forever.
struct Dice(u64);

impl Dice {
    fn new(seed: u64, salt: u64) -> Self {
        let mut dice = Self(seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 up to 1.
    fn share(&mut self) -> f64 {
        let bits = u32::try_from(self.next() >> 32).unwrap_or(0);
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }
}
