//! The `redrive` binary: the command line over the planes.

mod cli;
mod commands;
mod config;
mod error;
mod exit;
mod log;
mod output;
mod service;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::commands::Context;
use crate::config::Environment;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    log::start(cli.global.verbose, cli.command.is_service());
    let context = Context { global: cli.global, environment: Environment::of_process() };
    match run(cli.command, &context).await {
        Ok(exit) => exit.into(),
        Err(error) if error.is_broken_pipe() => exit::Exit::Done.into(),
        Err(error) => {
            output::print_error(&error);
            exit::code(&error).into()
        }
    }
}

async fn run(command: Command, context: &Context) -> error::Result<exit::Exit> {
    match command {
        Command::Init(args) => commands::init::run(&args, context).await,
        Command::Demo(args) => commands::demo::run(&args, context).await,
        Command::Migrate => commands::migrate::run(context).await,
        Command::Status(args) => commands::status::run(&args, context).await,
        Command::Doctor(args) => commands::doctor::run(&args, context).await,
        Command::Data(command) => commands::data::run(&command, context).await,
        Command::Ingest(command) => commands::ingest::run(&command, context).await,
        Command::State(command) => commands::state::run(*command, context).await,
        Command::Runs(command) => commands::runs::run(*command, context).await,
        Command::Daemon(args) => commands::daemon::run(&args, context).await,
        Command::Worker(args) => commands::worker::run(&args, context).await,
        Command::Bench(command) => commands::bench::run(&command, context).await,
        Command::Completions { shell } => commands::completions::run(shell),
    }
}
