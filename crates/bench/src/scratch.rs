//! A place to measure in: a file or a schema of its own beside the user's, removed afterwards.

use std::path::PathBuf;

use redrive_store::{Open, Options, Schema, Store, StoreUrl};

use crate::{Error, Result, plain};

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
    /// Makes the place, unless the database beside it holds tables of another program.
    pub async fn make(url: &StoreUrl, force: bool) -> Result<Self> {
        if !force {
            refuse_foreign(url).await?;
        }
        let name = format!("redrive_bench_{}", std::process::id());
        match url {
            StoreUrl::Sqlite(path) => {
                let file = path.with_file_name(format!("{name}.db"));
                if file.exists() {
                    return Err(Error::Refused(format!("{} is in the way; remove it", file.display())));
                }
                Ok(Self { url: StoreUrl::Sqlite(file.clone()), home: Home::File(file) })
            }
            StoreUrl::Postgres(url) => {
                execute(url, &format!("CREATE SCHEMA {name}")).await?;
                let joint = if url.contains('?') { '&' } else { '?' };
                let inside = format!("{url}{joint}options=-c%20search_path%3D{name}");
                Ok(Self { url: StoreUrl::Postgres(inside), home: Home::Schema { url: url.clone(), name } })
            }
        }
    }

    /// Does the work and removes the place, also when it fails or is interrupted.
    pub async fn during<T>(self, work: impl AsyncFnOnce(&Self) -> Result<T>) -> Result<T> {
        let result = tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => Err(Error::Interrupted),
            result = work(&self) => result,
        };
        let removed = self.remove().await;
        result.and_then(|value| removed.map(|()| value))
    }

    async fn remove(self) -> Result<()> {
        match self.home {
            Home::File(file) => {
                for suffix in ["", "-wal", "-shm"] {
                    let mut path = file.clone().into_os_string();
                    path.push(suffix);
                    match std::fs::remove_file(&path) {
                        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                            return Err(Error::io(format!("cannot remove {}", file.display()))(error));
                        }
                        _ => {}
                    }
                }
                Ok(())
            }
            Home::Schema { url, name } => execute(&url, &format!("DROP SCHEMA {name} CASCADE")).await,
        }
    }

    pub async fn open(&self, connections: u32) -> Result<Store> {
        let connections = usize::try_from(connections).unwrap_or(8);
        Ok(Store::open(&self.url, Open::Migrate, Options { connections, ..Options::default() }).await?)
    }
}

async fn refuse_foreign(url: &StoreUrl) -> Result<()> {
    if let StoreUrl::Sqlite(path) = url
        && !path.exists()
    {
        return Ok(());
    }
    let store = Store::open(url, Open::AsIs, Options::default()).await?;
    match store.schema().await? {
        Schema::Empty | Schema::Redrive { beside_others: false, .. } => Ok(()),
        Schema::Foreign | Schema::Redrive { beside_others: true, .. } => {
            let place = store.place();
            Err(Error::Refused(format!("{place} holds another program's tables; use --force to measure beside them")))
        }
    }
}

async fn execute(url: &str, sql: &str) -> Result<()> {
    plain::execute(&StoreUrl::Postgres(url.to_owned()), sql).await
}
