//! The runs of a partition in the sink. A run's directory counts only once its manifest is there, and the manifest is
//! written last. [`RawSink`] can write and is for the data plane; [`RawView`] cannot, and is all the control plane gets.

mod encode;
mod layout;
mod manifest;
mod part;
mod read;
mod sink;
mod small;
mod view;
mod writer;

pub(super) use layout::MAX_BELOW_BASE;
pub use manifest::{FORMAT, Manifest, PartInfo, RunOutcome};
pub use sink::{RawOptions, RawSink, RunHeader};
pub use view::RawView;
pub use writer::RawWriter;
