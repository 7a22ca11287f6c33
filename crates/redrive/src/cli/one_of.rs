//! Options that take one of a few words. Completion and help know them; what is wrong is said by the command, in one line.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};

/// Takes any text, and names those that are meant.
#[derive(Debug, Clone)]
pub struct OneOf(Vec<&'static str>);

impl OneOf {
    pub fn new(words: impl IntoIterator<Item = &'static str>) -> Self {
        Self(words.into_iter().collect())
    }
}

impl TypedValueParser for OneOf {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().copied().map(PossibleValue::new)))
    }
}
