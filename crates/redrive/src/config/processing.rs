//! The `[process.NAME]` sections, made into what a worker needs of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::retry::RetryPolicy;
use redrive_data::process::{
    Command, CommandSettings, Discover, DiscoverPace, Handler, Post, PostSettings, Sample, Section, Sections,
    TwiceServed,
};
use redrive_data::settings::{SettingError, Surroundings};
use redrive_store::clock::SystemClock;

use super::sections::{DiscoverSection, ProcessSection};
use super::sources::policy;

const TIMEOUT: Duration = Duration::from_secs(30 * 60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn resolve(
    sections: &BTreeMap<String, ProcessSection>,
    around: &Surroundings,
) -> Result<Sections, SettingError> {
    let builder = Builder { around };
    let mut all = Vec::new();
    for (name, section) in sections {
        let section = builder.section(name, section);
        all.push(section.map_err(|mistake| mistake.within(name.as_str()).within("process"))?);
    }
    Sections::new(all).map_err(|twice| {
        let TwiceServed { second, .. } = &twice;
        SettingError::at("categories", twice.to_string()).within(second.as_str()).within("process")
    })
}

struct Builder<'a> {
    around: &'a Surroundings,
}

impl Builder<'_> {
    fn section(&self, name: &str, section: &ProcessSection) -> Result<Section, SettingError> {
        check(section)?;
        Ok(Section {
            name: name.to_owned(),
            categories: section.categories.clone(),
            handler: self.handler(section)?,
            timeout: section.timeout.unwrap_or(TIMEOUT),
            max_in_flight: section.max_in_flight,
            policy: policy(&section.retry, RetryPolicy::process())?,
            discover: match &section.discover {
                Some(discover) => {
                    let discover = self.discover(section, discover).map_err(|mistake| mistake.within("discover"))?;
                    Some(Arc::new(discover))
                }
                None => None,
            },
        })
    }

    fn handler(&self, section: &ProcessSection) -> Result<Option<Arc<dyn Handler>>, SettingError> {
        Ok(match (&section.command, &section.url, &section.sample) {
            (Some(command), None, None) => Some(Arc::new(Command::new(&program(section, command), self.around)?)),
            (None, Some(url), None) => {
                Some(Arc::new(Post::new(&server(section, url), self.around, Arc::new(SystemClock))?))
            }
            (None, None, Some(sample)) => {
                let sample = Sample::new(sample).map_err(|mistake| mistake.within("sample"))?;
                Some(Arc::new(sample))
            }
            (None, None, None) => None,
            (_, _, _) => {
                let why = "a section has one of command, url and sample; leave the others out";
                return Err(SettingError::at("command", why).also(&["url", "sample"]));
            }
        })
    }

    fn discover(&self, section: &ProcessSection, discover: &DiscoverSection) -> Result<Discover, SettingError> {
        let pace = DiscoverPace { interval: discover.interval, timeout: discover.timeout };
        if pace.interval.is_zero() {
            return Err(SettingError::at("interval", "0 is too little; nothing else would ever be done"));
        }
        if pace.timeout.is_zero() {
            return Err(SettingError::at("timeout", "0 is too little; every listing would fail"));
        }
        match (&discover.command, &discover.url) {
            (Some(command), None) => Discover::command(&program(section, command), pace, self.around),
            (None, Some(url)) => Discover::url(&server(section, url), pace, self.around, Arc::new(SystemClock)),
            (Some(_), Some(_)) | (None, None) => {
                let why = "jobs are found by command or by url; give one of them";
                Err(SettingError::at("command", why).also(&["url"]))
            }
        }
    }
}

fn program<'a>(section: &'a ProcessSection, command: &'a [String]) -> CommandSettings<'a> {
    CommandSettings { command, directory: section.directory.as_deref(), env: &section.env }
}

fn server<'a>(section: &'a ProcessSection, url: &'a str) -> PostSettings<'a> {
    PostSettings {
        url,
        headers: &section.headers,
        idle_timeout: section.idle_timeout.or(section.timeout).unwrap_or(TIMEOUT),
        connect_timeout: section.connect_timeout.unwrap_or(CONNECT_TIMEOUT),
        redirects: section.redirects.unwrap_or(false),
        allow_private: section.allow_private.unwrap_or(false),
        ca_file: section.ca_file.as_deref(),
    }
}

/// What no single key's type can tell.
fn check(section: &ProcessSection) -> Result<(), SettingError> {
    let invalid = |key: &str, why: &str| Err(SettingError::at(key, why));
    if section.categories.is_empty() {
        return invalid("categories", "names no category; list at least one");
    }
    for (nth, category) in section.categories.iter().enumerate() {
        if category.is_empty() || category.contains('\0') {
            return Err(SettingError::at(nth, "cannot be a category; correct it").within("categories"));
        }
        if section.categories[..nth].contains(category) {
            return Err(SettingError::at(nth, "is listed twice; leave it out here").within("categories"));
        }
    }
    if section.max_in_flight == Some(0) {
        return invalid("max_in_flight", "0 is too little; nothing would ever run");
    }
    if section.timeout.is_some_and(|timeout| timeout.is_zero()) {
        return invalid("timeout", "0 is too little; every attempt would fail");
    }
    let discover = section.discover.as_ref();
    let has_command = section.command.is_some() || discover.is_some_and(|discover| discover.command.is_some());
    let has_url = section.url.is_some() || discover.is_some_and(|discover| discover.url.is_some());
    let for_programs = [("directory", section.directory.is_some()), ("env", !section.env.is_empty())];
    let for_urls = [
        ("headers", !section.headers.is_empty()),
        ("idle_timeout", section.idle_timeout.is_some()),
        ("connect_timeout", section.connect_timeout.is_some()),
        ("redirects", section.redirects.is_some()),
        ("allow_private", section.allow_private.is_some()),
        ("ca_file", section.ca_file.is_some()),
    ];
    if let Some((key, _)) = for_programs.iter().find(|(_, is_set)| *is_set && !has_command) {
        return invalid(key, "is for programs, and this section has no command; leave it out");
    }
    if let Some((key, _)) = for_urls.iter().find(|(_, is_set)| *is_set && !has_url) {
        return invalid(key, "is for URLs, and this section has no url; leave it out");
    }
    Ok(())
}
