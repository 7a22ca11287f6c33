//! The access token: fetched when it is needed, shared by all jobs with the same credentials, and fetched once however many
//! ask.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use redrive_core::classify;
use redrive_core::key::CustomerId;
use redrive_core::time::Timestamp;
use redrive_store::clock::Clock;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Request};
use serde::Deserialize;
use tokio::sync::Mutex;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use crate::extract::{Failure, Job};
use crate::settings::{Secret, UsedSecrets};
use crate::web::{Beginning, Client, Response, excerpt, retry_after};

/// A token that ends within this time is not used any more: a request takes a while to arrive.
const MARGIN: Duration = Duration::from_secs(60);

/// How long a token lasts when its server does not say.
const USUAL_LIFE: u64 = 3600;

const MAX_ANSWER_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) endpoint: Url,
    pub(super) client_id: Secret<Job>,
    pub(super) client_secret: Secret<Job>,
    pub(super) refresh_token: Secret<Job>,
    pub(super) clock: Arc<dyn Clock>,
    /// One for all customers, or one for each where they have credentials of their own.
    pub(super) accounts: std::sync::Mutex<BTreeMap<Option<CustomerId>, Arc<Account>>>,
}

/// What is known of one set of credentials.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Held while a token is fetched, so that the others wait for it instead of fetching their own.
    last: Mutex<Last>,
    /// How often fetching has ended, well or badly.
    fetched: AtomicU64,
    pub(super) used: UsedSecrets,
}

/// How fetching ended the last time.
#[derive(Debug, Default)]
enum Last {
    #[default]
    Never,
    Token(Token),
    Failed(Failure),
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    until: Timestamp,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token(… until {})", self.until)
    }
}

impl Account {
    /// Makes sure that nobody uses this token again.
    pub(super) async fn forget(&self, token: &Token) {
        let mut last = self.last.lock().await;
        if matches!(&*last, Last::Token(kept) if kept == token) {
            *last = Last::Never;
        }
    }
}

impl Tokens {
    /// The secrets, each with its name in the request.
    pub(super) fn secrets(&self) -> [(&'static str, &Secret<Job>); 3] {
        [("client_id", &self.client_id), ("client_secret", &self.client_secret), ("refresh_token", &self.refresh_token)]
    }

    /// Whether all customers share the credentials.
    fn is_shared(&self) -> bool {
        self.secrets().iter().all(|(_, secret)| secret.is_shared())
    }

    /// Whose credentials a job has.
    pub(super) fn account(&self, job: &Job) -> Arc<Account> {
        let customer = (!self.is_shared()).then(|| job.key.customer_id.clone());
        Arc::clone(self.accounts.lock().unwrap_or_else(PoisonError::into_inner).entry(customer).or_default())
    }

    /// A token that is still good; `stale` is one that the API has just refused.
    pub(super) async fn get(
        &self,
        client: &Client,
        job: &Job,
        account: &Account,
        stale: Option<&Token>,
    ) -> Result<Token, Failure> {
        let before = account.fetched.load(Ordering::Acquire);
        let mut last = account.last.lock().await;
        match &*last {
            Last::Token(token) if Some(token) != stale && self.clock.now() < token.until => return Ok(token.clone()),
            // Another job failed while this one waited: asking again at once would get the same answer.
            Last::Failed(failure) if account.fetched.load(Ordering::Acquire) != before => return Err(failure.clone()),
            Last::Never | Last::Token(_) | Last::Failed(_) => {}
        }
        let outcome = self.fetch(client, job, &account.used).await;
        *last = match &outcome {
            Ok(token) => Last::Token(token.clone()),
            Err(failure) => Last::Failed(failure.clone()),
        };
        account.fetched.fetch_add(1, Ordering::Release);
        outcome
    }

    async fn fetch(&self, client: &Client, job: &Job, used: &UsedSecrets) -> Result<Token, Failure> {
        let answer = client.send(self.request(job, used).await?).await?;
        self.read(answer, used).await
    }

    async fn request(&self, job: &Job, used: &UsedSecrets) -> Result<Request, Failure> {
        let mut pairs = vec![("grant_type", "refresh_token".to_owned())];
        for (name, secret) in self.secrets() {
            let secret = secret.read(job).await?;
            used.remember(&secret);
            // An answer may repeat it as it was sent.
            used.remember(&byte_serialize(secret.as_bytes()).collect::<String>());
            pairs.push((name, secret));
        }
        let mut form = Serializer::new(String::new());
        form.extend_pairs(pairs);
        let mut request = Request::new(Method::POST, self.endpoint.clone());
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        *request.body_mut() = Some(form.finish().into());
        Ok(request)
    }

    async fn read(&self, mut answer: Response, used: &UsedSecrets) -> Result<Token, Failure> {
        #[derive(Deserialize)]
        struct Granted {
            access_token: String,
            expires_in: Option<u64>,
        }
        let body = answer.beginning(MAX_ANSWER_BYTES).await;
        if !answer.status().is_success() {
            return Err(self.refusal(&answer, &body, used));
        }
        // What is in a body that cannot be read may be a token: it is not shown.
        let granted: Granted = serde_json::from_slice(&body.bytes)
            .map_err(|_| Failure::retryable(format!("{}: the answer holds no access token", answer.name())))?;
        used.remember(&granted.access_token);
        let life = Duration::from_secs(granted.expires_in.unwrap_or(USUAL_LIFE));
        let until = self.clock.now().saturating_add(life.saturating_sub(MARGIN));
        Ok(Token { text: granted.access_token, until })
    }

    fn refusal(&self, answer: &Response, body: &Beginning, used: &UsedSecrets) -> Failure {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Refused {
            error: String,
            error_description: String,
        }
        let refused: Refused = serde_json::from_slice(&body.bytes).unwrap_or_default();
        let words = match refused.error.as_str() {
            "" => body.words(&used.all()),
            error => excerpt(format!("{error}: {}", refused.error_description).as_bytes(), true, &used.all()),
        };
        let text = format!("{} answered {}: {words}", answer.name(), answer.status());
        if refused.error == "invalid_grant" {
            return Failure::fatal(format!("{text}; the refresh token is no longer valid, make a new one"));
        }
        let retry_after = retry_after(answer.headers(), self.clock.now());
        let class = classify::http_status(answer.status().as_u16(), retry_after.is_some());
        let failure = Failure::new(class, text).after(retry_after);
        if self.is_shared() { failure.of_source() } else { failure }
    }
}
