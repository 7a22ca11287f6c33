//! Every partition that was asked for is there once, has one truth, and counts its verdicts; its attempts follow one another.

use std::collections::{BTreeMap, BTreeSet};

use super::{Row, Subject, number, sink, text};
use crate::table::Finding;
use crate::workloads::{Key, Workload};

const PARTITIONS: &str = "
    SELECT s.source, s.customer_id, s.query_name, p.period, p.status, p.current_run_id, p.record_count, p.attempt_count,
        p.error_class, p.error_message
    FROM partitions p
    JOIN series s ON s.series_id = p.series_id";
const ATTEMPTS: &str = "
    SELECT s.source, s.customer_id, s.query_name, r.period, r.run_id, r.task_id, r.state, r.verdict, r.started_at,
        r.completed_at, r.ended_by
    FROM runs r
    JOIN series s ON s.series_id = r.series_id
    WHERE r.workload = 'extract'
    ORDER BY r.run_id";

pub struct Attempt {
    pub run_id: String,
    pub task_id: String,
    state: String,
    pub verdict: Option<String>,
    started_at: i64,
    completed_at: i64,
    ended_by: String,
}

pub struct Partition {
    pub key: Key,
    status: String,
    pub current_run_id: Option<String>,
    pub record_count: Option<i64>,
    attempt_count: i64,
    has_error: bool,
    pub attempts: Vec<Attempt>,
}

pub fn check(subject: &mut Subject<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let partitions = read(subject, &mut findings);
    let keys: BTreeSet<&Key> = partitions.keys().collect();
    for key in subject.expected.partitions.iter().filter(|key| !keys.contains(key)) {
        findings.push(Finding::of(Workload::Extract, format!("{key:?} was asked for and is not there")));
    }
    for key in keys.iter().filter(|key| !subject.expected.partitions.contains(**key)) {
        findings.push(Finding::of(Workload::Extract, format!("nobody has asked for {key:?}")));
    }
    let mut objections: Vec<String> = Vec::new();
    for partition in partitions.values() {
        objections.extend(partition.objections());
        if subject.is_time_steady {
            objections.extend(partition.overlaps(subject.clock_error));
        }
    }
    objections.extend(sink::objections(&subject.folder.join("raw"), &partitions));
    findings.extend(objections.into_iter().map(|what| Finding::of(Workload::Extract, what)));
    findings
}

fn key(row: &Row) -> Key {
    let (source, customer, query) = (text(row, 0).to_owned(), text(row, 1).to_owned(), text(row, 2).to_owned());
    // 2026-01-01 is day 20,454 of the count; a campaign asks for days of that month.
    (source, customer, query, format!("2026-01-{:02}", number(row, 3) - 20_453))
}

fn read(subject: &mut Subject<'_>, findings: &mut Vec<Finding>) -> BTreeMap<Key, Partition> {
    let mut partitions = BTreeMap::new();
    for row in subject.reader.rows(PARTITIONS) {
        let partition = Partition {
            key: key(&row),
            status: text(&row, 4).to_owned(),
            current_run_id: row[5].clone(),
            record_count: row[6].as_ref().and_then(|count| count.parse().ok()),
            attempt_count: number(&row, 7),
            has_error: row[8].is_some() && row[9].is_some(),
            attempts: Vec::new(),
        };
        if let Some(twice) = partitions.insert(partition.key.clone(), partition) {
            findings.push(Finding::of(Workload::Extract, format!("{:?} is there twice", twice.key)));
        }
    }
    for row in subject.reader.rows(ATTEMPTS) {
        let attempt = Attempt {
            run_id: text(&row, 4).to_owned(),
            task_id: text(&row, 5).to_owned(),
            state: text(&row, 6).to_owned(),
            verdict: row[7].clone(),
            started_at: number(&row, 8),
            completed_at: number(&row, 9),
            ended_by: text(&row, 10).to_owned(),
        };
        match partitions.get_mut(&key(&row)) {
            Some(partition) => partition.attempts.push(attempt),
            None => findings.push(Finding::of(Workload::Extract, format!("{} is of no partition", attempt.run_id))),
        }
    }
    partitions
}

impl Partition {
    fn objections(&self) -> Vec<String> {
        let mut objections = Vec::new();
        let mut object = |what: String| objections.push(format!("{:?}: {what}", self.key));
        let verdicts: Vec<&Attempt> = self.attempts.iter().filter(|attempt| attempt.verdict.is_some()).collect();
        if self.attempt_count != i64::try_from(verdicts.len()).unwrap() {
            object(format!("attempt_count is {}, and there are {} verdicts", self.attempt_count, verdicts.len()));
        }
        let accepted = verdicts.iter().rev().find(|attempt| attempt.verdict.as_deref() == Some("passed"));
        if self.current_run_id.as_ref() != accepted.map(|attempt| &attempt.run_id) {
            object(format!("current_run_id {:?} is not the run that was accepted last", self.current_run_id));
        }
        let last = verdicts.last().and_then(|attempt| attempt.verdict.as_deref());
        let is_true = match self.status.as_str() {
            "success" => self.current_run_id.is_some() && !self.has_error,
            "failed" => last == Some("failed") && self.has_error,
            _ => false,
        };
        if !is_true {
            object(format!("its status is {} after the verdict {last:?}", self.status));
        }
        for attempt in &self.attempts {
            if attempt.state != "done" && attempt.state != "dead" {
                object(format!("{} is left {}", attempt.run_id, attempt.state));
            }
            let is_judged = matches!(attempt.ended_by.as_str(), "completed" | "failed" | "abandoned");
            if is_judged != attempt.verdict.is_some() {
                object(format!("{} ended as {} with verdict {:?}", attempt.run_id, attempt.ended_by, attempt.verdict));
            }
        }
        objections
    }

    /// Attempts that began before the one before them had ended, by more than clocks may be apart.
    fn overlaps(&self, clock_error: i64) -> Vec<String> {
        let pairs =
            self.attempts.windows(2).map(|pair| (&pair[0], &pair[1], pair[0].completed_at - pair[1].started_at));
        let overlaps = pairs.filter(|(_, _, micros)| *micros > clock_error);
        overlaps
            .map(|(first, second, micros)| {
                format!("{:?}: {} began {micros} us before {} had ended", self.key, second.run_id, first.run_id)
            })
            .collect()
    }
}
