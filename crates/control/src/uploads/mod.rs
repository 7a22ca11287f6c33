//! Looks into uploads: their stanzas, the configuration that takes effect, and how two of them differ. Everything is read
//! page by page.

mod compare;
mod effective;
mod pages;
mod rules;

pub use effective::{EffectiveOptions, conf_name};
pub use pages::{FilePages, StanzaPages};
pub use rules::UploadRules;
