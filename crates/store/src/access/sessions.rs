//! Browsers that are signed in. A session counts as long as the token that it was begun with.

use std::sync::Arc;

use redrive_core::id::TokenId;
use redrive_core::role::Role;
use redrive_core::sign_in::{self, SESSION_IDLE, SESSION_MOST, TokenState};
use redrive_core::time::Timestamp;

use super::Access;
use crate::db::{Param, Row, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{read, transact};
use crate::raw::Sha256;

/// A browser that is signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub hash: Sha256,
    /// What the audit trail calls it.
    pub actor: String,
    pub role: Role,
    /// None where a link that a server had printed was followed.
    pub token: Option<TokenId>,
    pub created_at: Timestamp,
    pub last_seen: Timestamp,
}

impl Access {
    /// Begins a session in place of the one that the browser had, and forgets those that ended long ago.
    pub async fn begin_session(&self, session: Session, instead_of: Option<Sha256>) -> Result<()> {
        transact!(self.inner, "begin session", |tx, session| {
            if let Some(old) = instead_of {
                tx.execute(&END, &[old.bytes().into()]).await?;
            }
            insert(tx, &session).await?;
            let idle = session.created_at.saturating_sub(SESSION_IDLE).micros();
            let old = session.created_at.saturating_sub(SESSION_MOST).micros();
            tx.execute(&FORGET, &[idle.into(), old.into()]).await.map(drop)
        })
    }

    /// The session with this hash, if it counts now.
    pub async fn session(&self, hash: Sha256) -> Result<Option<Session>> {
        let now = self.inner.now();
        read!(self.read_by_index, "session", |tx, hash, now| living(tx, *hash, *now))
    }

    /// Keeps when a browser was last heard of.
    pub async fn session_seen(&self, hash: Sha256, at: Timestamp) -> Result<()> {
        transact!(self.inner, "session seen", |tx| {
            tx.execute(&SEEN, &[hash.bytes().into(), at.micros().into()]).await.map(drop)
        })
    }

    pub async fn end_session(&self, hash: Sha256) -> Result<()> {
        transact!(self.inner, "end session", |tx| tx.execute(&END, &[hash.bytes().into()]).await.map(drop))
    }

    /// Ends all sessions of an actor.
    pub async fn end_sessions_of(&self, actor: &str) -> Result<()> {
        let actor = actor.to_owned();
        transact!(self.inner, "end sessions", |tx, actor| {
            tx.execute(&END_ALL, &[actor.as_str().into()]).await.map(drop)
        })
    }
}

static INSERT: Sql = Sql::new(
    "/* sessions::insert */
     INSERT INTO sessions (hash, actor, role, token_id, created_at, last_seen)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
);
static FORGET: Sql = Sql::new(
    "/* sessions::forget */
     DELETE FROM sessions
     WHERE last_seen < CAST(?1 AS BIGINT) OR created_at < CAST(?2 AS BIGINT)",
);
static SEEN: Sql = Sql::new(
    "/* sessions::seen */
     UPDATE sessions
     SET last_seen = ?2
     WHERE hash = ?1 AND last_seen < ?2",
);
static END: Sql = Sql::new(
    "/* sessions::end */
     DELETE FROM sessions
     WHERE hash = ?1",
);
static END_ALL: Sql = Sql::new(
    "/* sessions::end_all */
     DELETE FROM sessions
     WHERE actor = ?1",
);
static LIVING: Sql = Sql::new(
    "/* sessions::living */
     SELECT s.hash, s.actor, s.role, s.token_id, s.created_at, s.last_seen, t.expires_at, t.revoked_at
     FROM sessions s
     LEFT JOIN tokens t ON t.token_id = s.token_id
     WHERE s.hash = ?1",
);

async fn insert(tx: &mut Tx<'_>, session: &Session) -> Result<()> {
    let params: [Param<'_>; 6] = [
        session.hash.bytes().into(),
        session.actor.as_str().into(),
        session.role.as_str().into(),
        session.token.map(TokenId::uuid).into(),
        session.created_at.micros().into(),
        session.last_seen.micros().into(),
    ];
    tx.execute(&INSERT, &params).await.map(drop)
}

async fn living(tx: &mut Tx<'_>, hash: Sha256, now: Timestamp) -> Result<Option<Session>> {
    let Some((session, expires_at, revoked_at)) = tx.row(&LIVING, &[hash.bytes().into()], read_row).await? else {
        return Ok(None);
    };
    let has_token = match (session.token, expires_at) {
        (Some(_), Some(expires_at)) => sign_in::token(expires_at, revoked_at, now) == TokenState::Valid,
        (Some(_), None) => false,
        (None, _) => true,
    };
    let counts = has_token && sign_in::session(session.created_at, session.last_seen, now);
    Ok(counts.then_some(session))
}

fn read_row(row: &Row<'_>) -> Result<(Session, Option<Timestamp>, Option<Timestamp>)> {
    let mut row = row.cursor();
    let session = Session {
        hash: Sha256::from_bytes(&row.bytes()?).ok_or_else(|| Error::row("sessions", "a hash has 32 bytes"))?,
        actor: row.text()?,
        role: row.word()?,
        token: row.opt_id()?.map(TokenId::from_uuid),
        created_at: row.time()?,
        last_seen: row.time()?,
    };
    Ok((session, row.opt_time()?, row.opt_time()?))
}
