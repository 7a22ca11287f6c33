//! The `[process.NAME]` sections, as far as the control plane is concerned.

use std::collections::BTreeMap;

use redrive_control::runs::{Queue, Queues};
use redrive_core::retry::RetryPolicy;
use redrive_data::settings::SettingError;

use super::sections::ProcessSection;
use super::sources::policy;

pub(super) fn resolve(sections: &BTreeMap<String, ProcessSection>) -> Result<Queues, SettingError> {
    let queue = |(name, section): (&String, &ProcessSection)| {
        let retry = policy(&section.retry, RetryPolicy::process())
            .map_err(|mistake| mistake.within(name.as_str()).within("process"))?;
        Ok(Queue {
            name: name.clone(),
            categories: section.categories.clone(),
            max_in_flight: section.max_in_flight,
            retry,
            keep: section.keep,
        })
    };
    sections.iter().map(queue).collect::<Result<_, _>>().map(Queues::new)
}
