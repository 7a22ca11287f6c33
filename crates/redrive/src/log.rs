//! What the program says of its work while it works: on stderr, as much as `-v`, `-q` or `RUST_LOG` asks for.

use tracing_subscriber::EnvFilter;

use crate::cli::{Global, LogFormat};

/// A service tells what it does without being asked; a command does not.
pub fn start(global: &Global, service: bool) {
    let default = match global.verbose {
        0 if !service || global.quiet => "warn",
        0 | 1 => "redrive=info,redrive_store=info,redrive_control=info,redrive_data=info,redrive_server=info,warn",
        _ => "redrive=debug,redrive_store=debug,redrive_control=debug,redrive_data=debug,redrive_server=debug,info",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let colour = anstream::stderr().current_choice() != anstream::ColorChoice::Never;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    match global.log_format {
        LogFormat::Text => log.with_ansi(colour).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}
