//! The `redrive` binary: the command line over the planes.

mod cli;
mod commands;
mod config;
mod error;
mod exit;
mod input;
mod log;
mod log_json;
mod output;
mod remedy;
mod service;
mod shell;
mod stop;
mod traces;

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use redrive_metrics::Metrics;

use crate::cli::{Cli, Command, Global};
use crate::commands::Context;
use crate::config::{Config, Environment};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output::terminal::Screen;
use crate::stop::StopSignals;
use crate::traces::Traces;

/// How long work on other threads may go on when the command has ended. A sink that does not answer would hold it for
/// longer; what it leaves unfinished is not taken for an object.
const LEFTOVERS: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::print_error(&Error::io("cannot start")(error));
            return Exit::Unavailable.into();
        }
    };
    let (exit, traces) = runtime.block_on(start());
    runtime.shutdown_timeout(LEFTOVERS);
    // Every span has ended now.
    traces.end();
    exit
}

async fn start() -> (ExitCode, Traces) {
    let cli = Cli::parse();
    output::terminal::choose_colours(cli.global.color);
    let environment = Environment::of_process();
    let endpoint = endpoint(&cli, &environment);
    let traces = log::start(&cli.global, cli.command.is_service(), endpoint.as_deref());
    let exit = obey(cli, environment).await;
    (exit, traces)
}

/// Where a process that works or serves sends its traces. A configuration that cannot be read is the command's to complain of.
fn endpoint(cli: &Cli, environment: &Environment) -> Option<String> {
    let is_traced = matches!(cli.command, Command::Worker(_) | Command::Daemon(_) | Command::Serve(_));
    let config = is_traced.then(|| Config::load(cli.global.config.as_deref(), environment).ok())??;
    config.settings.telemetry.otlp_endpoint
}

async fn obey(cli: Cli, environment: Environment) -> ExitCode {
    let stop = match StopSignals::listen() {
        Ok(stop) => stop,
        Err(error) => return end(Err(Error::io("cannot listen for signals")(error)), false),
    };
    let global = Global { screen: Screen::of_stdout(&environment), ..cli.global };
    let context = Context { global, environment, stop, metrics: Metrics::default() };
    let mut running = pin!(run(cli.command, &context));
    tokio::select! {
        biased;
        ended = &mut running => end(ended, context.stop.is_requested()),
        () = context.stop.must_end() => {
            output::print_error(&Error::Interrupted);
            // What hangs would also hang when it is dropped.
            std::process::exit(Exit::Interrupted as i32)
        }
    }
}

fn end(ended: Result<Exit>, is_interrupted: bool) -> ExitCode {
    let exit = match ended {
        Ok(exit) => exit,
        Err(error) if error.is_broken_pipe() => Exit::Done,
        Err(error) => {
            output::print_error(&error);
            exit::code(&error)
        }
    };
    // A database that was given up because of a signal may well be available.
    if is_interrupted && exit == Exit::Unavailable { Exit::Interrupted.into() } else { exit.into() }
}

async fn run(command: Command, context: &Context) -> Result<Exit> {
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
        Command::Serve(args) => commands::serve::run(&args, context).await,
        Command::Token(command) => commands::token::run(&command, context).await,
        Command::Notify(command) => commands::notify::run(&command, context).await,
        Command::Bench(command) => commands::bench::run(&command, context).await,
        Command::Completions { shell } => commands::completions::run(shell, context),
        Command::Man { directory } => commands::man::run(&directory, context),
    }
}
