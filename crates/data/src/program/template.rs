//! A program as the configuration describes it: its name, arguments and variables may have placeholders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::reaper::ChildReaper;
use crate::failure::Failure;
use crate::program::{Child, Start};
use crate::settings::{Escape, Placeholders, SettingError, Template, Value, ValueRef, Variables};

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
    reaper: ChildReaper,
}

impl<J: Placeholders> Program<J> {
    pub(crate) fn new(
        launch: &Launch<'_>,
        variable: Variables<'_>,
        reaper: &ChildReaper,
    ) -> Result<Self, SettingError> {
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
            Ok((name.clone(), value.resolve(variable).map_err(error)?))
        };
        Ok(Self {
            name: word((0, name))?,
            arguments: launch.command.iter().enumerate().skip(1).map(word).collect::<Result<_, _>>()?,
            directory: launch.directory.map(Path::to_owned),
            env: launch.env.iter().map(resolved).collect::<Result<_, _>>()?,
            reaper: reaper.clone(),
        })
    }

    pub(crate) fn secrets(&self) -> Vec<String> {
        self.env.iter().flat_map(|(_, value)| value.secrets()).collect()
    }

    /// Fills in the placeholders from `job` and starts the program.
    pub(crate) fn start(&self, job: &J, start: Start<'_>) -> Result<Child, Failure> {
        let name = self.name.render(job, Escape::Plain);
        let mut command = Command::new(&name);
        command.args(self.arguments.iter().map(|argument| argument.render(job, Escape::Plain)));
        command.args(start.arguments).envs(start.env.iter().map(|(name, value)| (name, value)));
        for (variable, value) in &self.env {
            command.env(variable, value.render(job)?);
        }
        if let Some(directory) = &self.directory {
            if !directory.is_dir() {
                let directory = directory.display();
                let why = format!("directory {directory} does not exist; create it or correct it");
                return Err(Failure::fatal(why).of_setup());
            }
            command.current_dir(directory);
        }
        Child::start(&mut command, name, &self.reaper, start)
    }
}
