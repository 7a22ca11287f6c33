//! Looking at every record once, and counting what breaks the rules.

use std::ops::ControlFlow;
use std::sync::Arc;

use redrive_core::key::LogicalDate;
use redrive_core::validation::{FieldValues, Kind, excerpt, text_of, written_day};

use super::feed::Look;
use super::lines::Block;
use super::rules::{RuleSet, Rules, Tallies, Wanted};
use super::schema;
use super::scratch::Scratch;
use super::unique::{Key, Keys};
use crate::error::{Error, Result};

pub(super) struct Check {
    asked: Arc<RuleSet>,
    wanted: Arc<Wanted>,
    day: LogicalDate,
    /// The JSON text of the partition's day: what `date_field` almost always is.
    today: String,
    pub tallies: Tallies,
    /// What makes each record unique, where that is asked.
    pub keys: Option<Keys>,
    scratch: Scratch,
    key: Key,
}

impl Check {
    pub(super) fn new(rules: &Rules, day: LogicalDate, keys: Option<Keys>) -> Self {
        Self {
            asked: rules.asked().clone(),
            wanted: rules.wanted().clone(),
            day,
            today: format!("\"{day}\""),
            tallies: Tallies::new(rules.asked(), day),
            keys,
            scratch: rules.scratch().clone(),
            key: Key::default(),
        }
    }

    fn record(&mut self, number: u64, line: &str, values: &FieldValues<'_>) -> Result<()> {
        self.required(number, values);
        self.types(number, values);
        self.date(number, values);
        if let Some(schema) = &self.asked.schema {
            let schema = schema.read().map_err(Error::no_schema)?;
            if !schema::accepts(schema, line) {
                self.tallies.schema.offend(|| format!("record {number}{}", schema::objection(schema, line)));
            }
        }
        if let Some(keys) = &mut self.keys {
            let key = self.key.of(&self.wanted.unique, values);
            keys.add(key, number).map_err(|error| self.scratch.error(error))?;
        }
        Ok(())
    }

    fn required(&mut self, number: u64, values: &FieldValues<'_>) {
        for (slot, tally) in self.wanted.required.iter().zip(&mut self.tallies.required) {
            let why = match values[*slot] {
                Some(json) if Kind::of(json) == Kind::Null => "null",
                Some(_) => continue,
                None => "missing",
            };
            tally.offend(|| format!("record {number} ({why})"));
        }
    }

    fn types(&mut self, number: u64, values: &FieldValues<'_>) {
        for ((slot, wanted), tally) in self.wanted.types.iter().zip(&mut self.tallies.types) {
            if let Some(json) = values[*slot]
                && !wanted.accepts(json)
            {
                tally.offend(|| format!("record {number}: {}", excerpt(json.as_bytes())));
            }
        }
    }

    fn date(&mut self, number: u64, values: &FieldValues<'_>) {
        let (Some(slot), Some(tally)) = (self.wanted.date, &mut self.tallies.date) else { return };
        match values[slot] {
            Some(json) if json == self.today => {}
            Some(json) if day_of(json) == Some(self.day) => {}
            Some(json) => tally.offend(|| format!("record {number}: {}", excerpt(json.as_bytes()))),
            None => tally.offend(|| format!("record {number} (missing)")),
        }
    }

    fn not_an_object(&mut self, number: u64, why: &str, line: &[u8]) {
        self.tallies.object.offend(|| format!("record {number} ({why}): {}", excerpt(line)));
    }
}

impl Look for Check {
    fn look(&mut self, block: Block<'_>) -> Result<ControlFlow<()>> {
        match block {
            Block::Lines { first, bytes } => {
                let wanted = self.wanted.clone();
                let mut values = wanted.fields.none();
                for (number, line) in Block::split(first, bytes) {
                    let Ok(text) = std::str::from_utf8(line) else {
                        self.not_an_object(number, "it is not UTF-8", line);
                        continue;
                    };
                    match wanted.fields.take(text, &mut values) {
                        Ok(()) => self.record(number, text, &values)?,
                        Err(error) => self.not_an_object(number, &in_one_line(&error), line),
                    }
                }
            }
            Block::Overlong { number, beginning } => self.not_an_object(number, "it is too long to be read", beginning),
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn day_of(json: &str) -> Option<LogicalDate> {
    if Kind::of(json) != Kind::Text {
        return None;
    }
    written_day(std::str::from_utf8(&text_of(json)).ok()?)
}

/// The parser counts lines, and there is one.
fn in_one_line(error: &serde_json::Error) -> String {
    error.to_string().replace("at line 1 column", "at byte")
}
