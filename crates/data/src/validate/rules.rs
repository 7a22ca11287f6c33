//! The rules of a source, ready to be applied.

use std::sync::Arc;

use redrive_core::key::LogicalDate;
use redrive_core::validation::{FieldPath, FieldType, Rule, Tally, Totals, WantedFields};

use super::schema::Schema;
use super::scratch::Scratch;
use crate::error::Error;

/// What is asked of an attempt. The default asks only that everything is as it was written, and JSON objects.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    asked: Arc<RuleSet>,
    wanted: Arc<Wanted>,
    scratch: Scratch,
}

#[derive(Debug, Default)]
pub(super) struct RuleSet {
    pub totals: Totals,
    pub required: Vec<FieldPath>,
    pub types: Vec<(FieldPath, FieldType)>,
    pub date: Option<FieldPath>,
    pub unique: Vec<FieldPath>,
    pub schema: Option<Schema>,
}

/// Which fields to take from a record, and where each rule then finds its own.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub fields: WantedFields,
    pub required: Vec<usize>,
    pub types: Vec<(usize, FieldType)>,
    pub date: Option<usize>,
    pub unique: Vec<usize>,
}

impl Rules {
    pub(super) fn new(asked: RuleSet) -> Self {
        let mut fields = WantedFields::default();
        let mut all: Vec<&FieldPath> = asked.required.iter().chain(&asked.unique).chain(&asked.date).collect();
        all.extend(asked.types.iter().map(|(field, _)| field));
        fields.want(&all);
        let slots = |paths: &[FieldPath]| paths.iter().map(|field| fields.slot(field)).collect();
        let wanted = Wanted {
            required: slots(&asked.required),
            types: asked.types.iter().map(|(field, wanted)| (fields.slot(field), *wanted)).collect(),
            date: asked.date.as_ref().map(|field| fields.slot(field)),
            unique: slots(&asked.unique),
            fields,
        };
        Self { asked: Arc::new(asked), wanted: Arc::new(wanted), scratch: Scratch::default() }
    }

    /// The same rules with other bounds on what sorting the keys of `unique` may take.
    #[must_use]
    pub fn with_scratch(self, scratch: Scratch) -> Self {
        Self { scratch, ..self }
    }

    /// What they name and this machine does not have.
    pub fn missing(&self) -> Vec<String> {
        let schema = self.asked.schema.as_ref().and_then(|schema| schema.read().err());
        schema.map(|why| Error::no_schema(why).to_string()).into_iter().collect()
    }

    pub(super) fn asked(&self) -> &Arc<RuleSet> {
        &self.asked
    }

    pub(super) fn wanted(&self) -> &Arc<Wanted> {
        &self.wanted
    }

    pub(super) fn scratch(&self) -> &Scratch {
        &self.scratch
    }
}

/// Who broke which rule.
#[derive(Debug)]
pub(super) struct Tallies {
    pub object: Tally,
    pub required: Vec<Tally>,
    pub types: Vec<Tally>,
    pub date: Option<Tally>,
    pub unique: Tally,
    pub schema: Tally,
}

impl Tallies {
    pub(super) fn new(asked: &RuleSet, day: LogicalDate) -> Self {
        let required = asked.required.iter().map(|field| Tally::new(Rule::Required(field.clone())));
        let types = asked.types.iter().map(|(field, wanted)| Tally::new(Rule::Type(field.clone(), *wanted)));
        Self {
            object: Tally::new(Rule::Object),
            required: required.collect(),
            types: types.collect(),
            date: asked.date.as_ref().map(|field| Tally::new(Rule::Date(field.clone(), day))),
            unique: Tally::new(Rule::Unique(asked.unique.clone())),
            schema: Tally::new(Rule::Schema),
        }
    }

    pub(super) fn into_vec(self) -> Vec<Tally> {
        let Self { object, required, types, date, unique, schema } = self;
        [object].into_iter().chain(required).chain(types).chain(date).chain([unique, schema]).collect()
    }
}
