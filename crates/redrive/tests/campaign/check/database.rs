//! The database, read by SQL of the checker's own.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use redrive_fixture::TestDatabase;
use rusqlite::types::ValueRef;
use tokio::runtime::Runtime;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::workloads::hex;

/// Every value as text; ids and hashes as hexadecimal digits without marks.
pub type Row = Vec<Option<String>>;

/// How long a server may take to be there again.
const PATIENCE: Duration = Duration::from_secs(60);

pub enum Reader {
    Sqlite { file: PathBuf, connection: Option<rusqlite::Connection> },
    Postgres { url: String, runtime: Runtime, client: Option<tokio_postgres::Client> },
}

impl Reader {
    pub fn new(database: &TestDatabase) -> Self {
        match &database.server {
            None => Self::Sqlite { file: database.path().join("redrive.db"), connection: None },
            Some(server) => {
                let mut runtime = tokio::runtime::Builder::new_multi_thread();
                let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
                Self::Postgres { url: server.url.clone(), runtime, client: None }
            }
        }
    }

    /// Asks again over a new connection until there is an answer.
    pub fn rows(&mut self, sql: &str) -> Vec<Row> {
        let begun = Instant::now();
        loop {
            match self.ask(sql) {
                Ok(rows) => return rows,
                Err(why) => assert!(begun.elapsed() < PATIENCE, "`{sql}`: {why}"),
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    pub fn number(&mut self, sql: &str) -> i64 {
        let rows = self.rows(sql);
        let number = rows.first().and_then(|row| row.first()?.as_ref()?.parse().ok());
        number.unwrap_or_else(|| panic!("`{sql}` gave {rows:?}"))
    }

    fn ask(&mut self, sql: &str) -> Result<Vec<Row>, String> {
        match self {
            Self::Sqlite { file, connection } => {
                let asked = ask_sqlite(file, connection, sql).map_err(|error| error.to_string());
                if asked.is_err() {
                    *connection = None;
                }
                asked
            }
            Self::Postgres { url, runtime, client } => {
                let asked = runtime.block_on(ask_postgres(url, client, sql)).map_err(|error| error.to_string());
                if asked.is_err() {
                    *client = None;
                }
                asked
            }
        }
    }
}

fn ask_sqlite(
    file: &PathBuf,
    connection: &mut Option<rusqlite::Connection>,
    sql: &str,
) -> Result<Vec<Row>, rusqlite::Error> {
    let connection = match connection {
        Some(connection) => connection,
        None => {
            let opened = rusqlite::Connection::open_with_flags(file, rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            opened.busy_timeout(PATIENCE)?;
            connection.insert(opened)
        }
    };
    let mut statement = connection.prepare_cached(sql)?;
    let columns = statement.column_count();
    let mut found = statement.query([])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let value = |column| {
            Ok(match row.get_ref(column)? {
                ValueRef::Null => None,
                ValueRef::Integer(number) => Some(number.to_string()),
                ValueRef::Real(number) => Some(number.to_string()),
                ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
                ValueRef::Blob(bytes) => Some(hex(bytes)),
            })
        };
        rows.push((0..columns).map(value).collect::<Result<_, rusqlite::Error>>()?);
    }
    Ok(rows)
}

async fn ask_postgres(
    url: &str,
    client: &mut Option<tokio_postgres::Client>,
    sql: &str,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let client = match client {
        Some(client) => client,
        None => {
            let (connected, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            client.insert(connected)
        }
    };
    let messages = client.simple_query(sql).await?;
    let rows =
        messages.iter().filter_map(|message| if let SimpleQueryMessage::Row(row) = message { Some(row) } else { None });
    Ok(rows.map(|row| (0..row.len()).map(|column| row.get(column).map(plain)).collect()).collect())
}

/// Ids come as UUIDs and hashes with a mark before their digits.
fn plain(text: &str) -> String {
    let is_uuid = text.len() == 36
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| if matches!(at, 8 | 13 | 18 | 23) { byte == b'-' } else { byte.is_ascii_hexdigit() });
    match text.strip_prefix("\\x") {
        Some(digits) => digits.to_owned(),
        None if is_uuid => text.replace('-', ""),
        None => text.to_owned(),
    }
}
