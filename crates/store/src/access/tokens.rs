//! Tokens: made and revoked with a row in the audit trail, found by their hash.

use std::sync::Arc;

use redrive_core::id::TokenId;
use redrive_core::role::Role;
use redrive_core::sign_in::{self, TokenState};
use redrive_core::time::Timestamp;

use super::Access;
use crate::audit::{Operation, record_alone};
use crate::db::{Param, Row, Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{View, read, transact};
use crate::raw::Sha256;

/// A token as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub id: TokenId,
    pub name: String,
    pub role: Role,
    /// The end of its text, by which people know it again.
    pub last_four: String,
    /// The only categories that it may claim; none for all.
    pub categories: Option<Vec<String>>,
    pub created_at: Timestamp,
    pub created_by: String,
    pub expires_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub hash: Sha256,
}

impl Token {
    pub fn state(&self, now: Timestamp) -> TokenState {
        sign_in::token(self.expires_at, self.revoked_at, now)
    }
}

/// A token that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    pub name: String,
    pub role: Role,
    pub last_four: String,
    pub categories: Option<Vec<String>>,
    pub expires_at: Timestamp,
    pub hash: Sha256,
}

impl Access {
    /// Keeps a token. A name that another one has, which nobody revoked, is refused.
    pub async fn create_token(&self, operation: &Operation, new: NewToken) -> Result<Token> {
        let token = Token {
            id: self.inner.ids.token(operation.at),
            name: new.name,
            role: new.role,
            last_four: new.last_four,
            categories: new.categories,
            created_at: operation.at,
            created_by: operation.actor.clone(),
            expires_at: new.expires_at,
            last_used_at: None,
            revoked_at: None,
            hash: new.hash,
        };
        let operation = operation.clone();
        transact!(self.inner, "create token", |tx, operation, token| {
            if in_use(tx, &token.name).await?.is_some() {
                let why = "another token has this name; revoke it first, or choose another name";
                return Err(Error::Input { what: "the token", why });
            }
            insert(tx, &token).await?;
            record_alone(tx, &operation).await?;
            Ok(Token::clone(&token))
        })
    }

    /// Ends a token and the sessions that were begun with it; gives it as it was.
    pub async fn revoke_token(&self, operation: &Operation, name: &str) -> Result<Token> {
        let (operation, name) = (operation.clone(), name.to_owned());
        transact!(self.inner, "revoke token", |tx, operation, name| {
            let absent = || Error::Absent { what: "token", id: String::clone(&name) };
            let token = in_use(tx, &name).await?.ok_or_else(absent)?;
            tx.execute(&REVOKE, &[token.id.uuid().into(), operation.at.micros().into()]).await?;
            tx.execute(&END_SESSIONS, &[token.id.uuid().into()]).await?;
            record_alone(tx, &operation).await?;
            Ok(token)
        })
    }

    /// The token with this hash, whatever has become of it.
    pub async fn token(&self, hash: Sha256) -> Result<Option<Token>> {
        read!(self.read_by_index, "token", |tx, hash| by_hash(tx, *hash))
    }

    /// Keeps when a token was last used.
    pub async fn token_used(&self, id: TokenId, at: Timestamp) -> Result<()> {
        transact!(self.inner, "token used", |tx| {
            tx.execute(&USED, &[id.uuid().into(), at.micros().into()]).await.map(drop)
        })
    }
}

impl View {
    /// All tokens, the newest first.
    pub async fn tokens(&self) -> Result<Vec<Token>> {
        read!(self, "tokens", |tx| all(tx))
    }
}

static INSERT: Sql = Sql::new(
    "/* tokens::insert */
     INSERT INTO tokens
         (token_id, name, role, last_four, categories, created_at, created_by, expires_at, hash)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
);
static REVOKE: Sql = Sql::new(
    "/* tokens::revoke */
     UPDATE tokens
     SET revoked_at = ?2
     WHERE token_id = ?1",
);
static END_SESSIONS: Sql = Sql::new(
    "/* tokens::end_sessions */
     DELETE FROM sessions
     WHERE token_id = ?1",
);
static USED: Sql = Sql::new(
    "/* tokens::used */
     UPDATE tokens
     SET last_used_at = ?2
     WHERE token_id = ?1 AND (last_used_at IS NULL OR last_used_at < ?2)",
);
static BY_HASH: Sql = Sql::new(
    "/* tokens::by_hash */
     SELECT token_id, name, role, last_four, categories, created_at, created_by, expires_at, last_used_at, revoked_at, hash
     FROM tokens
     WHERE hash = ?1",
);
static IN_USE: Sql = Sql::new(
    "/* tokens::in_use */
     SELECT token_id, name, role, last_four, categories, created_at, created_by, expires_at, last_used_at, revoked_at, hash
     FROM tokens
     WHERE name = ?1 AND revoked_at IS NULL",
);
static ALL: Sql = Sql::new(
    "/* tokens::all */
     SELECT token_id, name, role, last_four, categories, created_at, created_by, expires_at, last_used_at, revoked_at, hash
     FROM tokens
     ORDER BY created_at DESC, token_id DESC",
);

async fn insert(tx: &mut Tx<'_>, token: &Token) -> Result<()> {
    let categories = token.categories.as_ref().map(serde_json::to_string).transpose();
    let categories = categories.map_err(|error| Error::row("tokens", error))?;
    let params: [Param<'_>; 9] = [
        token.id.uuid().into(),
        token.name.as_str().into(),
        token.role.as_str().into(),
        token.last_four.as_str().into(),
        categories.as_ref().into(),
        token.created_at.micros().into(),
        token.created_by.as_str().into(),
        token.expires_at.micros().into(),
        token.hash.bytes().into(),
    ];
    tx.execute(&INSERT, &params).await.map(drop)
}

async fn in_use(tx: &mut Tx<'_>, name: &str) -> Result<Option<Token>> {
    tx.row(&IN_USE, &[name.into()], read_row).await
}

pub(super) async fn by_hash(tx: &mut Tx<'_>, hash: Sha256) -> Result<Option<Token>> {
    tx.row(&BY_HASH, &[hash.bytes().into()], read_row).await
}

async fn all(tx: &mut Tx<'_>) -> Result<Vec<Token>> {
    tx.rows(&ALL, &[], read_row).await
}

fn read_row(row: &Row<'_>) -> Result<Token> {
    let mut row = row.cursor();
    Ok(Token {
        id: TokenId::from_uuid(row.id()?),
        name: row.text()?,
        role: row.word()?,
        last_four: row.text()?,
        categories: match row.opt_text()? {
            Some(text) => Some(serde_json::from_str(&text).map_err(|error| Error::row("tokens", error))?),
            None => None,
        },
        created_at: row.time()?,
        created_by: row.text()?,
        expires_at: row.time()?,
        last_used_at: row.opt_time()?,
        revoked_at: row.opt_time()?,
        hash: Sha256::from_bytes(&row.bytes()?).ok_or_else(|| Error::row("tokens", "a hash has 32 bytes"))?,
    })
}
