//! `redrive completions SHELL`.

use clap::CommandFactory;

use crate::cli::Cli;
use crate::error::Result;
use crate::exit::Exit;

pub fn run(shell: clap_complete::Shell) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "redrive", &mut script);
    crate::output::line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Exit::Done)
}
