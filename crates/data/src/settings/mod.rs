//! What the configuration of any workload may say: durations, secrets, texts with placeholders; and errors in it.

pub mod duration;
mod error;
mod redact;
mod secret;
mod template;
mod value;

pub use error::{KeyPath, SettingError, Step};
pub use redact::{Redactor, redact};
pub(crate) use secret::UsedSecrets;
pub use secret::{Secret, SecretRef, Variables};
pub use template::{Escape, Placeholders, Template};
pub(crate) use value::Value;
pub use value::ValueRef;
