//! Connections without the store, for the loops it is compared with. They are as durable as the store's own.

use anyhow::Context as _;
use redrive_store::StoreUrl;
use rusqlite::Connection;
use tokio_postgres::{Client, NoTls};

pub fn sqlite(path: &std::path::Path) -> anyhow::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::from_secs(60))?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "cache_size", -64 * 1024)?;
    connection.pragma_update(None, "wal_autocheckpoint", 4000)?;
    Ok(connection)
}

pub async fn postgres(url: &str) -> anyhow::Result<Client> {
    let place = StoreUrl::Postgres(url.to_owned()).place();
    let connected = tokio_postgres::connect(url, NoTls).await;
    let (client, connection) = connected.with_context(|| format!("cannot reach {place}"))?;
    tokio::spawn(connection);
    Ok(client)
}

/// Runs one statement outside the store, to set a measurement up.
pub async fn execute(url: &StoreUrl, sql: &str) -> anyhow::Result<()> {
    match url {
        StoreUrl::Sqlite(path) => {
            let (path, sql) = (path.clone(), sql.to_owned());
            tokio::task::spawn_blocking(move || Ok(sqlite(&path)?.execute_batch(&sql)?)).await?
        }
        StoreUrl::Postgres(url) => Ok(postgres(url).await?.batch_execute(sql).await?),
    }
}
