//! Connections without the store, for the loops it is compared with. They are as durable as the store's own.

use redrive_store::StoreUrl;
use rusqlite::Connection;
use tokio_postgres::{Client, NoTls};

use crate::{Error, Result};

pub fn sqlite(path: &std::path::Path) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::from_secs(60))?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "cache_size", -64 * 1024)?;
    connection.pragma_update(None, "wal_autocheckpoint", 4000)?;
    Ok(connection)
}

pub async fn postgres(url: &str) -> Result<Client> {
    let connected = tokio_postgres::connect(url, NoTls).await;
    let (client, connection) = connected.map_err(|source| {
        let place = StoreUrl::Postgres(url.to_owned()).place();
        Error::Postgres { what: format!("cannot reach {place}"), source }
    })?;
    tokio::spawn(connection);
    Ok(client)
}

/// Runs statements outside the store, to set a measurement up.
pub async fn execute(url: &StoreUrl, sql: &str) -> Result<()> {
    match url {
        StoreUrl::Sqlite(path) => {
            let (path, sql) = (path.clone(), sql.to_owned());
            tokio::task::spawn_blocking(move || Ok(sqlite(&path)?.execute_batch(&sql)?)).await?
        }
        StoreUrl::Postgres(url) => {
            let refused = |source| Error::Postgres { what: format!("the database refused {sql:?}"), source };
            postgres(url).await?.batch_execute(sql).await.map_err(refused)
        }
    }
}
