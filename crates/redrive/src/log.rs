//! What the program says of its work while it works: on stderr, as much as `-v`, `-q` or `RUST_LOG` asks for.

use tracing::Metadata;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::cli::{Global, LogFormat};
use crate::log_json::JsonLines;
use crate::traces::Traces;

/// A layer of the log.
pub type AnyLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// A service tells what it does without being asked; a command does not. Gives what has to be ended with the program.
pub fn start(global: &Global, service: bool, otlp_endpoint: Option<&str>) -> Traces {
    let default = match global.verbose {
        0 if !service || global.quiet => "warn",
        0 | 1 => "redrive=info,redrive_store=info,redrive_control=info,redrive_data=info,redrive_server=info,warn",
        _ => "redrive=debug,redrive_store=debug,redrive_control=debug,redrive_data=debug,redrive_server=debug,info",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let colour = anstream::stderr().current_choice() != anstream::ColorChoice::Never;
    let log = fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    let log: AnyLayer = match global.log_format {
        LogFormat::Text => log.with_ansi(colour).with_filter(filter.and(filter_fn(is_for_people))).boxed(),
        LogFormat::Json => {
            let log = log.with_ansi(false).fmt_fields(JsonFields::new()).event_format(JsonLines);
            log.with_filter(filter).boxed()
        }
    };
    let (traces, sent) = Traces::begin(otlp_endpoint);
    tracing_subscriber::registry().with(Some(log).into_iter().chain(sent).collect::<Vec<AnyLayer>>()).init();
    traces.say_whether_sent(otlp_endpoint);
    traces
}

/// Lines say by themselves which attempt they are about, as far as a person wants to know. The attempt's whole description on each
/// of them is for machines.
fn is_for_people(metadata: &Metadata<'_>) -> bool {
    !(metadata.is_span() && metadata.name() == "attempt")
}
