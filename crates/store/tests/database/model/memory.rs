//! The model: what is stored, moved by nothing but `core::apply`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use redrive_core::id::{RunId, TaskId};
use redrive_core::key::{CustomerId, PartitionKey, Source};
use redrive_core::partition::{self, ControlEvent, ControlSnapshot, DataEvent, InFlight, Judgement, Partition};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::{self, End, Event, FailureRecord, Fault, Run, State, Verdict, Work};
use redrive_core::time::Timestamp;
use redrive_store::{Outcome, Recorded};

use super::answer::{Answer, forged, run_id, task_id};
use super::op::{Op, Pick, Shown, Wish};
use crate::support::{LEASE, START};

pub type Checked<T> = Result<T, TestCaseError>;

#[derive(Debug)]
pub struct Memory {
    pub now: Timestamp,
    pub partitions: BTreeMap<PartitionKey, Partition>,
    pub runs: Vec<Run>,
    /// Each run as its last claim gave it out.
    pub claimed: BTreeMap<RunId, Run>,
    pub failures: Vec<(RunId, u32, FailureRecord)>,
    pub cooldowns: BTreeMap<(Source, Option<CustomerId>), Timestamp>,
    /// How many rows the audit has.
    pub audited: i64,
    claims: usize,
    /// Which run an external id has made, by category.
    pub(super) named: BTreeMap<(&'static str, &'static str), usize>,
    undo: BTreeMap<PartitionKey, (ControlSnapshot, u64)>,
    pub(super) policy: RetryPolicy,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            now: START,
            partitions: BTreeMap::new(),
            runs: vec![],
            claimed: BTreeMap::new(),
            failures: vec![],
            cooldowns: BTreeMap::new(),
            audited: 0,
            claims: 0,
            named: BTreeMap::new(),
            undo: BTreeMap::new(),
            policy: policy(),
        }
    }
}

impl Memory {
    pub fn partitions(&self) -> Vec<Partition> {
        self.partitions.values().cloned().collect()
    }

    pub fn policy(&self) -> &RetryPolicy {
        &self.policy
    }

    /// Which run is meant, of the partitions' or of the others; none where there is none such.
    pub fn pick(&self, pick: &Pick, extract: bool) -> Option<usize> {
        let fits = |run: &Run| run.key().is_some() == extract && (!pick.running || run.state == State::Running);
        let fitting: Vec<usize> = (0..self.runs.len()).filter(|&nth| fits(&self.runs[nth])).collect();
        (!fitting.is_empty()).then(|| *pick.nth.get(&fitting))
    }

    /// Which runs are meant, each once.
    pub fn pick_all(&self, picks: &[Pick], meant: impl Fn(&Self, &Pick) -> Option<usize>) -> Vec<usize> {
        let mut met = BTreeSet::new();
        picks.iter().filter_map(|pick| meant(self, pick)).filter(|nth| met.insert(*nth)).collect()
    }

    /// A job, where there is one.
    pub fn pick_either(&self, pick: &Pick) -> Option<usize> {
        self.pick(pick, false).or_else(|| self.pick(pick, true))
    }

    /// What a wish asks for; none where there is nothing to undo.
    pub fn event<'a>(&'a self, key: &PartitionKey, wish: &Wish) -> Option<ControlEvent<'a>> {
        let policy = &self.policy;
        Some(match wish {
            Wish::Retry { clear_terminal, stale, grant } => {
                ControlEvent::Retry { policy, clear_terminal: *clear_terminal, stale: *stale, grant: *grant }
            }
            Wish::Reprocess => ControlEvent::Reprocess,
            Wish::Withdraw => ControlEvent::Withdraw,
            Wish::Backfill { force_pending } => ControlEvent::Backfill { policy, force_pending: *force_pending },
            Wish::Mark { threshold } => {
                ControlEvent::MarkTerminal { by: "ada", why: Some("hopeless"), threshold: *threshold }
            }
            Wish::Clear => ControlEvent::ClearTerminal,
            Wish::Pause => ControlEvent::Pause { by: "bob", why: None },
            Wish::Resume => ControlEvent::Resume,
            Wish::Undo => {
                let (to, from_version) = self.undo.get(key)?;
                ControlEvent::Revert { to, from_version: *from_version }
            }
        })
    }

    /// The copy of a run that its worker shows.
    pub fn shown(&self, nth: usize, shown: Shown) -> Option<Run> {
        match shown {
            Shown::AsItIs => Some(self.runs[nth].clone()),
            Shown::AsClaimed => self.claimed.get(&run_id(nth)).cloned(),
            Shown::Forged => Some(Run { task_id: Some(forged()), ..self.runs[nth].clone() }),
        }
    }

    /// Applies an operation; a claim takes the choice that was made, if it was allowed.
    pub fn apply(&mut self, op: &Op, chosen: &Answer) -> Checked<Answer> {
        Ok(match op {
            Op::Wait { micros } => {
                self.now = self.now.saturating_add(Duration::from_micros(*micros));
                Answer::Nothing
            }
            Op::Enqueue(wanted) => self.enqueue(wanted),
            Op::Ask { key, wish, overtaken } => self.ask(key, wish, *overtaken),
            Op::Cool { source, customer, seconds } => {
                let until = self.now.saturating_add(Duration::from_secs(*seconds));
                let held = self.cooldowns.entry((source.clone(), customer.clone())).or_insert(until);
                *held = until.max(*held);
                Answer::Nothing
            }
            Op::Claim { limit, sources, most } => {
                let Answer::Claimed(chosen) = chosen else { return Err(TestCaseError::fail("not a claim")) };
                let keys: Vec<_> = chosen.iter().map(|(partition, _)| partition.state.key.clone()).collect();
                self.check_claim(&keys, *limit, sources.as_deref(), *most)?;
                self.claim(&keys)?
            }
            Op::Judge { pick, forged, judgement } => self.end(pick, *forged, |attempt| {
                let report = match judgement {
                    Judgement::Accepted { .. } => End::Completed { verdict: Verdict::Passed, metrics: None },
                    Judgement::Rejected { class, message, .. } => End::Failed {
                        fault: Fault { class: *class, message: message.clone(), trace: None, retry_after: None },
                        metrics: None,
                        policy: policy(),
                    },
                };
                (report, DataEvent::Judged(attempt, judgement.clone()))
            }),
            Op::Release { pick, forged } => {
                self.end(pick, *forged, |attempt| (End::Released { why: None }, DataEvent::Released(attempt)))
            }
            Op::Beat { picks, forged: wrong, seconds } => self.beat(picks, *wrong, *seconds),
            Op::Expire => self.expire(),
            Op::Submit { category, external_id, submitted_at } => self.submit(category, *external_id, *submitted_at),
            Op::SubmitMany { category, jobs, submitted_at } => {
                for submitted_at in one_after_another(*jobs, *submitted_at) {
                    self.submit(category, None, submitted_at);
                }
                Answer::Nothing
            }
            Op::ClaimJobs { limit, categories } => {
                let Answer::Jobs(chosen) = chosen else { return Err(TestCaseError::fail("not a claim of jobs")) };
                self.claim_jobs(*limit, categories.as_deref(), chosen)?
            }
            Op::Record { picks, shown, report } => self.record_all(picks, *shown, report),
            Op::Cancel(pick) => self.move_run(pick, Event::Cancelled { by: "ada".to_owned() }),
            Op::RetryRun(pick) => self.move_run(pick, Event::RetryRequested),
        })
    }

    fn enqueue(&mut self, wanted: &[(PartitionKey, redrive_core::lane::Lane)]) -> Answer {
        let mut new = Vec::new();
        for (key, lane) in wanted {
            new.push(!self.partitions.contains_key(key));
            self.partitions.entry(key.clone()).or_insert_with(|| Partition::new(key.clone(), *lane, self.now));
        }
        let made = i64::try_from(new.iter().filter(|new| **new).count()).unwrap();
        self.audited += if made > 0 { made + 1 } else { 0 };
        Answer::Flags(new)
    }

    fn ask(&mut self, key: &PartitionKey, wish: &Wish, overtaken: bool) -> Answer {
        let Some(now) = self.partitions.get(key).cloned() else { return Answer::Nothing };
        let Some(event) = self.event(key, wish) else { return Answer::Nothing };
        let mut read = now.clone();
        let overtaken = overtaken && read.state.version > 1;
        read.state.version -= u64::from(overtaken);
        let outcome = match partition::apply(&read, partition::Event::Control(event), self.now) {
            Err(refused) => Outcome::Refused(refused),
            Ok(_) if overtaken => Outcome::Overtaken(Box::new(now)),
            Ok(change) => {
                self.undo.insert(key.clone(), (now.snapshot(), change.after.state.version));
                self.partitions.insert(key.clone(), change.after.clone());
                self.audited += 2;
                Outcome::Changed { before: now, after: change.after }
            }
        };
        Answer::Outcome(Box::new(outcome))
    }

    fn may_claim(&self, partition: &Partition, sources: Option<&[Source]>) -> bool {
        let key = &partition.state.key;
        let cooling = |customer: Option<CustomerId>| {
            self.cooldowns.get(&(key.source.clone(), customer)).is_some_and(|until| *until > self.now)
        };
        let attempt = InFlight { run_id: run_id(0), task_id: forged() };
        sources.is_none_or(|sources| sources.contains(&key.source))
            && !cooling(None)
            && !cooling(Some(key.customer_id.clone()))
            && partition::apply(partition, partition::Event::Data(DataEvent::Claimed(attempt)), self.now).is_ok()
    }

    fn check_claim(
        &self,
        chosen: &[PartitionKey],
        limit: u32,
        sources: Option<&[Source]>,
        most: Option<u32>,
    ) -> Checked<()> {
        prop_assert!(chosen.len() <= limit as usize);
        prop_assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), chosen.len());
        for key in chosen {
            prop_assert!(self.may_claim(&self.partitions[key], sources), "{} may not be claimed", key);
        }
        let first: Source = super::op::SOURCES[0].parse().unwrap();
        let active =
            self.partitions.values().filter(|p| p.control.active.is_some() && p.state.key.source == first).count();
        let more = chosen.iter().filter(|key| key.source == first).count();
        let room = most.map_or(usize::MAX, |most| (most as usize).saturating_sub(active));
        prop_assert!(more <= room, "{} are more than {:?} in flight", active + more, most);
        let open = self.partitions.values().filter(|p| self.may_claim(p, sources));
        let idle = open.filter(|p| p.state.key.source != first || room > 0).count();
        prop_assert!(!chosen.is_empty() || limit == 0 || idle == 0, "{} could be claimed and none was", idle);
        Ok(())
    }

    pub(super) fn next_task(&mut self) -> TaskId {
        self.claims += 1;
        task_id(self.claims)
    }

    fn claim(&mut self, keys: &[PartitionKey]) -> Checked<Answer> {
        let (task, mut claimed) = (self.next_task(), Vec::new());
        for key in keys {
            let attempt = InFlight { run_id: run_id(self.runs.len()), task_id: task };
            let event = partition::Event::Data(DataEvent::Claimed(attempt));
            let change = partition::apply(&self.partitions[key], event, self.now);
            let after = change.map_err(|refused| TestCaseError::fail(refused.to_string()))?.after;
            let run = begun(&after, attempt, self.now);
            self.partitions.insert(key.clone(), after.clone());
            self.claimed.insert(run.run_id, run.clone());
            self.runs.push(run.clone());
            claimed.push((after, run));
        }
        Ok(Answer::Claimed(claimed))
    }

    pub(super) fn write(&mut self, nth: usize, change: run::Change) -> Run {
        if let Some(failure) = change.failure {
            self.failures.push((run_id(nth), change.after.attempt, failure));
        }
        self.runs[nth] = change.after.clone();
        change.after
    }

    fn end(&mut self, pick: &Pick, wrong: bool, what: impl Fn(InFlight) -> (End, DataEvent)) -> Answer {
        let Some(nth) = self.pick(pick, true) else { return Answer::Nothing };
        let run = self.runs[nth].clone();
        let task_id = if wrong { forged() } else { run.task_id.unwrap() };
        let (report, data_event) = what(InFlight { run_id: run.run_id, task_id });
        let key = run.key().unwrap().clone();
        let changes = run::apply(&run, Event::Ended { task_id, end: report }, self.now).and_then(|run_change| {
            let event = partition::Event::Data(data_event);
            Ok((run_change, partition::apply(&self.partitions[&key], event, self.now)?))
        });
        Answer::Recorded(match changes {
            Err(refused) => Recorded::Refused(refused),
            Ok((run_change, change)) => {
                self.partitions.insert(key, change.after);
                Recorded::As(Box::new(self.write(nth, run_change)))
            }
        })
    }
}

/// When each of many jobs is submitted.
pub fn one_after_another(jobs: u32, first: Timestamp) -> impl Iterator<Item = Timestamp> {
    (0..jobs).map(move |nth| first.saturating_add(Duration::from_millis(u64::from(nth))))
}

/// Few attempts, so that short sequences reach the end of them; no jitter, which would follow from the real ids.
pub fn policy() -> RetryPolicy {
    RetryPolicy { max_attempts: Some(3), ..RetryPolicy::process() }
}

pub fn job(category: &str, external_id: Option<&str>) -> Work {
    Work::Process { category: category.to_owned(), external_id: external_id.map(str::to_owned) }
}

/// The run of an attempt that begins.
fn begun(partition: &Partition, attempt: InFlight, now: Timestamp) -> Run {
    let work = Work::Extract(partition.state.key.clone());
    let submitted_at = partition.control.wanted.unwrap().queued_at;
    Run {
        attempt: partition.state.attempt_count + 1,
        task_id: Some(attempt.task_id),
        worker: Some("w1".to_owned()),
        started_at: Some(now),
        last_heartbeat: Some(now),
        lease_until: Some(now.saturating_add(LEASE)),
        ..Run::new(attempt.run_id, work, State::Running, submitted_at)
    }
}
