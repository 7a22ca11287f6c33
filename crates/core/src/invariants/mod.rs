//! What must hold between a partition and its attempts, whatever has happened to them.
//!
//! [`check`] looks at stored data as any program could have left it and names what the rules cannot have made. It is not part
//! of any transition: `apply` keeps these by its nature, and `redrive doctor` finds out whether something else did not.

mod attempt;
mod breach;
mod check;

pub use attempt::AttemptFacts;
pub use breach::{Breach, Flaw};
pub use check::check;
