//! `redrive man DIRECTORY`: a manual page for the program and one for each command.

use std::path::Path;

use clap::CommandFactory;

use super::Context;
use crate::cli::Cli;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;

pub fn run(directory: &Path, context: &Context) -> Result<Exit> {
    let written = |error| Error::io(format!("cannot write manual pages to {}", directory.display()))(error);
    std::fs::create_dir_all(directory).map_err(written)?;
    clap_mangen::generate_to(Cli::command(), directory).map_err(written)?;
    if !context.global.quiet {
        output::line(&format!("wrote the manual pages to {0}; `man -l {0}/redrive.1` shows one", directory.display()))?;
    }
    Ok(Exit::Done)
}
