//! The hash chain over the audit trail: every row carries the hash of the one before it.
//!
//! The chain's head is a row of its own, so that writers take turns and a cut-off tail shows.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::changes::{CHANGES_FROM, StoredChange};
use super::operations::{OPERATIONS_FROM, Operation, StoredOperation};
use crate::db::{Row, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{View, read};

impl View {
    pub async fn audit_head(&self) -> Result<Head> {
        read!(self, "audit head", |tx| head(tx))
    }

    /// Where the chain ends, and whether a run was changed by an operation since it ended at `seen`.
    pub async fn runs_changed_since(&self, seen: i64) -> Result<(i64, bool)> {
        read!(self.read_by_index, "runs changed since", |tx, seen| runs_changed_since(tx, *seen))
    }

    /// Checks the whole chain.
    pub async fn verify_audit(&self) -> Result<Verified> {
        read!(self, "verify audit", |tx| verify(tx, None))
    }

    /// Checks the whole chain, and that it goes through a head which was noted before, outside of the database. A chain that
    /// was cut and given a new head, or written anew, is whole in itself, but does not.
    pub async fn verify_audit_against(&self, anchor: Head) -> Result<Verified> {
        read!(self, "verify audit", |tx, anchor| verify(tx, Some(&anchor)))
    }
}

/// Where the chain ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub seq: i64,
    pub hash: Vec<u8>,
}

impl Head {
    pub fn hex(&self) -> String {
        self.hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn read(row: &Row<'_>) -> Result<Self> {
        let mut row = row.cursor();
        Ok(Self { seq: row.int()?, hash: row.bytes()? })
    }
}

/// `SEQ:HASH`, as it is noted outside of the database.
impl std::fmt::Display for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.seq, self.hex())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a head of the audit trail, which is written as SEQ:HASH")]
pub struct NotAHead(String);

impl std::str::FromStr for Head {
    type Err = NotAHead;

    fn from_str(text: &str) -> Result<Self, NotAHead> {
        let parse = || {
            let (seq, hash) = text.trim().split_once(':')?;
            let seq = seq.parse().ok().filter(|seq| *seq >= 0)?;
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
            let is_hash = hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
            let hash = is_hash.then(|| hash.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>())??;
            Some(Self { seq, hash })
        };
        parse().ok_or_else(|| NotAHead(text.to_owned()))
    }
}

static LOCK_HEAD: Sql = Sql::new(
    "/* audit::lock_head */
     SELECT seq, hash
     FROM audit_head
     WHERE one = 1
     {lock}",
);
static READ_HEAD: Sql = Sql::new(
    "/* audit::read_head */
     SELECT seq, hash
     FROM audit_head
     WHERE one = 1",
);
static MOVE_HEAD: Sql = Sql::new(
    "/* audit::move_head */
     UPDATE audit_head
     SET seq = ?1, hash = ?2
     WHERE one = 1",
);

static RUN_CHANGED: Sql = Sql::new(
    "/* audit::run_changed */
     SELECT 1
     FROM operation_changes
     WHERE seq > CAST(?1 AS BIGINT)
       AND run_id IS NOT NULL
     LIMIT 1",
);

async fn runs_changed_since(tx: &mut Tx<'_>, seen: i64) -> Result<(i64, bool)> {
    let head = head(tx).await?.seq;
    let has_changed = head > seen && tx.row(&RUN_CHANGED, &[seen.into()], |_| Ok(())).await?.is_some();
    Ok((head, has_changed))
}

/// Where the chain ends now.
pub(crate) async fn head(tx: &mut Tx<'_>) -> Result<Head> {
    tx.row(&READ_HEAD, &[], Head::read).await?.ok_or_else(|| Error::row("audit_head", "there is no head"))
}

/// What a change is about, as the chain covers it. A partition goes in by its names: the ids of series are the database's own.
#[derive(Debug, Clone, Copy)]
pub(super) enum Covered<'a> {
    Partition { names: [&'a str; 3], period: i64 },
    Run(Uuid),
    Hold(Uuid),
}

/// The chain as it is written and as it is checked: the same bytes in the same order.
pub(super) struct Chain {
    pub(super) seq: i64,
    pub(super) hash: [u8; 32],
    /// The bytes of the row that is being added.
    row: Vec<u8>,
}

impl Chain {
    /// Takes the chain up at its head, which no other transaction moves until this one ends.
    pub(super) async fn locked(tx: &mut Tx<'_>) -> Result<Self> {
        let head = tx.row(&LOCK_HEAD, &[], Head::read).await?;
        let head = head.ok_or_else(|| Error::row("audit_head", "there is no head"))?;
        let hash = head.hash.as_slice().try_into().map_err(|_| Error::row("audit_head", "the hash is not 32 bytes"))?;
        Ok(Self::at(head.seq, hash))
    }

    fn at(seq: i64, hash: [u8; 32]) -> Self {
        Self { seq, hash, row: Vec::with_capacity(512) }
    }

    /// Whether the chain is the one of an anchor, as far as that can be said at this row.
    fn agrees_with(&self, anchor: Option<&Head>) -> bool {
        anchor.is_none_or(|anchor| anchor.seq != self.seq || anchor.hash == self.hash)
    }

    /// Makes this the head.
    pub(super) async fn store(&self, tx: &mut Tx<'_>) -> Result<()> {
        tx.execute(&MOVE_HEAD, &[self.seq.into(), self.hash.as_slice().into()]).await.map(drop)
    }

    /// Adds a row; every field goes in with its length, and an absent one with a length that none has, so that no two
    /// rows give the same bytes.
    fn link(&mut self, fields: &[Option<&[u8]>]) {
        self.seq = self.seq.saturating_add(1);
        self.row.clear();
        self.row.extend_from_slice(&self.hash);
        self.row.extend_from_slice(&self.seq.to_le_bytes());
        for field in fields {
            let length = field.map_or(u32::MAX, |field| u32::try_from(field.len()).unwrap_or(u32::MAX - 1));
            self.row.extend_from_slice(&length.to_le_bytes());
            self.row.extend_from_slice(field.unwrap_or_default());
        }
        self.hash = Sha256::digest(&self.row).into();
    }

    pub(super) fn operation(&mut self, operation: &Operation) {
        self.link(&[
            Some(b"operation"),
            Some(operation.op_id.uuid().as_bytes()),
            Some(&operation.at.micros().to_le_bytes()),
            Some(operation.actor.as_bytes()),
            Some(operation.command.as_bytes()),
            Some(operation.filters.as_bytes()),
            Some(operation.flags.as_bytes()),
            operation.reason.as_deref().map(str::as_bytes),
        ]);
    }

    /// Adds a change by the operation whose row has the number `operation`.
    pub(super) fn change(&mut self, operation: i64, subject: Covered<'_>, before: Option<&str>, after: &str) {
        let operation = operation.to_le_bytes();
        let (before, after) = (before.map(str::as_bytes), Some(after.as_bytes()));
        match subject {
            Covered::Partition { names: [source, customer_id, query_name], period } => self.link(&[
                Some(b"partition"),
                Some(&operation),
                Some(source.as_bytes()),
                Some(customer_id.as_bytes()),
                Some(query_name.as_bytes()),
                Some(&period.to_le_bytes()),
                before,
                after,
            ]),
            Covered::Run(id) => self.link(&[Some(b"run"), Some(&operation), Some(id.as_bytes()), before, after]),
            Covered::Hold(id) => self.link(&[Some(b"hold"), Some(&operation), Some(id.as_bytes()), before, after]),
        }
    }
}

/// What a check of the chain found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verified {
    Whole(Head),
    /// The first row that is missing or not as it was written.
    Broken {
        seq: i64,
        why: String,
    },
}

/// A link of the chain as it is stored.
enum Link {
    Operation(StoredOperation),
    Change(StoredChange),
}

impl Link {
    fn seq(&self) -> i64 {
        match self {
            Self::Operation(operation) => operation.seq,
            Self::Change(change) => change.seq,
        }
    }

    fn hash(&self) -> &[u8] {
        match self {
            Self::Operation(operation) => &operation.hash,
            Self::Change(change) => &change.hash,
        }
    }
}

/// How many rows are checked at a time.
const STRETCH: i64 = 10_000;

async fn verify(tx: &mut Tx<'_>, anchor: Option<&Head>) -> Result<Verified> {
    // A trail that was deleted may have lost its head, too.
    let Some(head) = tx.row(&READ_HEAD, &[], Head::read).await? else { return Ok(broken(0, "there is no head")) };
    if let Some(anchor) = anchor.filter(|anchor| anchor.seq > head.seq) {
        let why = format!("the row is missing: the trail ended with row {} when the given head was noted", anchor.seq);
        return Ok(broken(head.seq.saturating_add(1), &why));
    }
    if let Some(seq) = first_between(tx, i64::MIN, 0).await? {
        return Ok(broken(seq, "the row lies before the first"));
    }
    let mut chain = Chain::at(0, [0; 32]);
    if !chain.agrees_with(anchor) {
        return Ok(broken(0, "the given head is of no trail of this program"));
    }
    while chain.seq < head.seq {
        let to = head.seq.min(chain.seq.saturating_add(STRETCH));
        for link in links(tx, chain.seq, to).await? {
            let due = chain.seq.saturating_add(1);
            if link.seq() != due {
                return Ok(broken(due, "the row is missing"));
            }
            let linked = match &link {
                Link::Operation(stored) => {
                    chain.operation(&stored.operation);
                    true
                }
                Link::Change(stored) => stored.link(&mut chain),
            };
            if !linked || chain.hash.as_slice() != link.hash() {
                return Ok(broken(due, "the row is not as it was written"));
            }
            if !chain.agrees_with(anchor) {
                return Ok(broken(
                    due,
                    "up to this row the trail is not the one of the given head: it was written anew",
                ));
            }
        }
        if chain.seq < to {
            return Ok(broken(chain.seq.saturating_add(1), "the row is missing"));
        }
    }
    if chain.hash.as_slice() != head.hash {
        return Ok(broken(head.seq, "the head is not the hash of the last row"));
    }
    match first_between(tx, head.seq, i64::MAX).await? {
        Some(seq) => Ok(broken(seq, "the row lies beyond the head")),
        None => Ok(Verified::Whole(head)),
    }
}

/// The rows of both tables after `from` up to `to`, in their order.
async fn links(tx: &mut Tx<'_>, from: i64, to: i64) -> Result<Vec<Link>> {
    let params = [from.into(), to.into()];
    let operations = tx.rows(&OPERATIONS_FROM, &params, StoredOperation::read).await?;
    let changes = tx.rows(&CHANGES_FROM, &params, StoredChange::read).await?;
    let mut links: Vec<Link> = operations.into_iter().map(Link::Operation).collect();
    links.extend(changes.into_iter().map(Link::Change));
    links.sort_by_key(Link::seq);
    Ok(links)
}

/// The first row after `from` up to `to`, of either table.
async fn first_between(tx: &mut Tx<'_>, from: i64, to: i64) -> Result<Option<i64>> {
    let params = [from.into(), to.into()];
    let change = tx.row(&CHANGES_FROM, &params, |row| row.int(0)).await?;
    let operation = tx.row(&OPERATIONS_FROM, &params, |row| row.int(0)).await?;
    Ok(change.into_iter().chain(operation).min())
}

fn broken(seq: i64, why: &str) -> Verified {
    Verified::Broken { seq, why: why.to_owned() }
}
