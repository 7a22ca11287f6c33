//! A real store that does what the model does, and tells it with the model's ids.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use proptest::prelude::*;
use redrive_core::id::{RunId, TaskId};
use redrive_core::partition::{InFlight, Partition};
use redrive_core::run::{ControlEvent as RunEvent, Run, State, Workload};
use redrive_store::{
    Cooldown, Error, HeartbeatAnswer, NewRun, Outcome, Page, PartitionClaim, Recorded, Rotation, RunChangeOutcome,
    RunClaim, RunPage, Verified,
};

use super::answer::{Answer, forged, run_id, task_id};
use super::memory::{Memory, job, one_after_another};
use super::op::{Op, Pick, SOURCES, Shown};
use crate::steps::{claim, job_claim};
use crate::support::{LEASE, TestStore};

pub struct Side {
    pub subject: TestStore,
    rotation: Rotation,
    /// The real id of the model's nth run.
    runs: Vec<RunId>,
    ordinals: HashMap<RunId, usize>,
    tasks: HashMap<TaskId, TaskId>,
    claims: usize,
    /// Each run as its last claim gave it out.
    claimed: HashMap<RunId, Run>,
}

impl Side {
    pub fn new(subject: TestStore) -> Self {
        Self {
            subject,
            rotation: Rotation::default(),
            runs: vec![],
            ordinals: HashMap::new(),
            tasks: HashMap::from([(forged(), forged())]),
            claims: 0,
            claimed: HashMap::new(),
        }
    }

    fn meet(&mut self, id: RunId) -> usize {
        *self.ordinals.entry(id).or_insert_with(|| {
            self.runs.push(id);
            self.runs.len() - 1
        })
    }

    fn meet_task(&mut self, task: Option<TaskId>) {
        self.claims += 1;
        if let Some(task) = task {
            assert!(self.tasks.insert(task, task_id(self.claims)).is_none(), "a fence was given out twice");
        }
    }

    fn run(&self, run: Run) -> Run {
        Run { run_id: run_id(self.ordinals[&run.run_id]), task_id: run.task_id.map(|task| self.tasks[&task]), ..run }
    }

    fn partition(&self, mut partition: Partition) -> Partition {
        let id = |real: RunId| run_id(self.ordinals[&real]);
        partition.state.current_run_id = partition.state.current_run_id.map(id);
        let active = partition.control.active;
        partition.control.active =
            active.map(|active| InFlight { run_id: id(active.run_id), task_id: self.tasks[&active.task_id] });
        partition
    }

    fn recorded(&self, recorded: Recorded) -> Recorded {
        match recorded {
            Recorded::As(run) => Recorded::As(Box::new(self.run(*run))),
            other @ (Recorded::Refused(_) | Recorded::Lost) => other,
        }
    }

    fn outcome(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Changed { before, after } => {
                Outcome::Changed { before: self.partition(before), after: self.partition(after) }
            }
            Outcome::Overtaken(now) => Outcome::Overtaken(Box::new(self.partition(*now))),
            Outcome::Refused(refused) => Outcome::Refused(refused),
        }
    }

    async fn current(&self, nth: usize) -> Run {
        self.subject.run(self.runs[nth]).await
    }

    pub async fn partitions(&self) -> Vec<Partition> {
        let page = Page { limit: 1000, ..Page::default() };
        let all = self.subject.store.view().partitions(page).await.unwrap();
        all.into_iter().map(|partition| self.partition(partition)).collect()
    }

    pub async fn runs(&self) -> Vec<Run> {
        let all = self.subject.store.view().runs(RunPage { limit: 1000, ..RunPage::default() }).await.unwrap();
        let mut all: Vec<_> = all.into_iter().map(|run| self.run(run)).collect();
        all.sort_by_key(|run| run.run_id);
        all
    }

    pub async fn apply(&mut self, op: &Op, memory: &Memory) -> Answer {
        let (control, data) = (self.subject.store.control(), self.subject.store.data());
        let policy = memory.policy().clone();
        match op {
            Op::Wait { micros } => {
                self.subject.clock.advance(Duration::from_micros(*micros));
                Answer::Nothing
            }
            Op::Enqueue(wanted) => {
                let wanted = wanted.iter().map(|(key, lane)| self.subject.wanted(key.clone(), *lane)).collect();
                let operation = self.subject.operation("state backfill enqueue");
                Answer::Flags(control.enqueue(&operation, wanted).await.unwrap())
            }
            Op::Ask { key, wish, overtaken } => {
                let Some(mut read) = control.view().partition(key).await.unwrap() else { return Answer::Nothing };
                let Some(event) = memory.event(key, wish) else { return Answer::Nothing };
                read.state.version -= u64::from(*overtaken && read.state.version > 1);
                let outcome = self.subject.put(read.clone(), event).await;
                Answer::Outcome(Box::new(self.outcome(outcome)))
            }
            Op::Cool { source, customer, seconds } => {
                let until = self.subject.now().saturating_add(Duration::from_secs(*seconds));
                let cooldown = Cooldown { source: source.clone(), customer_id: customer.clone(), until, why: None };
                data.cool_down(cooldown).await.unwrap();
                Answer::Nothing
            }
            Op::Claim { limit, sources, most } => {
                let max_in_flight: BTreeMap<_, _> =
                    most.map(|most| (SOURCES[0].parse().unwrap(), most)).into_iter().collect();
                let rotation = self.rotation.clone();
                let asked = PartitionClaim { sources: sources.clone(), max_in_flight, rotation, ..claim(*limit) };
                let (claimed, rotation) = data.claim_partitions(asked).await.unwrap();
                self.rotation = rotation;
                self.meet_task(claimed.first().and_then(|claimed| claimed.run.task_id));
                for claimed in &claimed {
                    self.meet(claimed.run.run_id);
                    self.claimed.insert(claimed.run.run_id, claimed.run.clone());
                }
                let told = |claimed: redrive_store::ClaimedPartition| {
                    (self.partition(claimed.partition), self.run(claimed.run))
                };
                Answer::Claimed(claimed.into_iter().map(told).collect())
            }
            Op::Judge { pick, forged, judgement } => {
                let Some(run) = self.attempt(pick, *forged, memory).await else { return Answer::Nothing };
                Answer::Recorded(
                    self.recorded(self.subject.store.verdicts().judge(&run, judgement.clone(), None).await.unwrap()),
                )
            }
            Op::Release { pick, forged } => {
                let Some(run) = self.attempt(pick, *forged, memory).await else { return Answer::Nothing };
                Answer::Recorded(self.recorded(data.release(&run, None).await.unwrap()))
            }
            Op::Beat { picks, forged: wrong, seconds } => {
                let mut held = Vec::new();
                for nth in memory.pick_all(picks, Memory::pick_either) {
                    let run = self.current(nth).await;
                    held.extend(run.task_id.map(|task| (run.run_id, if *wrong { forged() } else { task })));
                }
                let beat = data.beat(held, Duration::from_secs(*seconds)).await.unwrap();
                Answer::Flags(beat.answers.into_iter().map(|answer| answer == HeartbeatAnswer::Held).collect())
            }
            Op::Expire => {
                let mut ended = Vec::new();
                for &workload in Workload::ALL {
                    let policy = policy.clone();
                    let some = data.expire(workload, 1000, move |_| policy.clone()).await.unwrap();
                    ended.extend(some.into_iter().map(|run| self.run(run)));
                }
                ended.sort_by_key(|run| run.run_id);
                Answer::Ended(ended)
            }
            Op::Submit { category, external_id, submitted_at } => {
                let job = NewRun::new(job(category, *external_id), None, *submitted_at);
                let submitted = control.submit(vec![job]).await.unwrap()[0];
                Answer::Submitted { run: self.meet(submitted.run_id), existing: submitted.existing }
            }
            Op::SubmitMany { category, jobs, submitted_at } => {
                let jobs = one_after_another(*jobs, *submitted_at).map(|at| NewRun::job(*category, None, at));
                for submitted in control.submit(jobs.collect()).await.unwrap() {
                    self.meet(submitted.run_id);
                }
                Answer::Nothing
            }
            Op::ClaimJobs { limit, categories } => {
                let asked = RunClaim { categories: categories.clone(), lease: LEASE, ..job_claim(*limit) };
                let claimed = data.claim_runs(asked).await.unwrap();
                self.meet_task(claimed.first().and_then(|claimed| claimed.run.task_id));
                for claimed in &claimed {
                    self.claimed.insert(claimed.run.run_id, claimed.run.clone());
                }
                Answer::Jobs(claimed.into_iter().map(|claimed| self.run(claimed.run)).collect())
            }
            Op::Record { picks, shown, report } => {
                let mut ends = Vec::new();
                for nth in memory.pick_all(picks, |memory, pick| memory.pick(pick, false)) {
                    let copy = match shown {
                        Shown::AsItIs => Some(self.current(nth).await),
                        Shown::AsClaimed => self.claimed.get(&self.runs[nth]).cloned(),
                        Shown::Forged => Some(Run { task_id: Some(forged()), ..self.current(nth).await }),
                    };
                    ends.extend(copy.map(|copy| (copy, report.clone())));
                }
                match data.record(ends).await {
                    Ok(recorded) => Answer::AllRecorded(recorded.into_iter().map(|it| self.recorded(it)).collect()),
                    Err(Error::Absent { .. }) => Answer::Unclaimed,
                    Err(error) => panic!("{error}"),
                }
            }
            Op::Cancel(pick) => self.moved(pick, memory, RunEvent::Cancel { by: "ada".to_owned() }).await,
            Op::RetryRun(pick) => self.moved(pick, memory, RunEvent::Retry).await,
        }
    }

    /// The attempt that is meant, as a worker knows it.
    async fn attempt(&self, pick: &Pick, wrong: bool, memory: &Memory) -> Option<Run> {
        let run = self.current(memory.pick(pick, true)?).await;
        Some(if wrong { Run { task_id: Some(forged()), ..run } } else { run })
    }

    async fn moved(&self, pick: &Pick, memory: &Memory, event: RunEvent) -> Answer {
        let Some(nth) = memory.pick_either(pick) else { return Answer::Nothing };
        match self.subject.ask_run(self.runs[nth], event).await {
            RunChangeOutcome::Changed { after, .. } => Answer::Moved(Ok(Box::new(self.run(after)))),
            RunChangeOutcome::Refused(refused) => Answer::Moved(Err(refused)),
            RunChangeOutcome::Overtaken(_) => panic!("nobody else is there"),
        }
    }

    /// Everything else that can be seen: failures, attempts, cooldowns, counts, the audit.
    pub async fn compare_the_rest(&self, memory: &Memory) -> Result<(), TestCaseError> {
        let view = self.subject.store.view();
        for (nth, real) in self.runs.iter().enumerate() {
            let stored = view.run_failures(*real).await.unwrap();
            let stored: Vec<_> =
                stored.into_iter().map(|failure| (run_id(nth), failure.attempt, failure.record)).collect();
            let expected = memory.failures.iter().filter(|(id, ..)| *id == run_id(nth)).cloned().collect::<Vec<_>>();
            prop_assert_eq!(stored, expected);
        }
        for partition in memory.partitions() {
            let attempts = view.attempts(&partition.state.key).await.unwrap();
            let attempts: Vec<_> = attempts.into_iter().map(|run| self.run(run)).collect();
            let key = Some(&partition.state.key);
            let expected: Vec<_> = memory.runs.iter().filter(|run| run.key() == key).cloned().collect();
            prop_assert_eq!(attempts, expected);
        }
        let cooling = view.holds().await.unwrap();
        let cooling: Vec<_> = cooling
            .into_iter()
            .map(|held| ((held.scope.source().clone(), held.scope.customer_id().cloned()), held.until.unwrap()))
            .collect();
        let expected: Vec<_> = memory.cooldowns.clone().into_iter().filter(|(_, until)| *until > memory.now).collect();
        prop_assert_eq!(cooling, expected);
        prop_assert!(matches!(view.verify_audit().await.unwrap(), Verified::Whole(head) if head.seq == memory.audited));
        self.compare_counts(memory).await
    }

    async fn compare_counts(&self, memory: &Memory) -> Result<(), TestCaseError> {
        let view = self.subject.store.view();
        for &workload in Workload::ALL {
            let metrics = view.run_metrics(workload, 0).await.unwrap();
            let mine: Vec<_> = memory.runs.iter().filter(|run| run.workload() == workload).collect();
            for &state in State::ALL {
                let stored = metrics.by_state.iter().find(|(known, _)| *known == state).map_or(0, |(_, count)| *count);
                prop_assert_eq!(stored, mine.iter().filter(|run| run.state == state).count() as u64);
            }
            let retries: Vec<_> =
                mine.iter().filter(|run| run.attempt > 1).map(|run| u64::from(run.attempt) - 1).collect();
            prop_assert_eq!(metrics.retried_runs, retries.len() as u64);
            prop_assert_eq!(metrics.total_retries, retries.iter().sum::<u64>());
            prop_assert_eq!(metrics.max_retries, retries.into_iter().max().unwrap_or(0));
        }
        Ok(())
    }
}
