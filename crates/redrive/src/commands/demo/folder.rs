//! The folder a demo plays in. It is cleared only when all that is in it can be seen to come from an earlier demo;
//! anything else may be somebody's data, and is left alone.

use std::fs::{DirEntry, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use redrive_core::filter::Filter;
use redrive_core::key::LogicalDate;
use redrive_store::{Error, Options, Store, StoreUrl};

use crate::config::FILE;
use crate::exit::Refusal;

const TEMPLATE: &str = include_str!("demo.toml");
/// Stands for the first day in the template.
const START: &str = "START";

/// The made-up source.
const SOURCE: &str = "shop";
const DATABASE: &str = "redrive.db";
/// The files that SQLite keeps beside it.
const BESIDE: [&str; 2] = ["redrive.db-wal", "redrive.db-shm"];
const RAW: &str = "raw";
const RAW_SOURCE: &str = "source=shop";

/// Makes the folder with nothing in it but the configuration. It is the caller's for as long as the handle is held.
pub async fn prepare(directory: &Path, start: LogicalDate) -> anyhow::Result<File> {
    let is_new = !directory.exists();
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let hold = File::open(directory).with_context(|| format!("cannot open {}", directory.display()))?;
    // Where a folder cannot be locked at all, nobody else has locked it either.
    if let Err(TryLockError::WouldBlock) = hold.try_lock() {
        let todo = "wait for it, or name another folder: redrive demo FOLDER";
        return Err(Refusal(format!("another demo is at work in {}; {todo}", directory.display())).into());
    }
    if !is_new {
        let stranger = stranger(directory).await.with_context(|| format!("cannot read {}", directory.display()))?;
        if let Some(what) = stranger {
            let todo = "move it away, or name another folder: redrive demo FOLDER";
            return Err(Refusal(format!("{} holds something else ({what}); {todo}", directory.display())).into());
        }
        clear(directory).with_context(|| format!("cannot clear {}", directory.display()))?;
    }
    let file = directory.join(FILE);
    std::fs::write(&file, TEMPLATE.replace(START, &start.to_string()))
        .with_context(|| format!("cannot write {}", file.display()))?;
    Ok(hold)
}

/// What in the folder no demo has left there, if there is such a thing.
async fn stranger(directory: &Path) -> std::io::Result<Option<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !is_ours(&entry, &name)? {
            return Ok(Some(name));
        }
        names.push(name);
    }
    if names.is_empty() {
        return Ok(None);
    }
    let has = |name: &str| names.iter().any(|found| found == name);
    if !has(FILE) {
        return Ok(Some(format!("{}, without the {FILE} of a demo", names.join(", "))));
    }
    let text = std::fs::read_to_string(directory.join(FILE))?;
    // One that was killed while it wrote its very first file has made nothing else.
    let just_begun = text.is_empty() && names.len() == 1;
    if !just_begun && !is_written_by_a_demo(&text) {
        return Ok(Some(format!("a {FILE} that is not a demo's")));
    }
    if has(RAW)
        && let Some(name) = stranger_in_raw(&directory.join(RAW))?
    {
        return Ok(Some(format!("{RAW}/{name}")));
    }
    if has(DATABASE) { Ok(stranger_in_database(directory.join(DATABASE)).await) } else { Ok(None) }
}

/// Whether a demo makes something of this name and kind. A link leads elsewhere, and so is none of ours.
fn is_ours(entry: &DirEntry, name: &str) -> std::io::Result<bool> {
    let kind = entry.file_type()?;
    Ok(match name {
        FILE | DATABASE => kind.is_file(),
        RAW => kind.is_dir(),
        name => BESIDE.contains(&name) && kind.is_file(),
    })
}

fn is_written_by_a_demo(text: &str) -> bool {
    let (before, after) = TEMPLATE.split_once(START).unwrap_or((TEMPLATE, ""));
    let start = text.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    start.is_some_and(|start| start.parse::<LogicalDate>().is_ok())
}

fn stranger_in_raw(raw: &Path) -> std::io::Result<Option<String>> {
    for entry in std::fs::read_dir(raw)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != RAW_SOURCE || !entry.file_type()?.is_dir() {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

async fn stranger_in_database(file: PathBuf) -> Option<String> {
    let unreadable = |error: Error| Some(format!("a database that cannot be looked at: {error}"));
    let view = match Store::open_read_only(&StoreUrl::Sqlite(file), Options::default()).await {
        Ok(view) => view,
        // It was killed before it had made its tables.
        Err(Error::OlderSchema { found: 0, .. }) => return None,
        Err(error) => return unreadable(error),
    };
    let shop = Filter { source: SOURCE.parse().ok(), ..Filter::default() };
    match (view.count(&Filter::default()).await, view.count(&shop).await) {
        (Ok(all), Ok(ours)) if all == ours => None,
        (Ok(_), Ok(_)) => Some(format!("a {DATABASE} with other sources than the demo's")),
        (Err(error), _) | (_, Err(error)) => unreadable(error),
    }
}

/// The configuration goes last, since it says whose the rest is: one that is killed meanwhile can be begun again.
fn clear(directory: &Path) -> std::io::Result<()> {
    let gone = |removed: std::io::Result<()>| match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    gone(std::fs::remove_dir_all(directory.join(RAW).join(RAW_SOURCE)))?;
    gone(std::fs::remove_dir(directory.join(RAW)))?;
    for file in [DATABASE].iter().chain(&BESIDE).chain(&[FILE]) {
        gone(std::fs::remove_file(directory.join(file)))?;
    }
    Ok(())
}
