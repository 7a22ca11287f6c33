//! Tokens, as scripts have them. The secret itself is in none but the first.

use redrive_core::id::TokenId;
use redrive_core::role::Role;
use redrive_core::sign_in::TokenState;
use redrive_core::time::Timestamp;
use redrive_store::Token;
use serde::Serialize;

/// A token that was made just now. It is shown this once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CreatedTokenShape {
    pub token: String,
    pub name: String,
    pub role: Role,
    pub expires_at: Timestamp,
}

/// A token in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenShape {
    pub id: TokenId,
    pub name: String,
    pub role: Role,
    pub state: TokenState,
    pub last_four: String,
    /// The only categories that it may claim; none for all.
    pub categories: Option<Vec<String>>,
    pub created_at: Timestamp,
    pub created_by: String,
    pub expires_at: Timestamp,
    /// To the minute.
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

impl TokenShape {
    pub fn new(token: Token, now: Timestamp) -> Self {
        Self {
            state: token.state(now),
            id: token.id,
            name: token.name,
            role: token.role,
            last_four: token.last_four,
            categories: token.categories,
            created_at: token.created_at,
            created_by: token.created_by,
            expires_at: token.expires_at,
            last_used_at: token.last_used_at,
            revoked_at: token.revoked_at,
        }
    }
}
