//! Headers of the configuration: a text with placeholders, or a secret.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use redrive_core::mistake::Mistake;
use reqwest::header::{self, HeaderName, HeaderValue};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::extract::UsedSecrets;
use crate::extract::{Escape, Failure, Job, Secret, SecretRef, Surroundings, Template};

/// How the configuration writes a header's value: `"text {customer_id}"`, or `{ env = "TOKEN", prefix = "Bearer " }`, or
/// `{ file = "token.txt" }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Header {
    Text(String),
    Secret { secret: SecretRef, prefix: String },
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, { env = \"NAME\" } or { file = \"PATH\" }")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Header, E> {
        Ok(Header::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Header, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Named {
            env: Option<String>,
            file: Option<PathBuf>,
            #[serde(default)]
            prefix: String,
        }
        let Named { env, file, prefix } = Named::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Header::Secret { secret: SecretRef::named(env, file).map_err(A::Error::custom)?, prefix })
    }
}

/// What the client sets itself, to fit what it sends and what it understands.
const RESERVED: [HeaderName; 5] =
    [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::ACCEPT_ENCODING, header::CONNECTION];

/// The headers of a source, ready to be filled in for a job.
#[derive(Debug)]
pub(super) struct Headers(Vec<(HeaderName, Value)>);

#[derive(Debug)]
enum Value {
    Text(Template),
    Secret { secret: Secret, prefix: String },
}

/// A header of one request.
#[derive(Debug, Clone)]
pub(super) struct Filled {
    pub(super) name: HeaderName,
    pub(super) value: HeaderValue,
    /// It may be sent to the configured place only.
    pub(super) confidential: bool,
}

impl Headers {
    pub(super) fn new(settings: &BTreeMap<String, Header>, surroundings: &Surroundings<'_>) -> Result<Self, Mistake> {
        let one = |(name, header): (&String, &Header)| {
            let wrong = |why: String| Mistake::at(name.as_str(), why).within("headers");
            let parsed = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| wrong("cannot be the name of a header; correct it".to_owned()))?;
            if RESERVED.contains(&parsed) {
                return Err(wrong("is set by redrive itself; leave it out".to_owned()));
            }
            let value = match header {
                Header::Text(text) => Template::parse(text).map(Value::Text),
                Header::Secret { secret, prefix } => {
                    secret.resolve(surroundings).map(|secret| Value::Secret { secret, prefix: prefix.clone() })
                }
            };
            Ok((parsed, value.map_err(wrong)?))
        };
        settings.iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn fill(&self, job: &Job, used: &UsedSecrets) -> Result<Vec<Filled>, Failure> {
        self.0.iter().map(|(name, value)| fill(name, value, job, used)).collect()
    }
}

fn fill(name: &HeaderName, value: &Value, job: &Job, used: &UsedSecrets) -> Result<Filled, Failure> {
    let (text, is_secret) = match value {
        Value::Text(template) => (template.render(job, Escape::Plain), false),
        Value::Secret { secret, prefix } => {
            let secret = secret.read()?;
            used.remember(&secret);
            (format!("{prefix}{secret}"), true)
        }
    };
    let wrong =
        || Failure::fatal(format!("the header {name} has characters that cannot be sent, such as a line break"));
    let mut value = HeaderValue::from_str(&text).map_err(|_| wrong())?;
    let confidential = is_secret || [header::AUTHORIZATION, header::COOKIE].contains(name);
    value.set_sensitive(confidential);
    Ok(Filled { name: name.clone(), value, confidential })
}
