//! The extractor: one stream of batches, whose rows count only when it has closed.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use redrive_core::text::cut;
use redrive_store::clock::Clock;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, Request};
use serde_json::Value;
use url::Url;

use super::errors::{self, Kind, Meaning};
use super::settings::{Settings, customer_digits};
use super::token::{Account, Token, Tokens};
use crate::extract::json_stream::{Path, RecordStream, Step};
use crate::extract::{Error, Extractor, ExtractorContext, Failure, Job, Records};
use crate::settings::{Secret, SecretRef, SettingError, redact};
use crate::web::{Client, ClientOptions, MAX_RATIO, Proxy, Response, excerpt, retry_after};

/// How much of an error is read; the API repeats the query in it.
const ERROR_BYTES: usize = 256 << 10;

/// How much of a request's name is kept.
const REQUEST_ID_BYTES: usize = 200;

const LOGIN_CUSTOMER_ID: HeaderName = HeaderName::from_static("login-customer-id");
const DEVELOPER_TOKEN: HeaderName = HeaderName::from_static("developer-token");

/// The positions of kept values in a record stream.
const REQUEST_ID: usize = 0;
const ERROR_IN_BATCH: usize = 1;
const ERROR_ALONE: usize = 2;

#[derive(Debug)]
pub struct GoogleAds {
    base: Url,
    login_customer_id: Option<String>,
    developer_token: Option<Secret<Job>>,
    tokens: Tokens,
    client: Client,
    clock: Arc<dyn Clock>,
}

/// Why a stream gave no rows: either a new token may help, or it is a failure.
enum Setback {
    StaleToken(Failure),
    Failed(Error),
}

impl Setback {
    fn into_error(self) -> Error {
        match self {
            Self::StaleToken(failure) => failure.into(),
            Self::Failed(error) => error,
        }
    }
}

impl<E: Into<Error>> From<E> for Setback {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl GoogleAds {
    pub fn new(settings: &Settings, context: &ExtractorContext) -> Result<Self, SettingError> {
        let secret =
            |key: &str, secret: &SecretRef| secret.resolve(&context.around).map_err(|why| SettingError::at(key, why));
        let login = settings.login_customer_id.as_deref().map(customer_digits).transpose();
        let developer = settings.developer_token.as_ref().map(|token| secret("developer_token", token)).transpose()?;
        let tokens = Tokens {
            endpoint: settings.token_address()?,
            client_id: secret("client_id", &settings.client_id)?,
            client_secret: secret("client_secret", &settings.client_secret)?,
            refresh_token: secret("refresh_token", &settings.refresh_token)?,
            clock: Arc::clone(&context.clock),
            accounts: std::sync::Mutex::default(),
        };
        // Both addresses are the configuration's own, and no answer can lead to another.
        let options = ClientOptions {
            connect_timeout: settings.connect_timeout,
            idle_timeout: settings.idle_timeout,
            ca_file: None,
            allow_private: true,
            redirects: false,
            max_ratio: MAX_RATIO,
        };
        let proxy = Proxy::new(settings.proxy.as_deref(), settings.proxy_password.as_ref(), &context.around)?;
        Ok(Self {
            base: settings.base()?,
            login_customer_id: login.map_err(|why| SettingError::at("login_customer_id", why))?,
            developer_token: developer,
            tokens,
            client: Client::new(options, proxy)?,
            clock: Arc::clone(&context.clock),
        })
    }

    async fn stream(
        &self,
        asked: &Asked<'_>,
        account: &Account,
        token: &Token,
        records: &mut Records,
    ) -> Result<(), Setback> {
        let request = self.request(asked, account, token).await?;
        let mut answer = self.client.send(request).await?;
        let request_id = answer.header("request-id").map(str::to_owned);
        if let Some(id) = &request_id {
            note_request(account, id, records);
        }
        if answer.status().as_u16() != 200 {
            let body = answer.beginning(ERROR_BYTES).await;
            let mut meaning = errors::of_answer(answer.status().as_u16(), &body.bytes);
            if meaning.text.is_empty() {
                meaning.text = body.words(&account.used.all());
            }
            return Err(self.setback(account, &answer, meaning));
        }
        let each = |name: &str| Path::new([Step::Each, Step::Key(name.to_owned())]);
        let alone = Path::new([Step::Key("error".to_owned())]);
        let mut stream = RecordStream::new(each("results"), [each("requestId"), each("error"), alone]);
        while let Some(chunk) = answer.chunk().await? {
            records.feed(&mut stream, &chunk, answer.name()).await?;
            if let Some(error) = stream.kept(ERROR_IN_BATCH).or_else(|| stream.kept(ERROR_ALONE)) {
                let error: Value = serde_json::from_slice(error).unwrap_or_default();
                return Err(self.setback(account, &answer, errors::of_error(200, &error)));
            }
        }
        let unusable = |why: String| Failure::retryable(format!("{}: the stream cannot be used: {why}", answer.name()));
        stream.finish().map_err(|fault| unusable(fault.to_string()))?;
        if !stream.is_array() {
            return Err(unusable("it is no array of batches".to_owned()).into());
        }
        if request_id.is_none()
            && let Some(Ok(Value::String(id))) = stream.kept(REQUEST_ID).map(serde_json::from_slice)
        {
            note_request(account, &id, records);
        }
        Ok(())
    }

    async fn request(&self, asked: &Asked<'_>, account: &Account, token: &Token) -> Result<Request, Failure> {
        let path = format!("customers/{}/googleAds:searchStream", asked.customer);
        let url = self.base.join(&path).map_err(|why| Failure::fatal(format!("{path}: {why}")))?;
        let mut request = Request::new(Method::POST, url);
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(AUTHORIZATION, confidential("the access token", &format!("Bearer {}", token.text))?);
        if let Some(id) = &self.login_customer_id {
            headers.insert(LOGIN_CUSTOMER_ID, confidential("login_customer_id", id)?);
        }
        if let Some(secret) = &self.developer_token {
            let secret = secret.read(asked.job).await?;
            account.used.remember(&secret);
            headers.insert(DEVELOPER_TOKEN, confidential("developer_token", &secret)?);
        }
        *request.body_mut() = Some(serde_json::json!({ "query": asked.query }).to_string().into());
        Ok(request)
    }

    fn named_secrets(&self) -> impl Iterator<Item = &Secret<Job>> {
        self.tokens.secrets().into_iter().map(|(_, secret)| secret).chain(&self.developer_token)
    }

    fn setback(&self, account: &Account, answer: &Response, meaning: Meaning) -> Setback {
        let words = excerpt(meaning.text.as_bytes(), true, &account.used.all());
        let mut text = format!("{} answered {}: {words}", answer.name(), answer.status());
        if let Some(id) = answer.header("request-id") {
            text = format!("{text} (request-id {id})");
        }
        let retry_after = meaning.retry_after.or_else(|| retry_after(answer.headers(), self.clock.now()));
        let retry_after = retry_after.filter(|_| meaning.kind == Kind::RateLimited);
        let failure = Failure { scope: meaning.scope, ..Failure::new(meaning.kind.class(), text).after(retry_after) };
        match meaning.kind {
            Kind::StaleToken => Setback::StaleToken(failure),
            Kind::Retryable | Kind::RateLimited | Kind::Final => Setback::Failed(failure.into()),
        }
    }
}

/// What a job asks the API for.
struct Asked<'a> {
    job: &'a Job,
    customer: String,
    query: &'a str,
}

/// A note is kept whatever becomes of the attempt, so it must be fit to be shown at once.
fn note_request(account: &Account, id: &str, records: &mut Records) {
    records.note("request_id", cut(&redact(id, &account.used.all()), REQUEST_ID_BYTES));
}

fn confidential(what: &str, text: &str) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| Failure::fatal(format!("{what} has characters that cannot be sent, such as a line break")))?;
    value.set_sensitive(true);
    Ok(value)
}

impl Extractor for GoogleAds {
    fn name(&self) -> &'static str {
        "google-ads"
    }

    fn extract<'a>(&'a self, job: &'a Job, records: &'a mut Records) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let customer = customer_digits(job.key.customer_id.as_str()).map_err(Failure::fatal)?;
            let query = job.query.as_deref().filter(|query| !query.trim().is_empty()).ok_or_else(|| {
                let (source, name) = (&job.key.source, &job.key.query_name);
                Failure::fatal(format!("there is no query to send; set sources.{source}.queries.{name}.query"))
            })?;
            let (asked, account) = (Asked { job, customer, query }, self.tokens.account(job));
            let token = self.tokens.get(&self.client, job, &account, None).await?;
            match self.stream(&asked, &account, &token, records).await {
                Ok(()) => Ok(()),
                Err(Setback::Failed(error)) => Err(error),
                // Rows that were taken cannot be taken back within an attempt; the next one starts with another token.
                Err(Setback::StaleToken(failure)) if records.count() > 0 => {
                    account.forget(&token).await;
                    Err(Failure::retryable(failure.message).into())
                }
                Err(Setback::StaleToken(_)) => {
                    let token = self.tokens.get(&self.client, job, &account, Some(&token)).await?;
                    self.stream(&asked, &account, &token, records).await.map_err(Setback::into_error)
                }
            }
        })
    }

    fn secrets(&self, job: &Job) -> Vec<String> {
        [self.tokens.account(job).used.all(), self.client.secrets()].concat()
    }

    fn missing(&self) -> Vec<String> {
        self.named_secrets().filter_map(Secret::missing).chain(self.client.missing()).collect()
    }

    fn missing_for(&self, job: &Job) -> Vec<String> {
        self.named_secrets().filter_map(|secret| secret.missing_for(job)).collect()
    }

    fn hosts(&self) -> Vec<String> {
        self.client.hosts([&self.base, &self.tokens.endpoint])
    }
}
