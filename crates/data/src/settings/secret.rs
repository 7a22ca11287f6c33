//! Secrets: named in the configuration, read from the environment, a file or a program, and never shown.
//!
//! A secret is looked for when it is needed, and not before: one that is missing keeps only its own source from being asked.
//! Its name may hold placeholders, so that each customer has a credential of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::surroundings::{Surroundings, Variables};
use super::template::{Escape, Placeholders, Template};
use super::used::UsedByName;
use crate::failure::Failure;
use crate::program::SecretProgram;

/// How the configuration names a secret: `{ env = "NAME" }`, `{ file = "PATH" }` or `{ command = ["PROGRAM", …] }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretRef {
    Env(String),
    File(PathBuf),
    Command(SecretCommand),
}

/// A program that prints a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretCommand {
    pub command: Vec<String>,
    /// How long its answer is used before it is asked again.
    pub ttl: Duration,
    /// How long it may take.
    pub timeout: Duration,
    /// Where it runs.
    pub directory: Option<PathBuf>,
}

impl SecretRef {
    /// How long a program's answer is used unless `ttl` says otherwise.
    pub const TTL: Duration = Duration::from_secs(300);
    /// How long a program may take unless `timeout` says otherwise.
    pub const TIMEOUT: Duration = Duration::from_secs(30);

    /// Prepares the secret to be read. An error says that its name cannot be one; whether the secret is there shows when
    /// it is read.
    pub fn resolve<J: Placeholders>(&self, around: &Surroundings) -> Result<Secret<J>, String> {
        let place = match self {
            Self::Env(name) => {
                let (name, variables) = (Template::parse(name)?, around.variables.clone());
                Place::Variable { name, variables, taken: Arc::default() }
            }
            Self::File(path) => Place::File(Template::parse(&path.to_string_lossy())?),
            Self::Command(command) => Place::Program(Arc::new(SecretProgram::new(command, around)?)),
        };
        Ok(Secret { place, used: Arc::default() })
    }

    /// Has a relative path begin in this folder.
    pub fn start_from(&mut self, folder: &Path) {
        match self {
            Self::Env(_) => {}
            Self::File(path) => *path = folder.join(&*path),
            Self::Command(command) => command.directory = super::paths::directory(command.directory.take(), folder),
        }
    }
}

/// A secret that a `J` may have a part in naming.
pub struct Secret<J: Placeholders> {
    place: Place<J>,
    /// A secret may change between its use and the moment when its text must be blacked out.
    used: Arc<UsedByName>,
}

enum Place<J: Placeholders> {
    Variable {
        name: Template<J>,
        variables: Variables,
        /// Variables, each with the name that it was first asked for by: two that are written alike must not be given
        /// one credential.
        taken: Arc<Mutex<BTreeMap<String, String>>>,
    },
    File(Template<J>),
    Program(Arc<SecretProgram<J>>),
}

impl<J: Placeholders> Secret<J> {
    /// Reads the secret of one `J`. An error is nobody's fault but the setup's: no other attempt would fare better.
    pub async fn read(&self, job: &J) -> Result<String, Failure> {
        let text = match &self.place {
            Place::Variable { name, taken, .. } => {
                refuse_alike(taken, self.name(job), name.render(job, Escape::Plain))?;
                self.at_hand(job)
            }
            Place::File(_) => self.at_hand(job),
            Place::Program(program) => program.ask(job).await,
        };
        let text = text.map_err(|failure| if self.is_shared() { failure } else { failure.of_customer() })?;
        self.used.remember(&self.name(job), &text);
        Ok(text)
    }

    /// What it is, where that can be had at once, and what it was whenever it was read lately.
    pub fn known(&self, job: &J) -> Vec<String> {
        let name = self.name(job);
        if let Ok(text) = self.at_hand(job) {
            self.used.remember(&name, &text);
        }
        self.used.of(&name)
    }

    /// Why it cannot be read here. One that depends on the work is looked for when there is some.
    pub fn missing(&self) -> Option<String> {
        match &self.place {
            Place::Variable { name, variables, .. } => find_variable(variables, name.fixed()?).err(),
            Place::File(path) => read_file(path.fixed()?).err(),
            Place::Program(program) => program.missing(),
        }
    }

    /// Why the one of a job's customer and query cannot be read here. One that depends on more than that, or that has to be
    /// asked for, is not looked for.
    pub fn missing_for(&self, job: &J) -> Option<String> {
        match &self.place {
            Place::Variable { name, variables, .. } if name.is_lasting() => {
                find_variable(variables, &self.name(job)).err()
            }
            Place::File(path) if path.is_lasting() => read_file(&self.name(job)).err(),
            Place::Variable { .. } | Place::File(_) | Place::Program(_) => None,
        }
    }

    /// Whether every piece of work has the same one.
    pub(crate) fn is_shared(&self) -> bool {
        match &self.place {
            Place::Variable { name, .. } => name.fixed().is_some(),
            Place::File(path) => path.fixed().is_some(),
            Place::Program(program) => program.is_shared(),
        }
    }

    fn at_hand(&self, job: &J) -> Result<String, Failure> {
        let name = self.name(job);
        let read = match &self.place {
            Place::Variable { variables, .. } => find_variable(variables, &name),
            Place::File(_) => read_file(&name),
            Place::Program(_) => Err("it has to be asked for".to_owned()),
        };
        read.map_err(|why| Failure::retryable(why).of_setup())
    }

    /// The variable, the file or the command, with what `job` fills in. A value stays within its name: it can neither
    /// lead into another folder nor make a name that no variable can have.
    fn name(&self, job: &J) -> String {
        match &self.place {
            Place::Variable { name, .. } => name.render(job, Escape::Variable),
            Place::File(path) => path.render(job, Escape::FileName),
            Place::Program(program) => program.words(job).join("\0"),
        }
    }
}

fn find_variable(variables: &Variables, name: &str) -> Result<String, String> {
    let value = variables.get(name).filter(|value| !value.is_empty());
    value.ok_or_else(|| format!("the environment has no {name}; set it and start the process again, or name a file"))
}

fn read_file(path: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read the secret in {path}: {error}"))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Refuses a variable that another name was made into before.
fn refuse_alike(taken: &Mutex<BTreeMap<String, String>>, variable: String, asked: String) -> Result<(), Failure> {
    let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
    let first = taken.entry(variable.clone()).or_insert_with(|| asked.clone());
    if *first == asked {
        return Ok(());
    }
    let why = format!("{first} and {asked} are both the variable {variable}; give them files, {{ file = \"…\" }}");
    Err(Failure::fatal(why))
}

impl<J: Placeholders> fmt::Debug for Secret<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests;
