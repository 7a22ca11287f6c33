//! Opening the configured store. A database is made only for who is about to change something, and it is said: a service in
//! the wrong folder would else be content with an empty one for ever.

use std::path::Path;

use redrive_store::{Open, Options, Store, StoreUrl};
use tempfile::TempDir;

use super::Context;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::output;

/// Opens the configured store. A SQLite file belongs to this program and is kept up to date by it; a server's schema is
/// changed only by `redrive migrate`.
pub async fn open(config: &Config, context: &Context) -> redrive_store::Result<Store> {
    let (how, new) = match &config.store {
        StoreUrl::Sqlite(path) => (Open::Migrate, is_absent(path).then_some(path)),
        StoreUrl::Postgres(_) => (Open::Current, None),
    };
    let store = Store::open(&config.store, how, Options::default()).await?;
    if let Some(path) = new
        && !context.global.quiet
    {
        output::note(&format!("made a new, empty database at {}", absolute(path)));
    }
    Ok(store)
}

/// The same for who changes nothing: a file that does not exist is not made, and is looked at as if it were empty;
/// what stands in for it lies in a directory that lasts as long as it is held.
pub async fn to_look(config: &Config, context: &Context) -> Result<(Store, Option<TempDir>)> {
    let path = match &config.store {
        StoreUrl::Sqlite(path) if is_absent(path) => path,
        StoreUrl::Sqlite(_) | StoreUrl::Postgres(_) => return Ok((open(config, context).await?, None)),
    };
    if !context.global.quiet {
        output::note(&format!("{} does not exist; `redrive migrate` makes it", absolute(path)));
    }
    let directory = tempfile::tempdir().map_err(Error::io("cannot make a temporary directory; check TMPDIR"))?;
    let url = StoreUrl::Sqlite(directory.path().join("empty.db"));
    let store = Store::open(&url, Open::Migrate, Options::default()).await?;
    Ok((store, Some(directory)))
}

/// Whether there is no file where one could be made. A folder that is not there is a slip, and one that may not be looked
/// into hides what is there: opening tells of both.
fn is_absent(path: &Path) -> bool {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    matches!(path.try_exists(), Ok(false)) && parent.is_none_or(Path::is_dir)
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}
