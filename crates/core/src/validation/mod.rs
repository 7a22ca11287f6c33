//! What a validator may ask of an attempt's records, and how it says what it found.
//!
//! Everything here judges values and counts that the caller has read. A value is its JSON text, as it stands in the
//! record: so no number is rounded, and what a finding shows is what was written.

mod day;
mod excerpt;
mod field_type;
mod finding;
mod number;
mod path;
mod record;
mod same;
mod totals;

pub use day::{is_timestamp, written_day};
pub use excerpt::{MAX_EXCERPT_BYTES, excerpt};
pub use field_type::{FieldType, Kind};
pub use finding::{Findings, NAMED, Rule, Tally};
pub use path::{FieldPath, PathError};
pub use record::{FieldValues, WantedFields};
pub use same::{Take, append_same, text_of};
pub use totals::{Totals, TotalsError};
