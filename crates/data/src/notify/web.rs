//! `webhook`: the notification is posted with the headers of Standard Webhooks. `slack`: as a message with blocks.

use std::sync::Arc;
use std::time::Duration;

use redrive_store::Notification;
use redrive_store::clock::Clock;
use reqwest::header::{HeaderName, HeaderValue};
use url::Url;

use super::receiver::{Envelope, ReceiverSettings};
use super::{signature, slack};
use crate::failure::Failure;
use crate::settings::{Nothing, Secret, SettingError, Surroundings, ValueRef, redact};
use crate::web::{Client, ClientOptions, MAX_RATIO, Request, ResolvedHeader, retry_after};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of an error's body is read.
const ERROR_BYTES: usize = 1 << 10;

/// What is posted.
#[derive(Debug)]
enum Form {
    /// Signed, if there is a secret.
    Webhook(Option<Secret<Nothing>>),
    Slack,
}

#[derive(Debug)]
pub(super) struct Web {
    url: Address,
    form: Form,
    client: Client,
}

/// Where to post. The URL of a chat is a secret itself.
#[derive(Debug)]
enum Address {
    Plain(Url),
    Secret(Secret<Nothing>),
}

impl Web {
    pub(super) fn webhook(settings: &ReceiverSettings<'_>, around: &Surroundings) -> Result<Self, SettingError> {
        let secret = settings.secret.map(|secret| secret.resolve(around)).transpose();
        let secret = secret.map_err(|why| SettingError::at("secret", why))?;
        Self::new(settings, around, Form::Webhook(secret))
    }

    pub(super) fn slack(settings: &ReceiverSettings<'_>, around: &Surroundings) -> Result<Self, SettingError> {
        Self::new(settings, around, Form::Slack)
    }

    fn new(settings: &ReceiverSettings<'_>, around: &Surroundings, form: Form) -> Result<Self, SettingError> {
        let at_url = |why: String| SettingError::at("url", why);
        let url = match settings.url {
            None => return Err(SettingError::at("url", "is missing; say where notifications are posted")),
            Some(ValueRef::Text(text)) => Address::Plain(parse(text).map_err(at_url)?),
            Some(ValueRef::Secret { secret, .. }) => Address::Secret(secret.resolve(around).map_err(at_url)?),
        };
        let options = ClientOptions {
            connect_timeout: CONNECT_TIMEOUT,
            idle_timeout: settings.timeout,
            ca_file: settings.ca_file,
            // The operator names the receiver, and it often is a machine of the house. No answer can lead elsewhere.
            allow_private: true,
            redirects: false,
            max_ratio: MAX_RATIO,
        };
        Ok(Self { url, form, client: Client::new(options, None)? })
    }

    /// Posts; anything but a 2xx is a failure.
    pub(super) async fn send(&self, envelope: &Envelope<'_>, clock: &Arc<dyn Clock>) -> Result<(), Failure> {
        let (url, hidden) = match &self.url {
            Address::Plain(url) => (url.clone(), vec![]),
            Address::Secret(secret) => {
                let text = secret.read(&Nothing).await?;
                let why = |why: String| Failure::fatal(format!("url {why}")).of_setup();
                (parse(text.trim()).map_err(why)?, secret.known(&Nothing))
            }
        };
        let (body, headers) = match &self.form {
            Form::Slack => (slack::body(envelope), vec![]),
            Form::Webhook(secret) => {
                let body = envelope.json();
                let headers = headers(secret.as_ref(), envelope.notification, &body, clock).await?;
                (body, headers)
            }
        };
        let request = Request { url: url.clone(), method: reqwest::Method::POST, headers, body: Some(body) };
        let hide = |failure: Failure| Failure { message: redact(&failure.message, &hidden), ..failure };
        let mut answer = self.client.fetch(&request, url).await.map_err(hide)?;
        if answer.status().is_success() {
            return Ok(());
        }
        let words = answer.beginning(ERROR_BYTES).await.words(&hidden);
        let again = retry_after(answer.headers(), clock.now());
        let text = format!("{} answered {}: {words}", answer.name(), answer.status());
        Err(hide(Failure::retryable(text.trim_end_matches([':', ' '])).after(again)))
    }
}

fn parse(text: &str) -> Result<Url, String> {
    if !text.starts_with("http://") && !text.starts_with("https://") {
        return Err("must begin with https:// or http://".to_owned());
    }
    Url::parse(text).map_err(|why| format!("is no URL: {why}"))
}

/// `webhook-id` stays the same however often it is sent; the moment is that of this attempt.
async fn headers(
    secret: Option<&Secret<Nothing>>,
    notification: &Notification,
    body: &str,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<ResolvedHeader>, Failure> {
    let (id, seconds) = (format!("msg_{}", notification.id), clock.now().micros().div_euclid(1_000_000));
    let mut all = vec![("webhook-id", id.clone()), ("webhook-timestamp", seconds.to_string())];
    if let Some(secret) = secret {
        all.push(("webhook-signature", signature::sign(&secret.read(&Nothing).await?, &id, seconds, body)?));
    }
    let header = |(name, value): (&'static str, String)| {
        let value = HeaderValue::from_str(&value).map_err(|_| Failure::fatal("a header cannot be sent"))?;
        Ok(ResolvedHeader::plain(HeaderName::from_static(name), value))
    };
    all.into_iter().map(header).collect()
}
