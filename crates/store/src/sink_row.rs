//! Which raw sink this database writes to.

use crate::db::Sql;
use crate::error::Result;
use crate::handles::{DataStore, View, read, transact};
use crate::raw::SinkId;

static KNOWN: Sql = Sql::new(
    "/* raw_sink::known */
     SELECT sink_id
     FROM raw_sink",
);

static KEEP: Sql = Sql::new(
    "/* raw_sink::keep */
     INSERT INTO raw_sink (one, adopted_at, sink_id)
     VALUES (1, CAST(?1 AS BIGINT), ?2)
     ON CONFLICT (one) DO NOTHING",
);

static ADOPT: Sql = Sql::new(
    "/* raw_sink::adopt */
     INSERT INTO raw_sink (one, adopted_at, sink_id)
     VALUES (1, CAST(?1 AS BIGINT), ?2)
     ON CONFLICT (one) DO UPDATE SET adopted_at = excluded.adopted_at, sink_id = excluded.sink_id",
);

impl View {
    /// The sink that this database writes to, once it has written to one.
    pub async fn raw_sink(&self) -> Result<Option<SinkId>> {
        read!(self, "raw sink", |tx| tx.row(&KNOWN, &[], |row| row.id(0).map(SinkId::from_uuid)))
    }
}

impl DataStore {
    /// Keeps the id of the first sink that is written to; gives the one that is kept.
    pub async fn keep_sink(&self, id: SinkId) -> Result<SinkId> {
        self.write_sink(&KEEP, id).await
    }

    /// Puts another sink in the place of the one that is kept.
    pub async fn adopt_sink(&self, id: SinkId) -> Result<SinkId> {
        self.write_sink(&ADOPT, id).await
    }

    async fn write_sink(&self, sql: &'static Sql, id: SinkId) -> Result<SinkId> {
        transact!(self.inner, "raw sink", |tx| {
            tx.execute(sql, &[tx.now().micros().into(), id.uuid().into()]).await?;
            let kept = tx.row(&KNOWN, &[], |row| row.id(0).map(SinkId::from_uuid)).await?;
            Ok(kept.unwrap_or(id))
        })
    }
}
