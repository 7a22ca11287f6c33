//! The sources' sections, made into what a worker needs of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use redrive_core::hold::DEFAULT_COOLDOWN;
use redrive_core::key::{QueryName, Source};
use redrive_core::retry::RetryPolicy;
use redrive_data::extract::{ConfiguredSource, ExtractorContext, MAX_BYTES, Settings, Sources, Template};
use redrive_data::settings::{SettingError, Surroundings};
use redrive_store::clock::SystemClock;

use super::sections::{QuerySection, SourceSection};
use super::sources::policy;

/// Every source that has an `extract` section.
pub(super) fn resolve(
    sections: &BTreeMap<Source, SourceSection>,
    around: &Surroundings,
) -> Result<Sources, SettingError> {
    let context = ExtractorContext { around: around.clone(), clock: Arc::new(SystemClock) };
    let mut sources = BTreeMap::new();
    for (source, section) in sections {
        if let Some(extract) = &section.extract {
            let plan = source_plan(section, extract, &context);
            let plan = plan.map_err(|mistake| mistake.within(source.as_str()).within("sources"))?;
            sources.insert(source.clone(), plan);
        }
    }
    Ok(Sources::new(sources))
}

fn source_plan(
    section: &SourceSection,
    extract: &Settings,
    context: &ExtractorContext,
) -> Result<ConfiguredSource, SettingError> {
    if section.max_in_flight == Some(0) {
        return Err(SettingError::at("max_in_flight", "0 is too little; nothing would ever run"));
    }
    if section.max_bytes == Some(0) {
        return Err(SettingError::at("max_bytes", "0 is too little; no record would fit"));
    }
    let validator = section.validate.program(&context.around);
    let retry = policy(&section.retry, RetryPolicy::partitions())?;
    Ok(ConfiguredSource {
        extractor: extract.build(context).map_err(|mistake| mistake.within("extract"))?,
        timeout: extract.timeout(),
        queries: queries(&section.queries)?,
        rules: section.validate.build().map_err(|mistake| mistake.within("validate"))?,
        validator: validator.map_err(|mistake| mistake.within("validate"))?.map(Arc::new),
        max_in_flight: section.max_in_flight,
        max_bytes: section.max_bytes.unwrap_or(MAX_BYTES),
        longest_hint: retry.longest_hint(),
        cooldown: section.cooldown.unwrap_or(DEFAULT_COOLDOWN),
        rate_limit_budget: retry.rate_limit_budget,
        breaker: section.breaker.policy(),
        max_attempts: retry.attempt_limit(),
    })
}

fn queries(sections: &BTreeMap<QueryName, QuerySection>) -> Result<BTreeMap<QueryName, Template>, SettingError> {
    let mut queries = BTreeMap::new();
    for (name, section) in sections {
        if let Some(text) = &section.query {
            let template = Template::parse(text)
                .map_err(|why| SettingError::at("query", why).within(name.as_str()).within("queries"))?;
            queries.insert(name.clone(), template);
        }
    }
    Ok(queries)
}
