//! Secrets that are named by the customer or the query, such as `{ env = "TOKEN_{customer_id}" }`: looked for as an attempt would.

use std::collections::BTreeMap;

use redrive_core::key::{LogicalDate, PartitionKey, Source};

use crate::config::{Config, Plan};

/// How many queries of how many customers are looked at, for each source.
const LOOKED_AT: usize = 10_000;

/// How many customers a finding names.
const NAMED: usize = 5;

/// What is missing for customers that the configuration names, a line for each source.
pub fn missing(config: &Config, plan: &Plan) -> Vec<String> {
    let sources = config.settings.sources.keys();
    sources.filter_map(|source| told(source, &of_source(source, config, plan))).collect()
}

/// The customers for whom something is missing, each with the first thing that is.
fn of_source(source: &Source, config: &Config, plan: &Plan) -> BTreeMap<String, String> {
    let Some(section) = config.settings.sources.get(source) else { return BTreeMap::new() };
    // No secret that is looked for here depends on the day.
    let day = section.calendar.as_ref().map_or(LogicalDate::FIRST, |calendar| calendar.start);
    let queries = || section.queries.keys();
    let pairs = section.customers.iter().flat_map(|customer| queries().map(move |query| (customer, query)));
    let mut missing = BTreeMap::new();
    for (customer, query) in pairs.take(LOOKED_AT) {
        let (source, customer_id, query_name) = (source.clone(), customer.clone(), query.clone());
        let key = PartitionKey { source, customer_id, query_name, logical_date: day };
        if let Some(why) = plan.sources.missing_for(&key).into_iter().next() {
            missing.entry(customer.to_string()).or_insert(why);
        }
    }
    missing
}

fn told(source: &Source, missing: &BTreeMap<String, String>) -> Option<String> {
    let (_, why) = missing.first_key_value()?;
    let mut named: Vec<String> = missing.keys().take(NAMED).cloned().collect();
    if missing.len() > NAMED {
        named.push(format!("{} more", missing.len() - NAMED));
    }
    Some(format!("{source} cannot be used here for {}: {why}", named.join(", ")))
}
