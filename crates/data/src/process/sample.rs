//! `sample`: a handler that is made up, for the demo and for tests. What it answers, and how it fails, follows from its
//! seed, the job's category and external id, and the attempt alone.

use std::hash::Hasher as _;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redrive_core::run::Verdict;
use serde::Deserialize;
use siphasher::sip::SipHasher13;

use super::{Answer, Context, Error, Failure, Handler, Job};
use crate::settings::{SettingError, duration};

#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SampleSettings {
    pub seed: u64,
    /// How often an attempt fails in a way that may pass: 0 to 1.
    pub failure: f64,
    /// How often the answer to an attempt is to slow down.
    pub rate_limit: f64,
    #[serde(deserialize_with = "duration::de")]
    pub retry_after: Duration,
    /// Which part of the jobs can never be done.
    pub broken: f64,
    /// Which part of the jobs a person should look at.
    pub review: f64,
    /// How long an attempt takes, on the average.
    #[serde(deserialize_with = "duration::de")]
    pub latency: Duration,
}

impl Default for SampleSettings {
    fn default() -> Self {
        let retry_after = Duration::from_secs(5);
        Self { seed: 0, failure: 0.0, rate_limit: 0.0, retry_after, broken: 0.0, review: 0.0, latency: Duration::ZERO }
    }
}

#[derive(Debug)]
pub struct Sample {
    settings: SampleSettings,
}

impl Sample {
    pub fn new(settings: &SampleSettings) -> Result<Self, SettingError> {
        let SampleSettings { failure, rate_limit, broken, review, .. } = *settings;
        let shares = [("failure", failure), ("rate_limit", rate_limit), ("broken", broken), ("review", review)];
        for (name, share) in shares {
            if !(0.0..=1.0).contains(&share) {
                return Err(SettingError::at(name, format!("{share} is not between 0 and 1")));
            }
        }
        if failure + rate_limit > 1.0 {
            let why = "failure and rate_limit are more than 1 together";
            return Err(SettingError::at("failure", why).also(&["rate_limit"]));
        }
        Ok(Self { settings: settings.clone() })
    }

    async fn act(&self, job: &Job) -> Result<Answer, Failure> {
        let settings = &self.settings;
        let share = |what: &str, attempt: u32| self.share(job, what, attempt);
        let slowness = 2.0 * share("slowness", job.attempt());
        tokio::time::sleep(settings.latency.mul_f64(slowness)).await;
        if share("broken", 0) < settings.broken {
            return Err(Failure::fatal("the file is damaged"));
        }
        let luck = share("luck", job.attempt());
        if luck < settings.rate_limit {
            let text = format!("too many requests; come again in {} s", settings.retry_after.as_secs());
            return Err(Failure::rate_limited(text, Some(settings.retry_after)));
        }
        if luck < settings.rate_limit + settings.failure {
            return Err(Failure::retryable("the verifier lost its connection"));
        }
        let needs_review = share("review", 0) < settings.review;
        Ok(if needs_review { Verdict::NeedsReview } else { Verdict::Passed }.into())
    }

    /// A number from 0 to 1 that is the same every time.
    fn share(&self, job: &Job, what: &str, attempt: u32) -> f64 {
        let mut hasher = SipHasher13::new_with_keys(self.settings.seed, u64::from(attempt));
        for text in [what, job.category(), job.external_id().unwrap_or_default()] {
            hasher.write(text.as_bytes());
            hasher.write_u8(0xff);
        }
        let high = u32::try_from(hasher.finish() >> 32).unwrap_or(0);
        f64::from(high) / f64::from(u32::MAX)
    }
}

impl Handler for Sample {
    fn handle<'a>(&'a self, job: &'a Job, _: &'a Context) -> BoxFuture<'a, Result<Answer, Error>> {
        Box::pin(async move { Ok(self.act(job).await?) })
    }
}
