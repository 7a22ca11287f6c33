//! What the configuration of any workload may say: durations, secrets, texts with placeholders; and errors in it.

pub mod duration;
mod error;
pub mod paths;
mod redact;
mod secret;
mod surroundings;
mod template;
mod used;
mod value;

pub use error::{KeyPath, SettingError, Step};
pub(crate) use redact::LatestRedactor;
pub use redact::{Redactor, redact};
pub use secret::{Secret, SecretCommand, SecretRef};
pub use surroundings::{Surroundings, Variables};
pub(crate) use template::Nothing;
pub use template::{Escape, Placeholders, Template};
pub(crate) use used::UsedSecrets;
pub(crate) use value::Value;
pub use value::ValueRef;
