//! What a configuration may refer to outside itself: the environment, and programs that print a secret.

use std::fmt;
use std::sync::Arc;

use crate::program::ChildReaper;

type Find = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The environment as it was when the program started.
#[derive(Clone)]
pub struct Variables(Arc<Find>);

impl Variables {
    pub fn new(find: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }

    pub fn get(&self, name: &str) -> Option<String> {
        (self.0)(name)
    }
}

/// An environment that holds nothing.
impl Default for Variables {
    fn default() -> Self {
        Self::new(|_| None)
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Variables(…)")
    }
}

#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    pub variables: Variables,
    /// Ends the programs that are started, should this process be killed.
    pub reaper: ChildReaper,
}

impl Surroundings {
    /// Those with this environment.
    pub fn with(variables: Variables) -> Self {
        Self { variables, reaper: ChildReaper::default() }
    }
}
