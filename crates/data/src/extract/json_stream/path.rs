//! Where in a document something stands.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The value under this name of an object.
    Key(String),
    /// Every element of an array.
    Each,
}

/// The steps from the document's root; none is the document itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path(Vec<Step>);

impl Path {
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self(steps.into_iter().collect())
    }

    /// Reads names with dots between them; the empty text is the document itself.
    pub fn dotted(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let step = |name: &str| match name {
            "" => Err(format!("{text:?} is no path; write names with dots between them, like \"data.items\"")),
            name => Ok(Step::Key(name.to_owned())),
        };
        text.split('.').map(step).collect::<Result<_, _>>().map(Self)
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub fn starts_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn step(&self, depth: usize) -> Option<&Step> {
        self.0.get(depth)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str("the document");
        }
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(name) if at == 0 => f.write_str(name)?,
                Step::Key(name) => write!(f, ".{name}")?,
                Step::Each => f.write_str("[]")?,
            }
        }
        Ok(())
    }
}
