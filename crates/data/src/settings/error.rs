//! A setting that cannot be used: which one, and why. The reader of the configuration adds where it stands.

use std::fmt;

/// The path names the key, so `why` need not repeat it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub struct SettingError {
    pub path: KeyPath,
    /// Other keys of the same section that may be the wrong one instead.
    pub also: Vec<String>,
    pub why: String,
}

/// From the outermost section to the setting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Key(String),
    /// An element of a list, counted from 0.
    Index(usize),
}

impl SettingError {
    pub fn at(step: impl Into<Step>, why: impl Into<String>) -> Self {
        Self { path: KeyPath(vec![step.into()]), also: Vec::new(), why: why.into() }
    }

    /// The same, as it is seen from the section around it.
    #[must_use]
    pub fn within(mut self, step: impl Into<Step>) -> Self {
        self.path.0.insert(0, step.into());
        self
    }

    #[must_use]
    pub fn also(mut self, keys: &[&str]) -> Self {
        self.also.extend(keys.iter().map(|&key| key.to_owned()));
        self
    }

    /// Every key that may be the wrong one, the likeliest first.
    pub fn paths(&self) -> impl Iterator<Item = KeyPath> {
        let section = self.path.parent().unwrap_or_default();
        let others = self.also.iter().map(move |key| section.join(key.as_str()));
        std::iter::once(self.path.clone()).chain(others)
    }
}

impl KeyPath {
    #[must_use]
    pub fn join(&self, step: impl Into<Step>) -> Self {
        Self(self.0.iter().cloned().chain([step.into()]).collect())
    }

    pub fn starts_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// What it is in; none for the whole.
    pub fn parent(&self) -> Option<Self> {
        let (_, around) = self.0.split_last()?;
        Some(Self(around.to_vec()))
    }
}

impl<S: Into<Step>> FromIterator<S> for KeyPath {
    fn from_iter<I: IntoIterator<Item = S>>(steps: I) -> Self {
        Self(steps.into_iter().map(Into::into).collect())
    }
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// As TOML writes it: a name that is not plain stands in quotes.
impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        for (depth, step) in self.0.iter().enumerate() {
            let dot = if depth == 0 { "" } else { "." };
            match step {
                Step::Key(key) if !key.is_empty() && key.chars().all(is_plain) => write!(f, "{dot}{key}")?,
                Step::Key(key) => write!(f, "{dot}{key:?}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_as_toml_writes_it() {
        let error = SettingError::at("pattern", "is empty").within(1).within("stderr").within("a.b").within("sources");
        assert_eq!(error.to_string(), "sources.\"a.b\".stderr[1].pattern: is empty");
    }

    #[test]
    fn other_keys_are_in_the_same_section() {
        let error = SettingError::at("heartbeat", "").also(&["lease"]).within("worker");
        let paths: Vec<_> = error.paths().map(|path| path.to_string()).collect();
        assert_eq!(paths, ["worker.heartbeat", "worker.lease"]);
    }
}
