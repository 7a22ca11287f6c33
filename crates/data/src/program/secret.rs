//! A program that prints a secret, such as a vault's client: asked when the secret is needed, and its answer kept for a while.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::child::{Child, Start};
use super::find;
use super::stderr::Watch;
use super::template::Invocation;
use super::tracker::ChildTracker;
use crate::failure::Failure;
use crate::settings::{Escape, Placeholders, SecretCommand, Surroundings, Template, redact};

/// The longest secret.
const MOST_BYTES: usize = 64 << 10;

/// How many answers are kept at once.
const MOST_KEPT: usize = 4096;

pub(crate) struct SecretProgram<J: Placeholders> {
    words: Vec<Template<J>>,
    ttl: Duration,
    timeout: Duration,
    directory: Option<PathBuf>,
    around: Surroundings,
    /// Answers by what was asked for. Locked while the program runs, so that however many need a secret, it runs once.
    kept: Mutex<BTreeMap<Vec<String>, Slot>>,
}

type Slot = Arc<tokio::sync::Mutex<Option<Answer>>>;

struct Answer {
    until: Instant,
    text: String,
}

impl<J: Placeholders> SecretProgram<J> {
    pub(crate) fn new(settings: &SecretCommand, around: &Surroundings) -> Result<Self, String> {
        if settings.command.first().is_none_or(String::is_empty) {
            return Err("command names no program; write it and its arguments".to_owned());
        }
        if settings.timeout.is_zero() {
            return Err("timeout 0 is too little; no program could answer".to_owned());
        }
        Ok(Self {
            words: settings.command.iter().map(|word| Template::parse(word)).collect::<Result<_, _>>()?,
            ttl: settings.ttl,
            timeout: settings.timeout,
            directory: settings.directory.clone(),
            around: around.clone(),
            kept: Mutex::default(),
        })
    }

    /// The program and its arguments for one piece of work.
    pub(crate) fn words(&self, job: &J) -> Vec<String> {
        self.words.iter().map(|word| word.render(job, Escape::Plain)).collect()
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.words.iter().all(|word| word.fixed().is_some())
    }

    /// Why it cannot be started here.
    pub(crate) fn missing(&self) -> Option<String> {
        let name = self.words.first()?.fixed()?;
        find::missing(name, self.directory.as_deref(), &self.around.variables)
    }

    /// The secret: kept from the last time, or asked for now.
    pub(crate) async fn ask(&self, job: &J) -> Result<String, Failure> {
        let words = self.words(job);
        let slot = self.slot(&words);
        let mut kept = slot.lock().await;
        if let Some(answer) = kept.as_ref().filter(|answer| Instant::now() < answer.until) {
            return Ok(answer.text.clone());
        }
        let text = self.run(words).await?;
        *kept = Some(Answer { until: Instant::now() + self.ttl, text: text.clone() });
        Ok(text)
    }

    fn slot(&self, words: &[String]) -> Slot {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST_KEPT && !kept.contains_key(words) {
            kept.pop_first();
        }
        Arc::clone(kept.entry(words.to_vec()).or_default())
    }

    async fn run(&self, words: Vec<String>) -> Result<String, Failure> {
        let mut words = words.into_iter();
        let name = words.next().unwrap_or_default();
        let setup = |why: String| Failure::retryable(format!("cannot read a secret: {why}")).of_setup();
        let invocation = Invocation {
            name: name.clone(),
            arguments: words.collect(),
            directory: self.directory.clone(),
            env: Vec::new(),
            reaper: self.around.reaper.clone(),
        };
        let tracker = ChildTracker::default();
        // Nothing of its stderr is logged as it comes: what is secret in it is not known yet.
        let watch = Watch { is_silent: true, ..Watch::default() };
        let start = Start { watch, ..Start::new(&tracker, MOST_BYTES) };
        let child = invocation.start(start).map_err(|failure| setup(failure.message))?;
        match tokio::time::timeout(self.timeout, printed(child)).await {
            Ok(printed) => printed.map_err(setup),
            Err(_) => Err(setup(format!("{name} has not answered within {} s", self.timeout.as_secs_f64()))),
        }
    }
}

/// All that the program prints, without the line's end.
async fn printed(mut child: Child) -> Result<String, String> {
    let too_much = || format!("a program printed more than {} KiB", MOST_BYTES >> 10);
    let mut all = Vec::new();
    while let Some(block) = child.block().await.map_err(|_| too_much())? {
        all.extend_from_slice(block);
        if all.len() > MOST_BYTES {
            return Err(too_much());
        }
    }
    let end = child.finish().await.map_err(|failure| failure.message)?;
    let text = String::from_utf8_lossy(&all).trim_end_matches(['\r', '\n']).to_owned();
    if !end.is_success() {
        return Err(redact(&end.describe(), &[text]));
    }
    if text.is_empty() { Err(end.with("it printed nothing")) } else { Ok(text) }
}

impl<J: Placeholders> fmt::Debug for SecretProgram<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretProgram(…)")
    }
}
