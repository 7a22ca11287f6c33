//! The `singer` and `airbyte` extractors: with scripts that do what real connectors were seen to do, and with real ones.

mod airbyte;
mod files;
mod installed;
mod script;
mod singer;
