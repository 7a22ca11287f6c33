//! `redrive.toml`, read once. Nothing deeper in the program reads the file or the environment.
//!
//! An unknown key, a bad value or a missing section is an error that names the file, the line and the key. Every key can
//! be overridden by environment: `REDRIVE_STORE__URL` is `store.url`.

mod extraction;
mod fingerprint;
mod ingestion;
mod locations;
mod notify;
mod overlay;
mod processing;
mod queues;
mod sections;
mod server;
mod sources;

use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use redrive_control::Sources;
use redrive_control::runs::Queues;
use redrive_core::any_of::AnyOf;
use redrive_core::key::Source;
use redrive_core::run::Workload;
use redrive_data::notify::Receiver;
use redrive_data::settings::{SettingError, Surroundings, Variables};
use redrive_data::{extract, process};
use redrive_store::StoreUrl;
use redrive_store::raw::{RawOptions, RawUrl, S3Options};

pub use ingestion::Ingestion;
use locations::KeyLocations;
pub use sections::Settings;

/// Where the file lies unless told otherwise.
pub const FILE: &str = "redrive.toml";

/// Settings that cannot be used. What they name is not looked at here, but for the form of its URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ConfigError {
    text: String,
}

impl ConfigError {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

/// The environment as it was when the program started.
#[derive(Debug, Clone, Default)]
pub struct Environment(Vec<(String, String)>);

impl Environment {
    pub fn of_process() -> Self {
        Self(std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The settings with everything they name resolved.
#[derive(Debug, Clone)]
pub struct Config {
    pub settings: Settings,
    pub store: StoreUrl,
    pub raw: RawUrl,
    pub raw_options: RawOptions,
    pub sources: Sources,
    pub ingestion: Ingestion,
    pub queues: Queues,
    pub server: redrive_server::Settings,
    /// The file they came from; none when the defaults serve.
    pub file: Option<PathBuf>,
    /// Whether another process follows the same rules.
    pub fingerprint: String,
    locations: KeyLocations,
}

impl Config {
    /// Reads the file given by `--config` or, without it, by `REDRIVE_CONFIG`; without both, `redrive.toml` here if there is one.
    pub fn load(flag: Option<&Path>, environment: &Environment) -> Result<Self, ConfigError> {
        let named = flag.map(Path::to_path_buf).or_else(|| environment.get("REDRIVE_CONFIG").map(PathBuf::from));
        let file = match named {
            Some(path) => Some(path),
            None => Path::new(FILE).exists().then(|| PathBuf::from(FILE)),
        };
        let text = match &file {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| ConfigError::new(format!("cannot read {}: {error}", path.display())))?,
            None => String::new(),
        };
        let shown = file.as_deref().unwrap_or(Path::new(FILE));
        let (mut settings, locations, fingerprint) = overlay::read(shown, &text, &environment.0)?;
        let folder = file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        settings.start_from(folder);
        settings.check().map_err(|mistake| locations.locate(&mistake))?;
        let bad_url = |section, why: String| {
            locations.locate_redacted(&SettingError::at("url", why.as_str()).within(section), &why)
        };
        let store = StoreUrl::parse(&settings.store.url).map_err(|error| bad_url("store", error.to_string()))?;
        let raw = RawUrl::from_str(&settings.raw.url).map_err(|error| bad_url("raw", error.to_string()))?;
        let (store, raw) = (store_from(store, folder), raw_from(raw, folder));
        let s3 = S3Options::from_vars(environment.0.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let s3 = match settings.raw.ca_file.clone() {
            Some(ca_file) => s3.trusting(ca_file),
            None => s3,
        };
        let sources = sources::resolve(&settings.sources).map_err(|mistake| locations.locate(&mistake))?;
        let ingestion = ingestion::resolve(&settings.ingest).map_err(|mistake| locations.locate(&mistake))?;
        let queues = queues::resolve(&settings.process).map_err(|mistake| locations.locate(&mistake))?;
        let server = server::resolve(&settings.server, &ingestion).map_err(|mistake| locations.locate(&mistake))?;
        let raw_options = RawOptions { s3, ..RawOptions::default() };
        Ok(Self { settings, store, raw, raw_options, sources, ingestion, queues, server, file, fingerprint, locations })
    }

    /// What a worker serves that extracts some of the sources only: nothing of the others is looked at.
    pub fn plan_of(
        &self,
        kinds: &[Workload],
        sources: &AnyOf<Source>,
        environment: &Environment,
    ) -> Result<Plan, ConfigError> {
        let mut settings = self.settings.clone();
        settings.sources.retain(|source, _| sources.admits(source));
        let narrowed = Self { settings, ..self.clone() };
        narrowed.plan(kinds, environment)
    }

    /// Who is told what happens.
    pub fn receivers(&self, environment: &Environment) -> Result<Vec<Receiver>, ConfigError> {
        let environment = environment.clone();
        let around = Surroundings::with(Variables::new(move |name| environment.get(name).map(str::to_owned)));
        notify::resolve(&self.settings.notify, &around).map_err(|mistake| self.locations.locate(&mistake))
    }

    /// What a worker serves of these kinds of work. What a source or a section needs and this machine does not have is no
    /// mistake of the configuration: it shows when it is needed.
    pub fn plan(&self, kinds: &[Workload], environment: &Environment) -> Result<Plan, ConfigError> {
        let environment = environment.clone();
        let around = Surroundings::with(Variables::new(move |name| environment.get(name).map(str::to_owned)));
        let locate = |mistake: SettingError| self.locations.locate(&mistake);
        let mut plan = Plan::default();
        if kinds.contains(&Workload::Extract) {
            plan.sources = extraction::resolve(&self.settings.sources, &around).map_err(locate)?;
        }
        if kinds.contains(&Workload::Process) {
            plan.jobs = true;
            plan.sections = processing::resolve(&self.settings.process, &around).map_err(locate)?;
        }
        plan.uploads = kinds.contains(&Workload::Ingest);
        Ok(plan)
    }
}

/// A database whose relative path begins in this folder.
fn store_from(store: StoreUrl, folder: &Path) -> StoreUrl {
    match store {
        StoreUrl::Sqlite(path) => StoreUrl::Sqlite(folder.join(path)),
        StoreUrl::Postgres(_) => store,
    }
}

/// A raw sink whose relative path begins in this folder.
fn raw_from(raw: RawUrl, folder: &Path) -> RawUrl {
    match raw {
        RawUrl::File(path) => RawUrl::File(folder.join(path)),
        RawUrl::S3 { .. } => raw,
    }
}

/// What a worker can serve, by its configuration.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub sources: extract::Sources,
    pub sections: process::Sections,
    /// Whether jobs are handled, though there may be no section.
    pub jobs: bool,
    /// Whether uploads are parsed.
    pub uploads: bool,
}
