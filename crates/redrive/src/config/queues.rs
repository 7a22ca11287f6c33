//! The `[process.NAME]` sections, as far as the control plane is concerned.

use std::collections::BTreeMap;

use redrive_control::runs::{Queue, Queues};
use redrive_core::retry::RetryPolicy;
use redrive_data::process::TwiceServed;
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
            has_handler: section.command.is_some() || section.url.is_some() || section.sample.is_some(),
            max_in_flight: section.max_in_flight,
            retry,
            keep: section.keep,
        })
    };
    let queues: Vec<Queue> = sections.iter().map(queue).collect::<Result<_, _>>()?;
    one_section_each(&queues)?;
    Ok(Queues::new(queues))
}

/// Every command must know which section a category belongs to.
fn one_section_each(queues: &[Queue]) -> Result<(), SettingError> {
    let mut first_of: BTreeMap<&str, &str> = BTreeMap::new();
    for queue in queues {
        for category in &queue.categories {
            match first_of.insert(category, &queue.name) {
                Some(first) if first != queue.name => {
                    let twice =
                        TwiceServed { category: category.clone(), first: first.to_owned(), second: queue.name.clone() };
                    let mistake = SettingError::at("categories", twice.to_string());
                    return Err(mistake.within(queue.name.as_str()).within("process"));
                }
                Some(_) | None => {}
            }
        }
    }
    Ok(())
}
