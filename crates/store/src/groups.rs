//! Failure groups: one row for each fingerprint that was ever met, written in the transaction of the failure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redrive_core::failure::ErrorClass;
use redrive_core::fingerprint::{Fingerprint, GroupId};
use redrive_core::time::Timestamp;

use crate::db::{Batch, Column, Effect, Kind, Lookup, Tx};
use crate::error::{Error, Result};
use crate::handles::{View, read};

/// What a failure group is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    pub class: ErrorClass,
    /// The message with everything folded that differs from try to try.
    pub template: String,
    /// One message as it came.
    pub sample: String,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
}

/// A failure, as its group notes it.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) class: ErrorClass,
    pub(crate) message: &'a str,
    pub(crate) at: Timestamp,
}

/// A group is touched at most this often: were it for every failure, the workers of a source that fails would wait for
/// each other at one row.
const TOUCHED_EVERY: i64 = 1_000_000;

static KNOWN: Lookup = Lookup::new(
    "/* groups::known */
     SELECT last_seen
     FROM failure_groups
     WHERE group_id = @group_id",
    &[("group_id", Kind::Int)],
);

static INSERT: Batch = Batch::new(
    "/* groups::insert */
     INSERT INTO failure_groups (group_id, error_class, template, sample, first_seen, last_seen)
     {values @group_id, @error_class, @template, @sample, @first_seen, @last_seen}
     ON CONFLICT DO NOTHING",
    &[
        ("group_id", Kind::Int),
        ("error_class", Kind::Text),
        ("template", Kind::Text),
        ("sample", Kind::Text),
        ("first_seen", Kind::Int),
        ("last_seen", Kind::Int),
    ],
    Effect::Inserted(&["group_id"]),
);

static TOUCH: Batch = Batch::new(
    "/* groups::touch */
     UPDATE failure_groups
     SET last_seen = @last_seen
     {from}
     WHERE failure_groups.group_id = @group_id
       AND failure_groups.last_seen < @last_seen",
    &[("group_id", Kind::Int), ("last_seen", Kind::Int)],
    Effect::Row,
);

/// Notes failures in their groups. Groups are written in the order of their ids, so that no two transactions wait for each
/// other.
pub(crate) async fn note(tx: &mut Tx<'_>, seen: &[Seen<'_>]) -> Result<()> {
    let mut groups: BTreeMap<GroupId, (&Seen<'_>, Timestamp)> = BTreeMap::new();
    for one in seen {
        let (_, last) = groups.entry(one.fingerprint.group).or_insert((one, one.at));
        *last = one.at.max(*last);
    }
    let groups: Vec<(GroupId, &Seen<'_>, Timestamp)> =
        groups.into_iter().map(|(group, (first, last))| (group, first, last)).collect();
    let ids = [Column::ints(&groups, |(group, ..)| Some(group.number()))];
    let mut known: Vec<Option<i64>> = vec![None; groups.len()];
    for (nth, last_seen) in tx.lookup(&KNOWN, &ids, |mut row| row.int()).await? {
        known[nth] = Some(last_seen);
    }
    let (mut new, mut stale) = (Vec::new(), Vec::new());
    for (group, known) in groups.into_iter().zip(known) {
        match known {
            None => new.push(group),
            Some(last_seen) if group.2.micros().saturating_sub(last_seen) >= TOUCHED_EVERY => stale.push(group),
            Some(_) => {}
        }
    }
    insert(tx, &new).await?;
    let columns = [
        Column::ints(&stale, |(group, ..)| Some(group.number())),
        Column::ints(&stale, |(.., last)| Some(last.micros())),
    ];
    tx.batch(&TOUCH, &columns).await.map(drop)
}

async fn insert(tx: &mut Tx<'_>, new: &[(GroupId, &Seen<'_>, Timestamp)]) -> Result<()> {
    let columns = [
        Column::ints(new, |(group, ..)| Some(group.number())),
        Column::texts(new, |(_, seen, _)| Some(seen.class.as_str())),
        Column::texts(new, |(_, seen, _)| Some(seen.fingerprint.template.as_str())),
        Column::texts(new, |(_, seen, _)| Some(seen.message)),
        Column::ints(new, |(_, seen, _)| Some(seen.at.micros())),
        Column::ints(new, |(.., last)| Some(last.micros())),
    ];
    tx.batch(&INSERT, &columns).await.map(drop)
}

/// A group's id from a row.
pub(crate) fn read_id(number: i64) -> Result<GroupId> {
    GroupId::from_number(number).ok_or_else(|| Error::row("failure_groups", format!("{number} is no failure group")))
}

/// The first groups that a table's index has under a condition, found by steps down the index.
pub(crate) async fn distinct(
    tx: &mut Tx<'_>,
    table: &str,
    column: &str,
    condition: &str,
    limit: u32,
) -> Result<Vec<GroupId>> {
    let sql = format!(
        "/* groups::distinct */
         WITH RECURSIVE known(id) AS (
             SELECT min({column})
             FROM {table}
             WHERE {condition}
             UNION ALL
             SELECT (
                 SELECT min({column})
                 FROM {table}
                 WHERE {condition} AND {column} > known.id)
             FROM known
             WHERE known.id IS NOT NULL)
         SELECT id
         FROM known
         WHERE id IS NOT NULL
         LIMIT {limit}"
    );
    tx.built_rows(&sql, &[], |row| read_id(row.int(0)?)).await
}

static DESCRIBED: Lookup = Lookup::new(
    "/* groups::described */
     SELECT error_class, template, sample, first_seen, last_seen
     FROM failure_groups
     WHERE group_id = @group_id",
    &[("group_id", Kind::Int)],
);

impl View {
    /// What one group is known by; none where it was never met.
    pub async fn group(&self, group: GroupId) -> Result<Option<Description>> {
        read!(self, "group", |tx, group| one(tx, *group))
    }
}

async fn one(tx: &mut Tx<'_>, group: GroupId) -> Result<Option<Description>> {
    Ok(known(tx, &[group]).await?.remove(&group))
}

async fn known(tx: &mut Tx<'_>, ids: &[GroupId]) -> Result<BTreeMap<GroupId, Description>> {
    let values = [Column::ints(ids, |group| Some(group.number()))];
    let described = tx.lookup(&DESCRIBED, &values, |mut row| {
        Ok(Description {
            class: row.word()?,
            template: row.text()?,
            sample: row.text()?,
            first_seen: row.time()?,
            last_seen: row.time()?,
        })
    });
    Ok(described.await?.into_iter().map(|(nth, one)| (ids[nth], one)).collect())
}

/// What groups are known by, each once; every one of them must be there.
pub(crate) async fn describe(
    tx: &mut Tx<'_>,
    asked: impl Iterator<Item = GroupId>,
) -> Result<BTreeMap<GroupId, Description>> {
    let ids: Vec<GroupId> = asked.collect::<BTreeSet<_>>().into_iter().collect();
    let found = known(tx, &ids).await?;
    match ids.iter().find(|group| !found.contains_key(group)) {
        Some(group) => Err(Error::row("failure_groups", format!("group {group} is missing"))),
        None => Ok(found),
    }
}
