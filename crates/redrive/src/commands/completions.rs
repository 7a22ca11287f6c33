//! `redrive completions SHELL`. The sources of the configuration that is there are completed too; without one, nothing is missed.

use clap::{Command, CommandFactory};

use super::Context;
use crate::cli::{Cli, OneOf};
use crate::config::Config;
use crate::error::Result;
use crate::exit::Exit;

pub fn run(shell: clap_complete::Shell, context: &Context) -> Result<Exit> {
    let mut script = Vec::new();
    let sources = context.config().map_or_else(|_| vec![], |config| names(&config));
    let mut command = Cli::command();
    if !sources.is_empty() {
        command = knowing(command, &sources);
    }
    clap_complete::generate(shell, &mut command, "redrive", &mut script);
    crate::output::line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Exit::Done)
}

/// The names of the configured sources, for as long as the program lasts, which ends with the script.
fn names(config: &Config) -> Vec<&'static str> {
    config.settings.sources.keys().map(|source| &*source.to_string().leak()).collect()
}

/// The command and all below it, with these sources as values of every `--source`.
fn knowing(command: Command, sources: &[&'static str]) -> Command {
    let command = command.mut_args(|argument| match argument.get_id() == "source" {
        true => argument.value_parser(OneOf::new(sources.iter().copied())),
        false => argument,
    });
    command.mut_subcommands(|below| knowing(below, sources))
}
