//! The breaker as it is kept: streaks of failures, and what a verdict does to them and to holds, in its own transaction.
//! What a streak means is `redrive_core::breaker`'s.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::breaker::{BreakerPolicy, Streak, StreakVerdict};
use redrive_core::fingerprint::GroupId;
use redrive_core::hold::{Cause, Hold, HoldKind, HoldScope, Probing, SOURCE_UNUSABLE, Trip};
use redrive_core::id::RunId;
use redrive_core::key::{CustomerId, PartitionKey, Source};
use redrive_core::notice::Notice;
use redrive_core::time::Timestamp;
use serde_json::json;

use super::change::{HoldChange, record};
use super::row::{in_force, of_source_locked, put, remove};
use crate::audit::Operation;
use crate::db::{Batch, Column, Effect, Kind, Lookup, Sql, Tx};
use crate::error::Result;
use crate::handles::{DataStore, transact};
use crate::ids::Ids;
use crate::notifications;

/// "breaker", as the advisory lock under which streaks move.
const BREAKER: i64 = 0x6272_6561_6b65;

/// A verdict, as it counts for the breaker.
#[derive(Debug)]
pub(crate) struct NotedVerdict<'a> {
    pub(crate) key: &'a PartitionKey,
    pub(crate) run_id: RunId,
    pub(crate) worker: &'a str,
    pub(crate) policy: BreakerPolicy,
    pub(crate) answer: StreakVerdict,
    /// What the attempt said, where it was rejected.
    pub(crate) message: &'a str,
}

/// A source, or a customer of it, as streaks are kept by; no customer stands for all of them.
type StreakScope<'a> = (&'a str, &'a str);

const SCOPE: [(&str, Kind); 2] = [("source", Kind::Text), ("customer_id", Kind::Text)];

static STREAKS: Lookup = Lookup::new(
    "/* breaker::streaks */
     SELECT finals, error_group, alike
     FROM streaks
     WHERE source = @source AND customer_id = @customer_id",
    &SCOPE,
);

static PUT: Batch = Batch::new(
    "/* breaker::put */
     INSERT INTO streaks ({columns})
     {values}
     ON CONFLICT (source, customer_id) DO UPDATE
     SET finals = excluded.finals, error_group = excluded.error_group, alike = excluded.alike",
    &[SCOPE[0], SCOPE[1], ("finals", Kind::Int), ("error_group", Kind::Int), ("alike", Kind::Int)],
    Effect::All,
);

static END: Batch = Batch::new(
    "/* breaker::end */
     DELETE FROM streaks
     {using}
     WHERE streaks.source = @source AND streaks.customer_id = @customer_id",
    &SCOPE,
    Effect::All,
);

static FORGET: Sql = Sql::new(
    "/* breaker::forget */
     DELETE FROM streaks
     WHERE source = ?1",
);

static LONG: Sql = Sql::new(
    "/* breaker::long */
     SELECT source, customer_id, finals, error_group, alike
     FROM streaks
     WHERE finals >= CAST(?1 AS BIGINT) OR alike >= CAST(?1 AS BIGINT)",
);

fn streak(finals: i64, group: Option<i64>, alike: i64) -> Streak {
    let count = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
    let group = group.and_then(GroupId::from_number);
    Streak { finals: count(finals), alike: group.map(|group| (group, count(alike))) }
}

fn scope_columns<'a>(scopes: &'a [StreakScope<'a>]) -> [Column<'a>; 2] {
    [Column::texts(scopes, |scope| Some(scope.0)), Column::texts(scopes, |scope| Some(scope.1))]
}

async fn streaks<'a>(tx: &mut Tx<'_>, scopes: &[StreakScope<'a>]) -> Result<BTreeMap<StreakScope<'a>, Streak>> {
    let found = tx
        .lookup(&STREAKS, &scope_columns(scopes), |mut row| Ok(streak(row.int()?, row.opt_int()?, row.int()?)))
        .await?;
    Ok(found.into_iter().map(|(nth, streak)| (scopes[nth], streak)).collect())
}

/// Forgets the streaks of a source and its customers: a person said that it may go on.
pub(super) async fn forget(tx: &mut Tx<'_>, source: &Source) -> Result<()> {
    tx.execute(&FORGET, &[source.as_str().into()]).await.map(drop)
}

/// The scopes whose verdicts fail alike for so long that no more may be under way than could complete the streak.
pub(crate) async fn careful(
    tx: &mut Tx<'_>,
    policies: &BTreeMap<Source, BreakerPolicy>,
) -> Result<Vec<(HoldScope, u32)>> {
    let Some(from) = policies.values().filter_map(BreakerPolicy::careful_from).min() else { return Ok(vec![]) };
    let long = tx
        .rows(&LONG, &[i64::from(from).into()], |row| {
            let mut row = row.cursor();
            Ok((row.text()?, row.text()?, streak(row.int()?, row.opt_int()?, row.int()?)))
        })
        .await?;
    let mut careful = Vec::new();
    for (source, customer, streak) in long {
        let bad = |error| crate::error::Error::row("streaks", error);
        let source: Source = source.try_into().map_err(bad)?;
        let customer: Option<CustomerId> =
            if customer.is_empty() { None } else { Some(customer.try_into().map_err(bad)?) };
        if let Some(limit) = policies.get(&source).and_then(|policy| policy.at_most(&streak)) {
            careful.push((HoldScope::new(source, customer), limit));
        }
    }
    Ok(careful)
}

/// What verdicts do to streaks and to the breaker's holds.
pub(crate) async fn note(tx: &mut Tx<'_>, ids: &Ids, verdicts: &[NotedVerdict<'_>], now: Timestamp) -> Result<()> {
    let scopes = verdicts.iter().flat_map(|verdict| {
        let (source, customer) = (verdict.key.source.as_str(), verdict.key.customer_id.as_str());
        [(source, ""), (source, customer)]
    });
    let scopes: Vec<StreakScope<'_>> = scopes.collect::<BTreeSet<_>>().into_iter().collect();
    let adds = |verdict: &NotedVerdict<'_>| match verdict.answer {
        StreakVerdict::Accepted | StreakVerdict::Abandoned => false,
        StreakVerdict::Rejected { .. } => verdict.policy.after > 0,
    };
    // The lock is kept until the commit is durable, and verdicts of every source would wait for it.
    if !verdicts.iter().any(adds) && streaks(tx, &scopes).await?.is_empty() {
        let is_canary = |hold: &Hold| verdicts.iter().any(|verdict| hold.sent(verdict.run_id));
        if !breakers(tx, now).await?.iter().any(is_canary) {
            return Ok(());
        }
    }
    exclusive(tx).await?;
    let kept = streaks(tx, &scopes).await?;
    let mut noting = Noting { tx, ids, now, streaks: kept.clone(), kept, holds: vec![] };
    noting.holds = breakers(noting.tx, now).await?;
    for verdict in verdicts {
        noting.canary(verdict).await?;
        noting.count(verdict).await?;
    }
    let Noting { streaks, kept, .. } = noting;
    write(tx, &kept, &streaks).await
}

/// Lets only one transaction at a time move streaks and the breaker's holds. Two that both add to a streak must not both be the one before
/// the last, and a hold that a person lifts must not be written again by a verdict that has read it before.
pub(super) async fn exclusive(tx: &mut Tx<'_>) -> Result<()> {
    tx.exclusive(BREAKER).await
}

async fn breakers(tx: &mut Tx<'_>, now: Timestamp) -> Result<Vec<Hold>> {
    let mut holds = in_force(tx, now).await?;
    holds.retain(|hold| hold.kind() == HoldKind::Breaker);
    Ok(holds)
}

async fn write(
    tx: &mut Tx<'_>,
    before: &BTreeMap<StreakScope<'_>, Streak>,
    after: &BTreeMap<StreakScope<'_>, Streak>,
) -> Result<()> {
    let moved: Vec<(StreakScope<'_>, Streak)> = after
        .iter()
        .filter(|(scope, streak)| before.get(*scope).copied().unwrap_or_default() != **streak)
        .map(|(scope, streak)| (*scope, *streak))
        .collect();
    let (ended, grown): (Vec<_>, Vec<_>) = moved.into_iter().partition(|(_, streak)| *streak == Streak::default());
    let ended: Vec<StreakScope<'_>> = ended.into_iter().map(|(scope, _)| scope).collect();
    tx.batch(&END, &scope_columns(&ended)).await?;
    let columns = [
        Column::texts(&grown, |(scope, _)| Some(scope.0)),
        Column::texts(&grown, |(scope, _)| Some(scope.1)),
        Column::ints(&grown, |(_, streak)| Some(streak.finals.into())),
        Column::ints(&grown, |(_, streak)| streak.alike.map(|(group, _)| group.number())),
        Column::ints(&grown, |(_, streak)| Some(streak.alike.map_or(0, |(_, count)| count).into())),
    ];
    tx.batch(&PUT, &columns).await.map(drop)
}

/// Verdicts that are being noted, one after another.
struct Noting<'n, 'a, 't> {
    tx: &'n mut Tx<'t>,
    ids: &'n Ids,
    now: Timestamp,
    streaks: BTreeMap<StreakScope<'a>, Streak>,
    /// The streaks as the table has them.
    kept: BTreeMap<StreakScope<'a>, Streak>,
    /// The breaker's holds in force.
    holds: Vec<Hold>,
}

impl<'a> Noting<'_, 'a, '_> {
    /// A canary's verdict lifts the holds that sent it ahead, or lets them wait for longer.
    async fn canary(&mut self, verdict: &NotedVerdict<'_>) -> Result<()> {
        let is_accepted = verdict.answer == StreakVerdict::Accepted;
        let (sent, others): (Vec<Hold>, Vec<Hold>) =
            std::mem::take(&mut self.holds).into_iter().partition(|hold| hold.sent(verdict.run_id));
        self.holds = others;
        for hold in sent {
            match hold.probing().and_then(|probing| probing.after_canary(verdict.answer, self.now)) {
                Some(probing) => {
                    let hold = Hold { cause: Cause::Breaker(probing), ..hold };
                    put(self.tx, &hold).await?;
                    self.holds.push(hold);
                }
                None => {
                    remove(self.tx, hold.id).await?;
                    if is_accepted {
                        self.forget(hold.scope.source()).await?;
                    }
                    let why = match is_accepted {
                        true => "an attempt that went ahead succeeded",
                        false => "an attempt that went ahead was answered",
                    };
                    let operation = operation(self.ids, verdict.worker, &hold.scope, why, self.now);
                    record(self.tx, &operation, &[HoldChange { before: Some(hold), after: None }]).await?;
                    self.tx.wake();
                }
            }
        }
        Ok(())
    }

    /// Ends the streaks of a source that is well again, with those of its customers.
    async fn forget(&mut self, source: &Source) -> Result<()> {
        let of_source = self.streaks.iter_mut().filter(|(scope, _)| scope.0 == source.as_str());
        of_source.for_each(|(_, streak)| *streak = Streak::default());
        self.kept.retain(|scope, _| scope.0 != source.as_str());
        forget(self.tx, source).await
    }

    /// Adds a verdict to the streaks of its customer and its source. Where both trip, the customer alone is held.
    async fn count(&mut self, verdict: &NotedVerdict<'a>) -> Result<()> {
        if verdict.policy.after == 0 {
            return Ok(());
        }
        let (source, customer) = (&verdict.key.source, &verdict.key.customer_id);
        let mut add = |scope: StreakScope<'a>| {
            let streak = self.streaks.entry(scope).or_default();
            *streak = streak.after(verdict.answer);
            *streak
        };
        let (of_customer, of_source) = (add((source.as_str(), customer.as_str())), add((source.as_str(), "")));
        let (scope, streak) = match (of_customer.trips(&verdict.policy), of_source.trips(&verdict.policy)) {
            (Some(_), _) => (HoldScope::Customer(source.clone(), customer.clone()), of_customer),
            (None, Some(_)) => (HoldScope::Source(source.clone()), of_source),
            (None, None) => return Ok(()),
        };
        match streak.trips(&verdict.policy) {
            Some(trip) if !self.holds.iter().any(|hold| hold.scope.contains(&scope)) => {
                self.trip(scope, trip, streak, verdict).await
            }
            Some(_) | None => Ok(()),
        }
    }

    async fn trip(&mut self, scope: HoldScope, trip: Trip, streak: Streak, verdict: &NotedVerdict<'_>) -> Result<()> {
        let message = verdict.message;
        let why = match trip {
            Trip::Group(_) => format!("{} attempts in a row failed alike: {message}", streak.length()),
            Trip::Finals | Trip::Unusable => {
                format!("{} attempts in a row ended with a final error, the last: {message}", streak.length())
            }
        };
        let hold = Hold {
            id: self.ids.hold(self.now),
            cause: Cause::Breaker(Probing::tripped(trip, &verdict.policy, self.now)),
            since: self.now,
            until: None,
            by: verdict.worker.to_owned(),
            why: Some(why.clone()),
            scope,
        };
        begin(self.tx, self.ids, &hold, self.now).await?;
        self.holds.push(hold);
        Ok(())
    }
}

/// Writes a breaker's hold that was not there, with its row in the audit trail and its notification.
async fn begin(tx: &mut Tx<'_>, ids: &Ids, hold: &Hold, now: Timestamp) -> Result<()> {
    put(tx, hold).await?;
    let operation = operation(ids, &hold.by, &hold.scope, hold.why.as_deref().unwrap_or_default(), now);
    record(tx, &operation, &[HoldChange { before: None, after: Some(hold.clone()) }]).await?;
    notifications::add(tx, ids, &Notice::of_breaker(hold), now).await.map(drop)
}

fn operation(ids: &Ids, worker: &str, scope: &HoldScope, why: &str, now: Timestamp) -> Operation {
    let filters = json!({"source": scope.source(), "customer_id": scope.customer_id()});
    Operation {
        op_id: ids.operation(now),
        at: now,
        actor: worker.to_owned(),
        command: "breaker".to_owned(),
        filters: filters.to_string(),
        flags: json!({"breaker": true}).to_string(),
        reason: Some(why.to_owned()),
    }
}

static SENT: Sql = Sql::new(
    "/* breaker::sent */
     UPDATE holds
     SET canary_run_id = ?2
     WHERE hold_id = ?1",
);

/// Notes which attempts were sent ahead for which holds.
pub(crate) async fn sent(tx: &mut Tx<'_>, holds: &[Hold], attempts: &[(PartitionKey, RunId)]) -> Result<()> {
    for hold in holds.iter().filter(|hold| hold.kind() == HoldKind::Breaker) {
        for (_, run_id) in attempts.iter().filter(|(key, _)| hold.scope.covers(key)) {
            tx.execute(&SENT, &[hold.id.uuid().into(), run_id.uuid().into()]).await?;
        }
    }
    Ok(())
}

impl DataStore {
    /// Holds a source, or one customer of it, that cannot be used as this worker is configured; it is looked at again after
    /// a minute.
    pub async fn hold_unusable(&self, scope: &HoldScope, why: &str, worker: &str) -> Result<()> {
        let now = self.inner.now();
        let (inner, hold) = (
            std::sync::Arc::clone(&self.inner),
            Hold {
                id: self.inner.ids.hold(now),
                scope: scope.clone(),
                cause: Cause::Breaker(Probing::unusable(now)),
                since: now,
                until: None,
                by: worker.to_owned(),
                why: Some(format!("{SOURCE_UNUSABLE}: {why}")),
            },
        );
        transact!(self.inner, "hold unusable", |tx, inner, hold| {
            exclusive(tx).await?;
            let known = of_source_locked(tx, &hold.scope).await?;
            let known = known.into_iter().find(|known| known.scope == hold.scope && known.kind() == HoldKind::Breaker);
            match known {
                Some(known) => put(tx, &Hold { id: known.id, since: known.since, ..Hold::clone(&hold) }).await,
                None => begin(tx, &inner.ids, &hold, now).await,
            }
        })
    }

    /// Has the sources that could not be used looked at again now, as after a reload.
    pub async fn look_again(&self, sources: &[Source]) -> Result<()> {
        let now = self.inner.now();
        let sources = sources.to_vec();
        transact!(self.inner, "look again", |tx, sources| {
            exclusive(tx).await?;
            for hold in breakers(tx, now).await? {
                if let Some(probing) = hold.probing()
                    && probing.trip == Trip::Unusable
                    && sources.contains(hold.scope.source())
                {
                    let probing = Probing { at: now, canary: None, ..*probing };
                    put(tx, &Hold { cause: Cause::Breaker(probing), ..hold }).await?;
                }
            }
            tx.wake();
            Ok(())
        })
    }
}
