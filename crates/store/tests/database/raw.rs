//! The database without the store in between: for what the store offers no way to do, or to see.

use std::time::Duration;

use redrive_store::StoreUrl;
use uuid::Uuid;

use crate::support::TestStore;

pub enum Raw {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
}

impl Raw {
    pub async fn of(subject: &TestStore) -> Self {
        Self::open(&subject.database.url).await
    }

    async fn open(url: &StoreUrl) -> Self {
        match url {
            StoreUrl::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path).unwrap();
                connection.busy_timeout(Duration::from_secs(60)).unwrap();
                Self::Sqlite(connection)
            }
            StoreUrl::Postgres(url) => {
                let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                Self::Postgres(client)
            }
        }
    }

    pub fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// The last statement's rows, every value as its text.
    pub async fn rows(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare(sql).unwrap();
                let columns = statement.column_count();
                let rows =
                    statement.query_map((), |row| (0..columns).map(|nth| Ok(shown(row.get_ref(nth)?))).collect());
                rows.unwrap().collect::<Result<_, _>>().unwrap()
            }
            Self::Postgres(client) => {
                let messages = client.simple_query(sql).await.unwrap();
                let rows = messages.iter().filter_map(|message| {
                    if let tokio_postgres::SimpleQueryMessage::Row(row) = message { Some(row) } else { None }
                });
                rows.map(|row| (0..row.len()).map(|nth| row.get(nth).map(str::to_owned)).collect()).collect()
            }
        }
    }

    /// Runs statements that answer nothing.
    pub async fn run(&self, sql: &str) {
        match self {
            Self::Sqlite(connection) => connection.execute_batch(sql).unwrap(),
            Self::Postgres(client) => client.batch_execute(sql).await.unwrap(),
        }
    }

    pub async fn int(&self, sql: &str) -> i64 {
        self.rows(sql).await[0][0].as_deref().unwrap().parse().unwrap()
    }

    /// Waits until a statement of another connection to PostgreSQL waits for a lock.
    pub async fn wait_for_lock(&self) {
        let waiting =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let some_wait = async {
            while self.int(waiting).await == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), some_wait).await.expect("nothing waits for a lock");
    }

    /// An id as this database writes it in a statement.
    pub fn id(&self, id: Uuid) -> String {
        match self {
            Self::Sqlite(_) => format!("x'{}'", id.simple()),
            Self::Postgres(_) => format!("'{id}'::uuid"),
        }
    }

    /// Bytes as this database writes them in a statement.
    pub fn bytes(&self, hex: &str) -> String {
        match self {
            Self::Sqlite(_) => format!("x'{hex}'"),
            Self::Postgres(_) => format!("decode('{hex}', 'hex')"),
        }
    }
}

/// Runs statements in a transaction, lets `work` run into it, and commits. SQLite does not tell who waits for its writer.
pub async fn meanwhile<T: Send + 'static>(
    subject: &TestStore,
    statements: &[&str],
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    let raw = Raw::of(subject).await;
    raw.run(if raw.is_postgres() { "BEGIN" } else { "BEGIN IMMEDIATE" }).await;
    for statement in statements {
        raw.run(statement).await;
    }
    let task = tokio::spawn(work);
    if raw.is_postgres() {
        Raw::of(subject).await.wait_for_lock().await;
    }
    raw.run("COMMIT").await;
    task.await.unwrap()
}

fn shown(value: rusqlite::types::ValueRef<'_>) -> Option<String> {
    use rusqlite::types::ValueRef;
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(value) => Some(value.to_string()),
        ValueRef::Real(value) => Some(value.to_string()),
        ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
    }
}
