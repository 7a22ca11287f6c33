//! `redrive init`: a configuration file to start from, and the database it names.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use redrive_store::{Open, Options, Schema, Store, StoreUrl};

use super::Context;
use super::sink::adopt_sink;
use crate::cli::Init;
use crate::config::{Config, FILE};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;

const TEMPLATE: &str = include_str!("init.toml");

pub async fn run(args: &Init, context: &Context) -> Result<Exit> {
    let directory = args.directory.clone().unwrap_or_else(|| PathBuf::from("."));
    let url = args.store.as_deref().unwrap_or("sqlite:redrive.db");
    // A wrong URL must not leave a file behind that holds it.
    let store_url = StoreUrl::parse(url).map_err(|error| Error::Usage(format!("--store: {error}")))?;
    std::fs::create_dir_all(&directory).map_err(Error::io(format!("cannot make {}", directory.display())))?;
    let file = directory.join(FILE);
    if args.adopt_sink {
        return adopt(&file, context).await;
    }
    if file.exists() && !args.force {
        return complete(&file, args, context).await;
    }
    let store = Store::open(&beneath(&directory, store_url), Open::Migrate, Options::default()).await?;
    let quoted = toml::Value::String(url.to_owned()).to_string();
    let text = TEMPLATE.replace("\"sqlite:redrive.db\"", &quoted);
    // No other user may read a password.
    let mode = if redrive_store::redacted(url) == url { 0o644 } else { 0o600 };
    write_whole(&file, &text, mode).map_err(Error::io(format!("cannot write {}", file.display())))?;
    if !context.global.quiet {
        output::line(&format!("wrote {} and made {}", file.display(), store.place()))?;
    }
    Ok(Exit::Done)
}

/// Takes the configured place for the database's raw sink.
async fn adopt(file: &Path, context: &Context) -> Result<Exit> {
    let config = Config::load(Some(file), &context.environment)?;
    let store = Store::open(&config.store, Open::Current, config.settings.store.options()).await?;
    let id = adopt_sink(&config, &store).await?;
    if !context.global.quiet {
        output::line(&format!("{} writes to {} from now on, as sink {id}", store.place(), config.raw))?;
    }
    Ok(Exit::Done)
}

/// A configuration that is there is kept. What it names may still have to be made.
async fn complete(file: &Path, args: &Init, context: &Context) -> Result<Exit> {
    let there = || Error::Refused(format!("{} is there already; use --force to replace it", file.display()));
    // Which of the two databases would be meant is not for us to guess.
    if args.store.is_some() {
        return Err(there());
    }
    let config = Config::load(Some(file), &context.environment)?;
    let store = Store::open(&config.store, Open::AsIs, Options::default()).await?;
    match store.schema().await? {
        Schema::Empty => store.migrate().await.map(drop)?,
        Schema::Redrive { .. } | Schema::Foreign => return Err(there()),
    }
    if !context.global.quiet {
        output::line(&format!("kept {} as it is and made {}", file.display(), store.place()))?;
    }
    Ok(Exit::Done)
}

/// A relative database file lies beside the configuration.
fn beneath(directory: &Path, url: StoreUrl) -> StoreUrl {
    match url {
        StoreUrl::Sqlite(path) if path.is_relative() => StoreUrl::Sqlite(directory.join(path)),
        StoreUrl::Sqlite(path) => StoreUrl::Sqlite(path),
        StoreUrl::Postgres(url) => StoreUrl::Postgres(url),
    }
}

/// All of it or nothing.
fn write_whole(file: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let draft = file.with_extension("toml.new");
    let mut out = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&draft)?;
    out.write_all(text.as_bytes())?;
    std::fs::rename(&draft, file)
}
