//! The `command` extractor.

mod ends;
mod output;
mod processes;
mod starting;
