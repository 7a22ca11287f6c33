//! A program as the configuration describes it: its name, arguments and variables may have placeholders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::find;
use super::reaper::ChildReaper;
use crate::failure::Failure;
use crate::program::{Child, Start};
use crate::settings::{Escape, Placeholders, SettingError, Surroundings, Template, Value, ValueRef};

/// How the configuration describes a program.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) command: &'a [String],
    pub(crate) directory: Option<&'a Path>,
    pub(crate) env: &'a BTreeMap<String, ValueRef>,
}

/// Starts the configured program for one `J` after another.
#[derive(Debug)]
pub(crate) struct Program<J: Placeholders> {
    name: Template<J>,
    arguments: Vec<Template<J>>,
    directory: Option<PathBuf>,
    env: Vec<(String, Value<J>)>,
    around: Surroundings,
}

impl<J: Placeholders> Program<J> {
    pub(crate) fn new(launch: &Launch<'_>, around: &Surroundings) -> Result<Self, SettingError> {
        let word = |(index, text): (usize, &String)| {
            Template::parse(text).map_err(|why| SettingError::at(index, why).within("command"))
        };
        let Some(name) = launch.command.first().filter(|name| !name.is_empty()) else {
            let why = "names no program; write it and its arguments, like [\"python3\", \"x.py\"]";
            return Err(SettingError::at("command", why));
        };
        let resolved = |(name, value): (&String, &ValueRef)| {
            let error = |why: String| SettingError::at(name.as_str(), why).within("env");
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(error("cannot be the name of a variable; correct it".to_owned()));
            }
            Ok((name.clone(), value.resolve(around).map_err(error)?))
        };
        Ok(Self {
            name: word((0, name))?,
            arguments: launch.command.iter().enumerate().skip(1).map(word).collect::<Result<_, _>>()?,
            directory: launch.directory.map(Path::to_owned),
            env: launch.env.iter().map(resolved).collect::<Result<_, _>>()?,
            around: around.clone(),
        })
    }

    /// The secrets of a job that it is given.
    pub(crate) fn secrets(&self, job: &J) -> Vec<String> {
        self.env.iter().flat_map(|(_, value)| value.secrets(job)).collect()
    }

    /// What it would need and does not find here, as far as that does not depend on the work.
    pub(crate) fn missing(&self) -> Vec<String> {
        let has_own_path = self.env.iter().any(|(name, _)| name == "PATH");
        let name = self.name.fixed().filter(|name| name.contains('/') || !has_own_path);
        let program = name.and_then(|name| find::missing(name, self.directory.as_deref(), &self.around.variables));
        program.into_iter().chain(self.env.iter().filter_map(|(_, value)| value.missing())).collect()
    }

    /// The secrets of a job's customer and query that cannot be had here, and why.
    pub(crate) fn missing_for(&self, job: &J) -> Vec<String> {
        self.env.iter().filter_map(|(_, value)| value.missing_for(job)).collect()
    }

    /// Fills in the placeholders from `job`, and reads the secrets.
    pub(crate) async fn invocation(&self, job: &J) -> Result<Invocation, Failure> {
        let mut env = Vec::with_capacity(self.env.len());
        for (variable, value) in &self.env {
            env.push((variable.clone(), value.render(job).await?));
        }
        Ok(Invocation {
            name: self.name.render(job, Escape::Plain),
            arguments: self.arguments.iter().map(|argument| argument.render(job, Escape::Plain)).collect(),
            directory: self.directory.clone(),
            env,
            reaper: self.around.reaper.clone(),
        })
    }
}

/// A program with all that one job gives it. It may hold secrets.
pub(crate) struct Invocation {
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) directory: Option<PathBuf>,
    pub(super) env: Vec<(String, String)>,
    pub(super) reaper: ChildReaper,
}

impl Invocation {
    pub(crate) fn start(&self, start: Start<'_>) -> Result<Child, Failure> {
        let mut command = Command::new(&self.name);
        command.args(&self.arguments).args(start.arguments);
        command.envs(start.env.iter().map(|(name, value)| (name, value)));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            if !directory.is_dir() {
                return Err(Failure::fatal(find::no_directory(directory)).of_setup());
            }
            command.current_dir(directory);
        }
        Child::start(&mut command, self.name.clone(), &self.reaper, start)
    }
}
