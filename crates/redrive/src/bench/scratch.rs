//! A place to measure in: a file or a schema of its own beside the user's, removed afterwards.

use std::path::PathBuf;

use anyhow::Context as _;
use redrive_store::{Open, Options, Schema, Store, StoreUrl};
use tokio_postgres::NoTls;

use crate::cli::BenchCommon;
use crate::commands::Context;
use crate::exit::{Interrupted, Refusal};

#[derive(Debug)]
pub struct Scratch {
    pub url: StoreUrl,
    home: Home,
}

#[derive(Debug)]
enum Home {
    File(PathBuf),
    Schema { url: String, name: String },
}

impl Scratch {
    /// Makes the place, unless the database beside it is somebody else's.
    pub async fn make(args: &BenchCommon, context: &Context) -> anyhow::Result<Self> {
        let url = match &args.store {
            Some(url) => StoreUrl::parse(url)?,
            None => context.config()?.store,
        };
        if !args.force {
            refuse_foreign(&url).await?;
        }
        let name = format!("redrive_bench_{}", std::process::id());
        match url {
            StoreUrl::Sqlite(path) => {
                let file = path.with_file_name(format!("{name}.db"));
                if file.exists() {
                    return Err(Refusal(format!("{} is in the way; remove it", file.display())).into());
                }
                Ok(Self { url: StoreUrl::Sqlite(file.clone()), home: Home::File(file) })
            }
            StoreUrl::Postgres(url) => {
                execute(&url, &format!("CREATE SCHEMA {name}")).await?;
                let joint = if url.contains('?') { '&' } else { '?' };
                let inside = format!("{url}{joint}options=-c%20search_path%3D{name}");
                Ok(Self { url: StoreUrl::Postgres(inside), home: Home::Schema { url, name } })
            }
        }
    }

    /// Does the work and removes the place, also when it fails or is interrupted.
    pub async fn during<T>(self, work: impl AsyncFnOnce(&Self) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let result = tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => Err(Interrupted.into()),
            result = work(&self) => result,
        };
        let removed = self.remove().await;
        result.and_then(|value| removed.map(|()| value))
    }

    async fn remove(self) -> anyhow::Result<()> {
        match self.home {
            Home::File(file) => {
                for suffix in ["", "-wal", "-shm"] {
                    let mut path = file.clone().into_os_string();
                    path.push(suffix);
                    match std::fs::remove_file(&path) {
                        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                            return Err(error).with_context(|| format!("cannot remove {}", file.display()));
                        }
                        _ => {}
                    }
                }
                Ok(())
            }
            Home::Schema { url, name } => execute(&url, &format!("DROP SCHEMA {name} CASCADE")).await,
        }
    }

    pub async fn open(&self, connections: u32) -> anyhow::Result<Store> {
        let connections = usize::try_from(connections).unwrap_or(8);
        Ok(Store::open(&self.url, Open::Migrate, Options { connections, ..Options::default() }).await?)
    }
}

async fn refuse_foreign(url: &StoreUrl) -> anyhow::Result<()> {
    if let StoreUrl::Sqlite(path) = url
        && !path.exists()
    {
        return Ok(());
    }
    let store = Store::open(url, Open::Untouched, Options::default()).await?;
    match store.schema().await? {
        Schema::Empty | Schema::Redrive { beside_others: false, .. } => Ok(()),
        Schema::Foreign | Schema::Redrive { beside_others: true, .. } => {
            let place = store.place();
            Err(Refusal(format!("{place} holds tables of something else; use --force to measure beside them")).into())
        }
    }
}

async fn execute(url: &str, sql: &str) -> anyhow::Result<()> {
    let place = StoreUrl::Postgres(url.to_owned()).place();
    let connected = tokio_postgres::connect(url, NoTls).await;
    let (client, connection) = connected.with_context(|| format!("cannot reach {place}"))?;
    let driver = tokio::spawn(connection);
    let result = client.batch_execute(sql).await;
    drop(client);
    let _ = driver.await;
    result.with_context(|| format!("the database refused {sql:?}"))
}
