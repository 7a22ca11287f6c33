//! The model's runs: what a heartbeat, an expired lease, a claim of jobs and a worker's report do to them.

use std::time::Duration;

use proptest::prelude::*;
use redrive_core::partition::{self, DataEvent, InFlight, Judgement};
use redrive_core::refusal::Refused;
use redrive_core::run::{self, End, Event, Fault, Run, State, Workload};
use redrive_core::time::Timestamp;
use redrive_store::Recorded;

use super::answer::{Answer, forged, run_id};
use super::memory::{Checked, Memory, job};
use super::op::{Pick, Shown};
use crate::support::LEASE;

impl Memory {
    pub(super) fn beat(&mut self, picks: &[Pick], wrong: bool, seconds: u64) -> Answer {
        let mut held = Vec::new();
        for nth in self.pick_all(picks, Self::pick_either) {
            let Some(task_id) = self.runs[nth].task_id else { continue };
            let task_id = if wrong { forged() } else { task_id };
            let beat = Event::Beat { task_id, lease_until: self.now.saturating_add(Duration::from_secs(seconds)) };
            let change = run::apply(&self.runs[nth], beat, self.now);
            held.push(change.map(|change| self.write(nth, change)).is_ok());
        }
        Answer::Flags(held)
    }

    pub(super) fn expire(&mut self) -> Answer {
        let mut ended = Vec::new();
        for nth in 0..self.runs.len() {
            let run = self.runs[nth].clone();
            let Ok(change) =
                run::apply(&run, Event::LeaseExpired { policy: self.policy.clone(), limit: None }, self.now)
            else {
                continue;
            };
            if let Some(key) = run.key().cloned() {
                let attempt = InFlight { run_id: run.run_id, task_id: run.task_id.unwrap() };
                let Fault { class, message, .. } = Fault::lease_expired();
                let judged = DataEvent::Judged(attempt, Judgement::Rejected { class, message, not_before: None });
                let after = partition::apply(&self.partitions[&key], partition::Event::Data(judged), self.now);
                self.partitions.insert(key, after.unwrap().after);
            }
            ended.push(self.write(nth, change));
        }
        Answer::Ended(ended)
    }

    pub(super) fn submit(
        &mut self,
        category: &'static str,
        external_id: Option<&'static str>,
        submitted_at: Timestamp,
    ) -> Answer {
        let run = self.runs.len();
        if let Some(id) = external_id {
            if let Some(&run) = self.named.get(&(category, id)) {
                return Answer::Submitted { run, existing: true };
            }
            self.named.insert((category, id), run);
        }
        let work = job(category, external_id);
        self.runs.push(Run::new(run_id(run), work, State::Queued, submitted_at));
        Answer::Submitted { run, existing: false }
    }

    pub(super) fn claim_jobs(&mut self, limit: u32, categories: Option<&[String]>, chosen: &[Run]) -> Checked<Answer> {
        for nth in 0..self.runs.len() {
            if self.runs[nth].workload() == Workload::Process
                && let Ok(change) = run::apply(&self.runs[nth], Event::Due, self.now)
            {
                self.write(nth, change);
            }
        }
        let allowed =
            |run: &&Run| categories.is_none_or(|all| all.iter().any(|allowed| allowed == run.work.category()));
        let open = self.runs.iter().filter(|run| run.workload() == Workload::Process && run.state == State::Queued);
        let mut oldest: Vec<_> = open.filter(allowed).map(|run| run.submitted_at).collect();
        oldest.sort();
        oldest.truncate(limit as usize);
        prop_assert_eq!(chosen.iter().map(|run| run.submitted_at).collect::<Vec<_>>(), oldest, "not the oldest");
        prop_assert!(chosen.iter().all(|run| allowed(&run)));
        let (task_id, mut claimed) = (self.next_task(), Vec::new());
        for run in chosen {
            let nth = self.runs.iter().position(|known| known.run_id == run.run_id).unwrap();
            let lease_until = self.now.saturating_add(LEASE);
            let event = Event::Claimed { task_id, worker: "w1".to_owned(), lease_until };
            let change = run::apply(&self.runs[nth], event, self.now);
            let run = self.write(nth, change.map_err(|refused| TestCaseError::fail(refused.to_string()))?);
            self.claimed.insert(run.run_id, run.clone());
            claimed.push(run);
        }
        Ok(Answer::Jobs(claimed))
    }

    pub(super) fn record_all(&mut self, picks: &[Pick], shown: Shown, report: &End) -> Answer {
        let picked = self.pick_all(picks, |memory, pick| memory.pick(pick, false));
        let copies: Vec<(usize, Run)> =
            picked.into_iter().filter_map(|nth| Some((nth, self.shown(nth, shown)?))).collect();
        if copies.iter().any(|(_, copy)| copy.task_id.is_none()) {
            return Answer::Unclaimed;
        }
        Answer::AllRecorded(copies.into_iter().map(|(nth, copy)| self.record(nth, copy, report)).collect())
    }

    fn record(&mut self, nth: usize, copy: Run, report: &End) -> Recorded {
        let task_id = copy.task_id.unwrap();
        let ended = |run: &Run| run::apply(run, Event::Ended { task_id, end: report.clone() }, self.now);
        let now = &self.runs[nth];
        let fits = |change: &run::Change| (now.state, now.task_id) == (change.expect_state, change.expect_task);
        let held = ended(&copy);
        if let Some(change) = held.clone().ok().filter(fits) {
            return Recorded::As(Box::new(self.write(nth, change)));
        }
        // Recorded before, by a call whose answer was lost?
        let told = |run: &Run| {
            (run.task_id, run.version, run.state, run.verdict, run.error_message.clone(), run.metrics.clone())
        };
        if ended(&Run { lease_until: None, ..copy }).is_ok_and(|change| told(&change.after) == told(now)) {
            return Recorded::As(Box::new(now.clone()));
        }
        match ended(now) {
            Ok(change) => Recorded::As(Box::new(self.write(nth, change))),
            Err(_) => held.err().map_or(Recorded::Lost, Recorded::Refused),
        }
    }

    pub(super) fn move_run(&mut self, pick: &Pick, event: Event) -> Answer {
        let Some(nth) = self.pick_either(pick) else { return Answer::Nothing };
        let change: Result<_, Refused> = run::apply(&self.runs[nth], event, self.now);
        self.audited += if change.is_ok() { 2 } else { 0 };
        Answer::Moved(change.map(|change| Box::new(self.write(nth, change))))
    }
}
