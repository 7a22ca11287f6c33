//! A place to measure in: a file or a schema of its own beside the user's, removed afterwards.

use redrive_store::{Open, Options, Schema, Store, StoreUrl};

use crate::{Error, Result, plain};

#[derive(Debug)]
pub struct Scratch {
    pub url: StoreUrl,
    /// The user's database.
    beside: StoreUrl,
    name: String,
}

impl Scratch {
    /// Makes the place, unless the database beside it holds tables of another program.
    pub async fn make(url: &StoreUrl, force: bool) -> Result<Self> {
        if !force {
            refuse_foreign(url).await?;
        }
        Self::named(url, format!("redrive_bench_{}", std::process::id())).await
    }

    async fn named(url: &StoreUrl, name: String) -> Result<Self> {
        let place = match url {
            StoreUrl::Sqlite(path) => {
                let file = path.with_file_name(format!("{name}.db"));
                if file.exists() {
                    return Err(Error::Refused(format!("{} is in the way; remove it", file.display())));
                }
                StoreUrl::Sqlite(file)
            }
            StoreUrl::Postgres(text) => {
                plain::execute(url, &format!("CREATE SCHEMA {name}")).await?;
                let joint = if text.contains('?') { '&' } else { '?' };
                StoreUrl::Postgres(format!("{text}{joint}options=-c%20search_path%3D{name}"))
            }
        };
        Ok(Self { url: place, beside: url.clone(), name })
    }

    /// Does the work and removes the place, also when the work fails or is interrupted.
    pub async fn during<T>(self, work: impl AsyncFnOnce(&Self) -> Result<T>) -> Result<T> {
        let result = unless_interrupted(work(&self)).await;
        let removed = self.remove().await;
        result.and_then(|value| removed.map(|()| value))
    }

    /// Does the work with this place and with more of them, as many as there are in all, and removes them together.
    pub async fn with_more<T>(self, count: u32, work: impl AsyncFnOnce(&[Self]) -> Result<T>) -> Result<T> {
        let (beside, first) = (self.beside.clone(), self.name.clone());
        let mut places = vec![self];
        let result = unless_interrupted(async {
            for nth in 1..count {
                places.push(Self::named(&beside, format!("{first}_{nth}")).await?);
            }
            work(&places).await
        });
        let mut result = result.await;
        for place in places {
            let removed = place.remove().await;
            result = result.and_then(|value| removed.map(|()| value));
        }
        result
    }

    async fn remove(self) -> Result<()> {
        match self.url {
            StoreUrl::Sqlite(file) => {
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
            StoreUrl::Postgres(_) => plain::execute(&self.beside, &format!("DROP SCHEMA {} CASCADE", self.name)).await,
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

async fn unless_interrupted<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => Err(Error::Interrupted),
        result = work => result,
    }
}
