//! Headers of the configuration: each a text with placeholders, or a secret.

use std::collections::BTreeMap;

use reqwest::header::{self, HeaderName, HeaderValue};

use crate::failure::Failure;
use crate::settings::{Placeholders, SettingError, Surroundings, Value, ValueRef};

/// What the client sets itself, to fit what it sends and what it understands.
const RESERVED: [HeaderName; 5] =
    [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::ACCEPT_ENCODING, header::CONNECTION];

/// Configured headers, ready to be filled in for a job.
#[derive(Debug)]
pub(crate) struct Headers<J: Placeholders>(Vec<(HeaderName, Value<J>)>);

/// A header of one request.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedHeader {
    pub(super) name: HeaderName,
    pub(super) value: HeaderValue,
    /// It may be sent to the configured place only.
    pub(super) confidential: bool,
}

impl ResolvedHeader {
    /// A header that is no secret.
    pub(crate) fn plain(name: HeaderName, value: HeaderValue) -> Self {
        Self { name, value, confidential: false }
    }
}

impl<J: Placeholders> Headers<J> {
    pub(crate) fn new(settings: &BTreeMap<String, ValueRef>, around: &Surroundings) -> Result<Self, SettingError> {
        let one = |(name, value): (&String, &ValueRef)| {
            let error = |why: String| SettingError::at(name.as_str(), why).within("headers");
            let parsed = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| error("cannot be the name of a header; correct it".to_owned()))?;
            if RESERVED.contains(&parsed) {
                return Err(error("is set by redrive itself; leave it out".to_owned()));
            }
            Ok((parsed, value.resolve(around).map_err(error)?))
        };
        settings.iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) async fn resolve(&self, job: &J) -> Result<Vec<ResolvedHeader>, Failure> {
        let mut resolved = Vec::with_capacity(self.0.len());
        for (name, value) in &self.0 {
            resolved.push(resolve(name, value, job).await?);
        }
        Ok(resolved)
    }

    pub(crate) fn secrets(&self, job: &J) -> Vec<String> {
        self.0.iter().flat_map(|(_, value)| value.secrets(job)).collect()
    }

    /// The secrets of a job's customer and query that cannot be had here, and why.
    pub(crate) fn missing_for(&self, job: &J) -> Vec<String> {
        self.0.iter().filter_map(|(_, value)| value.missing_for(job)).collect()
    }

    /// The secrets that cannot be had here, and why.
    pub(crate) fn missing(&self) -> Vec<String> {
        self.0.iter().filter_map(|(_, value)| value.missing()).collect()
    }
}

async fn resolve<J: Placeholders>(name: &HeaderName, value: &Value<J>, job: &J) -> Result<ResolvedHeader, Failure> {
    let unsendable =
        |_| Failure::fatal(format!("the header {name} has characters that cannot be sent, such as a line break"));
    let confidential = value.is_secret() || [header::AUTHORIZATION, header::COOKIE].contains(name);
    let mut value = HeaderValue::from_str(&value.render(job).await?).map_err(unsendable)?;
    value.set_sensitive(confidential);
    Ok(ResolvedHeader { name: name.clone(), value, confidential })
}
