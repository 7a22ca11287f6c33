//! What is configured and cannot work on this machine, or nowhere at all: found before a worker meets it.

use redrive_data::process::Section;
use redrive_data::validate::Scratch;

use super::customers;
use super::findings::{Finding, Findings};
use crate::config::{Config, Plan};

const SOURCES: &str = "sources";
const SECTIONS: &str = "sections";

pub fn check(config: &Config, plan: &Plan, findings: &mut Findings) {
    sources(config, plan, findings);
    sections(plan, findings);
    scratch(findings);
}

fn sources(config: &Config, plan: &Plan, findings: &mut Findings) {
    let sections = &config.settings.sources;
    let mut told = Vec::new();
    // It may well be there on the machines that have the workers.
    told.extend(plan.sources.missing().into_iter().map(|(source, why)| format!("{source} cannot be used here: {why}")));
    told.extend(customers::missing(config, plan));
    for (source, section) in sections {
        if section.extract.is_none() {
            told.push(format!("no worker can extract {source}; add [sources.{source}.extract]"));
        }
        let lacks = match (section.customers.is_empty(), section.queries.is_empty()) {
            _ if section.calendar.is_none() => continue,
            (true, true) => "customers and queries",
            (true, false) => "customers",
            (false, true) => "queries",
            (false, false) => continue,
        };
        told.push(format!("{source} has a calendar and no {lacks}, so that no day is expected; name them"));
    }
    tell(SOURCES, told, sections.len(), findings);
}

fn sections(plan: &Plan, findings: &mut Findings) {
    let missing = |section: &Section| {
        let handler = section.handler.as_ref().map(|handler| handler.missing()).unwrap_or_default();
        let discover = section.discover.as_ref().map(|discover| discover.missing()).unwrap_or_default();
        let name = section.name.clone();
        handler.into_iter().chain(discover).map(move |why| format!("process.{name} cannot be used here: {why}"))
    };
    let mut told: Vec<String> = plan.sections.iter().flat_map(|section| missing(section)).collect();
    told.dedup();
    tell(SECTIONS, told, plan.sections.iter().count(), findings);
}

fn tell(check: &'static str, told: Vec<String>, count: usize, findings: &mut Findings) {
    if told.is_empty() && count > 0 {
        findings.add(Finding::good(check, format!("all {count} can be used here")));
    }
    told.into_iter().for_each(|says| findings.add(Finding::note(check, says)));
}

/// Connectors have their settings written there, and `unique` sorts there.
fn scratch(findings: &mut Findings) {
    let directory = Scratch::default().dir;
    if let Err(error) = tempfile::tempfile_in(&directory) {
        let todo = "make it usable, or name another one in TMPDIR";
        findings.add(Finding::note("scratch", format!("{} cannot be written: {error}; {todo}", directory.display())));
    }
}
