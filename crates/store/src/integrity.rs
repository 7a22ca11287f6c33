//! Whether the database itself is sound, below anything that this program writes into it.

use std::sync::Arc;

use crate::db::{Dialect, Tx};
use crate::error::{Error, Result};
use crate::handles::{View, read};
use crate::migrate;

/// How thoroughly to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Every page, but not whether each index fits its table.
    Quick,
    Full,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Integrity {
    Sound,
    /// What the database says is wrong.
    Damaged(Vec<String>),
    /// Nothing cheap could be asked, and why.
    Unchecked(&'static str),
}

/// How many faults SQLite names at the most.
const FAULTS: u32 = 20;

impl View {
    /// Asks the database to check itself. A look at a damaged file may also end in an error, which says as much.
    pub async fn integrity(&self, depth: Depth) -> Result<Integrity> {
        let found = read!(self, "integrity", |tx, depth| check(tx, *depth));
        match found {
            Err(Error::Lost { why, .. } | Error::Statement { why, .. }) => Ok(Integrity::Damaged(vec![why])),
            found => found,
        }
    }
}

async fn check(tx: &mut Tx<'_>, depth: Depth) -> Result<Integrity> {
    match tx.dialect() {
        Dialect::Sqlite => check_file(tx, depth).await,
        Dialect::Postgres => check_indexes(tx, depth).await,
    }
}

async fn check_file(tx: &mut Tx<'_>, depth: Depth) -> Result<Integrity> {
    let pragma = match depth {
        Depth::Quick => format!("PRAGMA quick_check({FAULTS})"),
        Depth::Full => format!("PRAGMA integrity_check({FAULTS})"),
    };
    let mut faults = tx.built_rows(&pragma, &[], |row| row.text(0)).await?;
    faults.retain(|fault| fault != "ok");
    Ok(if faults.is_empty() { Integrity::Sound } else { Integrity::Damaged(faults) })
}

/// Has the extension amcheck look at the order of each index, where it is installed. Nothing else that PostgreSQL offers is
/// cheap: comparing a table with its indexes reads all of both.
async fn check_indexes(tx: &mut Tx<'_>, depth: Depth) -> Result<Integrity> {
    if depth == Depth::Quick {
        return Ok(Integrity::Unchecked("left out with --quick"));
    }
    let installed = tx
        .built_rows("/* integrity::installed */ SELECT 1 FROM pg_extension WHERE extname = 'amcheck'", &[], |_| Ok(()))
        .await?;
    if installed.is_empty() {
        return Ok(Integrity::Unchecked("PostgreSQL checks its indexes only with `CREATE EXTENSION amcheck`"));
    }
    let tables: Vec<String> = migrate::tables().map(|table| format!("'{table}'")).collect();
    let tables = tables.join(", ");
    let sql = format!(
        "/* integrity::check_indexes */
         SELECT CAST(bt_index_check(i.indexrelid) AS TEXT)
         FROM pg_index i
         JOIN pg_class t ON t.oid = i.indrelid
         JOIN pg_class c ON c.oid = i.indexrelid
         JOIN pg_am a ON a.oid = c.relam
         WHERE a.amname = 'btree' AND i.indisvalid AND t.relnamespace = CAST(current_schema() AS regnamespace)
         AND t.relname IN ({tables})"
    );
    tx.built_rows(&sql, &[], |_| Ok(())).await?;
    Ok(Integrity::Sound)
}
