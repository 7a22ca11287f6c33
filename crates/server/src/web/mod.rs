//! The server as far as HTTP is concerned: connections, hosts, bodies, problems, lists. Nothing here knows a partition.

mod around;
mod body;
mod caller;
mod code;
pub mod cursor;
mod etag;
mod gate;
mod host;
mod idempotency;
mod list;
mod listener;
mod params;
mod path;
mod problem;
mod recent;

pub use around::around;
pub use body::{Json, Note, media_type, parse as parse_json, read as read_body};
pub use caller::{Access, Caller, Role};
pub use code::Code;
pub use etag::{etag, if_match};
pub use gate::{Gate, gate};
pub use host::{is_loopback_host, is_loopback_name};
pub use idempotency::{LONGEST_KEY, answering, keyed};
pub use list::{List, PAGING, Page, answer, as_json, json, json_bytes, paged};
pub use listener::{Listener, Peer};
pub use params::{Param, ParamKind, Params, bad_param};
pub use path::PathText;
pub use problem::{FieldFault, Problem};
pub use recent::Recent;
