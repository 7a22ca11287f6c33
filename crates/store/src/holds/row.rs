//! A hold in its table: the columns, once.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redrive_core::fingerprint::GroupId;
use redrive_core::hold::{Cause, Hold, HoldKind, HoldScope, Probing, Trip};
use redrive_core::id::{HoldId, RunId};
use redrive_core::key::KeyError;
use redrive_core::time::{Timestamp, whole_micros};
use serde::{Deserialize, Serialize};

use crate::db::columns::{Field, Named, columns, named, select_list};
use crate::db::{Batch, Effect, Row, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{View, read};

impl View {
    /// The holds in force, by scope.
    pub async fn holds(&self) -> Result<Vec<Hold>> {
        let now = self.inner.now();
        read!(self, "holds", |tx, now| in_force(tx, *now))
    }
}

/// The word of a trip in its column.
fn trip_word(trip: Trip) -> &'static str {
    match trip {
        Trip::Finals => "final",
        Trip::Group(_) => "group",
        Trip::Unusable => "unusable",
    }
}

fn group_of(trip: Trip) -> Option<i64> {
    match trip {
        Trip::Group(group) => Some(group.number()),
        Trip::Finals | Trip::Unusable => None,
    }
}

pub(super) const HOLD: [Field<Hold>; 14] = [
    Field::id("hold_id", |hold| hold.id.uuid().into()),
    Field::text("source", |hold| hold.scope.source().as_str().into()),
    Field::text("customer_id", |hold| hold.scope.customer_id().map_or("", |customer| customer.as_str()).into()),
    Field::text("query_name", |hold| hold.scope.query_name().map_or("", |query| query.as_str()).into()),
    Field::text("kind", |hold| hold.kind().as_str().into()),
    Field::int("since", |hold| hold.since.micros().into()),
    Field::int("until", |hold| hold.until.map(Timestamp::micros).into()),
    Field::text("by", |hold| (&hold.by).into()),
    Field::text("why", |hold| hold.why.as_ref().into()),
    Field::text("trip", |hold| hold.probing().map(|probing| trip_word(probing.trip)).into()),
    Field::int("error_group", |hold| hold.probing().and_then(|probing| group_of(probing.trip)).into()),
    Field::int("probe_at", |hold| hold.probing().map(|probing| probing.at.micros()).into()),
    Field::int("probe_every", |hold| hold.probing().map(|probing| whole_micros(probing.every)).into()),
    Field::id("canary_run_id", |hold| hold.probing().and_then(|probing| probing.canary).map(|run| run.uuid()).into()),
];
pub(super) const NAMES: [Named; 14] = named(&HOLD);

/// A hold as its row and its snapshot in the audit trail have it.
#[derive(Serialize, Deserialize)]
struct Kept {
    id: HoldId,
    source: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    customer_id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    query_name: String,
    kind: HoldKind,
    since: i64,
    until: Option<i64>,
    by: String,
    why: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trip: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error_group: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    probe_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    probe_every: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    canary: Option<RunId>,
}

impl Kept {
    fn read(row: &Row<'_>) -> Result<Self> {
        let mut row = row.cursor();
        Ok(Self {
            id: HoldId::from_uuid(row.id()?),
            source: row.text()?,
            customer_id: row.text()?,
            query_name: row.text()?,
            kind: row.word()?,
            since: row.int()?,
            until: row.opt_int()?,
            by: row.text()?,
            why: row.opt_text()?,
            trip: row.opt_text()?,
            error_group: row.opt_int()?,
            probe_at: row.opt_int()?,
            probe_every: row.opt_int()?,
            canary: row.opt_id()?.map(RunId::from_uuid),
        })
    }

    fn of(hold: &Hold) -> Self {
        let probing = hold.probing();
        Self {
            id: hold.id,
            source: hold.scope.source().to_string(),
            customer_id: hold.scope.customer_id().map(ToString::to_string).unwrap_or_default(),
            query_name: hold.scope.query_name().map(ToString::to_string).unwrap_or_default(),
            kind: hold.kind(),
            since: hold.since.micros(),
            until: hold.until.map(Timestamp::micros),
            by: hold.by.clone(),
            why: hold.why.clone(),
            trip: probing.map(|probing| trip_word(probing.trip).to_owned()),
            error_group: probing.and_then(|probing| group_of(probing.trip)),
            probe_at: probing.map(|probing| probing.at.micros()),
            probe_every: probing.map(|probing| whole_micros(probing.every)),
            canary: probing.and_then(|probing| probing.canary),
        }
    }

    fn parse(self) -> Result<Hold> {
        Ok(Hold {
            id: self.id,
            cause: self.cause()?,
            since: Timestamp::from_micros(self.since),
            until: self.until.map(Timestamp::from_micros),
            scope: scope(self.source, self.customer_id, self.query_name)?,
            by: self.by,
            why: self.why,
        })
    }

    fn cause(&self) -> Result<Cause> {
        let bad = |why: String| Error::row("holds", why);
        Ok(match self.kind {
            HoldKind::Cooldown => Cause::Cooldown,
            HoldKind::Operator => Cause::Operator,
            HoldKind::Breaker => {
                let trip = match (self.trip.as_deref(), self.error_group.and_then(GroupId::from_number)) {
                    (Some("final"), _) => Trip::Finals,
                    (Some("group"), Some(group)) => Trip::Group(group),
                    (Some("unusable"), _) => Trip::Unusable,
                    (trip, _) => return Err(bad(format!("{trip:?} trips no breaker"))),
                };
                let missing = || bad("a breaker has no probe".to_owned());
                let every =
                    u64::try_from(self.probe_every.ok_or_else(missing)?).map_err(|error| bad(error.to_string()))?;
                let at = Timestamp::from_micros(self.probe_at.ok_or_else(missing)?);
                Cause::Breaker(Probing { trip, at, every: Duration::from_micros(every), canary: self.canary })
            }
        })
    }
}

fn scope(source: String, customer_id: String, query_name: String) -> Result<HoldScope> {
    let bad = |error: KeyError| Error::row("holds", error);
    let source = source.try_into().map_err(bad)?;
    if customer_id.is_empty() {
        return Ok(HoldScope::Source(source));
    }
    let customer_id = customer_id.try_into().map_err(bad)?;
    if query_name.is_empty() {
        return Ok(HoldScope::Customer(source, customer_id));
    }
    Ok(HoldScope::Query(source, customer_id, query_name.try_into().map_err(bad)?))
}

/// Holds as the audit trail keeps them: JSON, with moments as integers; `null` where there is none.
pub(crate) mod snapshot {
    use super::{Error, Hold, Kept, Result};

    pub(crate) fn write(hold: Option<&Hold>) -> Result<String> {
        serde_json::to_string(&hold.map(Kept::of)).map_err(|error| Error::row("operation_changes", error))
    }

    pub(crate) fn read(text: &str) -> Result<Option<Hold>> {
        let kept: Option<Kept> = serde_json::from_str(text).map_err(|error| Error::row("operation_changes", error))?;
        kept.map(Kept::parse).transpose()
    }
}

/// `{hold}`: what [`read_hold`] expects.
static COLUMNS: LazyLock<String> = LazyLock::new(|| select_list("holds", &HOLD));

pub(crate) fn fragment(name: &str) -> Option<&'static str> {
    (name == "hold").then(|| COLUMNS.as_str())
}

fn read_hold(row: &Row<'_>) -> Result<Hold> {
    Kept::read(row)?.parse()
}

static IN_FORCE: Sql = Sql::new(
    "/* holds::in_force */
     SELECT {hold}
     FROM holds
     WHERE until IS NULL OR until > CAST(?1 AS BIGINT)
     ORDER BY source, customer_id, query_name, kind",
);

pub(crate) async fn in_force(tx: &mut Tx<'_>, now: Timestamp) -> Result<Vec<Hold>> {
    tx.rows(&IN_FORCE, &[now.micros().into()], read_hold).await
}

static OF_SOURCE: Sql = Sql::new(
    "/* holds::of_source */
     SELECT {hold}
     FROM holds
     WHERE source = ?1
     ORDER BY source, customer_id, query_name, kind
     {lock}",
);

/// All holds of a source, also those that have ended. No other transaction changes them until this one ends.
pub(super) async fn of_source_locked(tx: &mut Tx<'_>, scope: &HoldScope) -> Result<Vec<Hold>> {
    tx.rows(&OF_SOURCE, &[scope.source().as_str().into()], read_hold).await
}

static PUT: Batch = Batch::new(
    "/* holds::put */
     INSERT INTO holds ({columns})
     {values}
     ON CONFLICT (source, customer_id, query_name, kind) DO UPDATE
     SET hold_id = excluded.hold_id, since = excluded.since, until = excluded.until, by = excluded.by, why = excluded.why,
         trip = excluded.trip, error_group = excluded.error_group, probe_at = excluded.probe_at,
         probe_every = excluded.probe_every, canary_run_id = excluded.canary_run_id",
    &NAMES,
    Effect::All,
);

/// Adds a hold, or puts it in the place of the one that its scope has of its kind.
pub(super) async fn put(tx: &mut Tx<'_>, hold: &Hold) -> Result<()> {
    tx.batch(&PUT, &columns(&HOLD, &[hold])).await.map(drop)
}

static REMOVE: Sql = Sql::new(
    "/* holds::remove */
     DELETE FROM holds
     WHERE hold_id = ?1",
);

pub(super) async fn remove(tx: &mut Tx<'_>, id: HoldId) -> Result<()> {
    tx.execute(&REMOVE, &[id.uuid().into()]).await.map(drop)
}
