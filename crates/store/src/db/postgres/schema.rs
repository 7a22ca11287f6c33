//! What the database holds, and bringing it up to date.

use std::time::Duration;

use crate::db::Schema;
use crate::error::{Error, Result};
use crate::migrate;

use super::Postgres;
use super::fault::Fault;
use super::server::CommitSent;

const MIGRATION_LOCK: i64 = 0x7265_6472_6976_6500;

/// How long a look at the tables may take, and how long a migration, which may rewrite large ones.
const LOOK: Duration = Duration::from_secs(10);
const MIGRATION: Duration = Duration::from_secs(3600);

impl Postgres {
    pub(in crate::db) async fn schema(&self) -> Result<Schema> {
        self.limited("schema", LOOK, &CommitSent::default(), self.look_at_schema()).await
    }

    async fn look_at_schema(&self) -> Result<Schema> {
        let client = self.client("schema").await?;
        let fault = |error| self.fault("schema", error);
        let tables: Vec<String> = client
            .query_typed("SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()", &[])
            .await
            .map_err(fault)?
            .iter()
            .map(|row| row.get(0))
            .collect();
        if tables.is_empty() {
            client.give_back();
            return Ok(Schema::Empty);
        }
        if !tables.iter().any(|table| table == "redrive_schema") {
            client.give_back();
            return Ok(Schema::Foreign);
        }
        let row = client.query_typed_one("SELECT max(version) FROM redrive_schema", &[]).await.map_err(fault)?;
        client.give_back();
        let version = row.get::<_, Option<i64>>(0).unwrap_or(0);
        let beside_others = tables.iter().any(|table| !migrate::is_ours(table));
        Ok(Schema::Redrive { version, beside_others })
    }

    pub(in crate::db) async fn migrate(&self) -> Result<(i64, i64)> {
        if self.schema().await? == Schema::Foreign {
            return Err(Error::Foreign { place: self.place.clone() });
        }
        let commit = CommitSent::default();
        self.limited("migrate", MIGRATION, &commit, self.take_steps(&commit)).await
    }

    async fn take_steps(&self, commit: &CommitSent) -> Result<(i64, i64)> {
        let mut client = self.client("migrate").await?;
        let fault = |error| self.fault("migrate", error);
        let transaction = client.transaction().await.map_err(fault)?;
        let lock = format!(
            "SET LOCAL lock_timeout = '60s'; SET LOCAL statement_timeout = 0; \
             SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"
        );
        transaction.batch_execute(&lock).await.map_err(fault)?;
        transaction
            .batch_execute("CREATE TABLE IF NOT EXISTS redrive_schema (version BIGINT PRIMARY KEY)")
            .await
            .map_err(fault)?;
        let row = transaction.query_typed_one("SELECT max(version) FROM redrive_schema", &[]).await.map_err(fault)?;
        let found = row.get::<_, Option<i64>>(0).unwrap_or(0);
        migrate::check_known(&self.place, found)?;
        let mut version = found;
        for step in migrate::steps_after(found) {
            transaction.batch_execute(step.postgres).await.map_err(fault)?;
            let noted = format!("INSERT INTO redrive_schema (version) VALUES ({})", step.version);
            transaction.batch_execute(&noted).await.map_err(fault)?;
            version = step.version;
        }
        commit.sent();
        transaction.commit().await.map_err(fault)?;
        client.give_back();
        Ok((found, version))
    }

    fn fault(&self, name: &'static str, error: tokio_postgres::Error) -> Error {
        Fault::Reported(error).error(&self.place, name)
    }
}
