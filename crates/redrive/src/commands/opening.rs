//! Opening the configured store to change it. Only commands that bring in something new make a missing database, and they
//! say so: any other, started in the wrong folder, would run on an empty database unnoticed.

use std::path::Path;

use redrive_store::{Open, Store, StoreUrl};

use super::Context;
use crate::config::Config;
use crate::output;

/// What to do about a database that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    Make,
    Refuse,
}

/// Opens the configured store. A SQLite file belongs to this program and is kept up to date by it; a server's schema is
/// changed only by `redrive migrate`.
pub async fn open(config: &Config, missing: Missing, context: &Context) -> redrive_store::Result<Store> {
    context.stop.in_order();
    let (how, new) = match (&config.store, missing) {
        (StoreUrl::Sqlite(path), Missing::Make) => (Open::Migrate, no_file(path).then_some(path)),
        (StoreUrl::Sqlite(_), Missing::Refuse) => (Open::Upgrade, None),
        (StoreUrl::Postgres(_), _) => (Open::Current, None),
    };
    let store = Store::open(&config.store, how, context.store_options(config)).await?;
    if let Some(path) = new
        && !context.global.quiet
    {
        output::note(&format!("made a new, empty database at {}", absolute(path)));
    }
    Ok(store)
}

/// Whether the configured database is a file that is not there.
pub(super) fn is_absent(store: &StoreUrl) -> bool {
    match store {
        StoreUrl::Sqlite(path) => no_file(path),
        StoreUrl::Postgres(_) => false,
    }
}

/// Whether there is no file where one could be made. A folder that is not there is a slip, and one that may not be looked
/// into hides what is there: opening tells of both.
fn no_file(path: &Path) -> bool {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    matches!(path.try_exists(), Ok(false)) && parent.is_none_or(Path::is_dir)
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}
