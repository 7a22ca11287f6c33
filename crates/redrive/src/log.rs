//! What the program says of its work while it works: on stderr, as much as `-v` or `RUST_LOG` asks for.

use tracing_subscriber::EnvFilter;

/// A service tells what it does without being asked; a command does not.
pub fn start(verbose: u8, service: bool) {
    let default = match verbose {
        0 if !service => "warn",
        0 | 1 => "redrive=info,redrive_store=info,redrive_control=info,redrive_data=info,warn",
        _ => "redrive=debug,redrive_store=debug,redrive_control=debug,redrive_data=debug,info",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let colour = anstream::stderr().current_choice() != anstream::ColorChoice::Never;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .log_internal_errors(false)
        .init();
}
