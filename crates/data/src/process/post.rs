//! `url`: the job is posted as JSON, and the body of the answer holds the verdict.
//!
//! Statuses mean what they mean everywhere: 429, or 503 with `Retry-After`, is a rate limit; 408, 425, 5xx and a connection
//! that fails may pass; any other 4xx is final. A success without a verdict may pass too, as for programs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redrive_core::classify;
use redrive_store::clock::Clock;
use url::Url;

use super::{Answer, Context, Error, Failure, Handler, Job, answer};
use crate::settings::{Placeholders, SettingError, Surroundings, ValueRef, redact};
use crate::web::{Client, ClientOptions, Headers, MAX_RATIO, Request, Response, retry_after};

/// How much of an error's body is read.
const ERROR_BYTES: usize = 2 << 10;

/// What the configuration says of a server.
#[derive(Debug, Clone, Copy)]
pub struct PostSettings<'a> {
    pub url: &'a str,
    /// Each a text with placeholders, or a secret. Secrets are sent to the URL's own origin and nowhere else.
    pub headers: &'a BTreeMap<String, ValueRef>,
    /// How long nothing may come: before an answer begins, and between two pieces of it.
    pub idle_timeout: Duration,
    pub connect_timeout: Duration,
    /// Whether redirects are followed.
    pub redirects: bool,
    /// Whether addresses of private networks and of this machine may be reached.
    pub allow_private: bool,
    /// Certificates (PEM) to trust besides those that everybody does.
    pub ca_file: Option<&'a Path>,
}

/// A server, and how it is asked.
pub(super) struct Server<J: Placeholders> {
    pub(super) url: Url,
    pub(super) headers: Headers<J>,
    client: Client,
    clock: Arc<dyn Clock>,
}

impl<J: Placeholders> fmt::Debug for Server<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("url", &crate::web::without_query(&self.url)).finish_non_exhaustive()
    }
}

impl<J: Placeholders> Server<J> {
    pub(super) fn new(
        settings: &PostSettings<'_>,
        around: &Surroundings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SettingError> {
        let invalid = |why: String| SettingError::at("url", why);
        if !settings.url.starts_with("http://") && !settings.url.starts_with("https://") {
            return Err(invalid(format!("{:?} must begin with https:// or http://", settings.url)));
        }
        let url = Url::parse(settings.url).map_err(|why| invalid(format!("is no URL: {why}")))?;
        let PostSettings { connect_timeout, idle_timeout, ca_file, allow_private, redirects, .. } = *settings;
        let options =
            ClientOptions { connect_timeout, idle_timeout, ca_file, allow_private, redirects, max_ratio: MAX_RATIO };
        let headers = Headers::new(settings.headers, around)?;
        Ok(Self { url, headers, client: Client::new(options, None)?, clock })
    }

    /// Sends a request; an answer that is no success is a failure.
    pub(super) async fn ask(&self, job: &J, body: Option<String>) -> Result<Response, Failure> {
        let method = if body.is_some() { reqwest::Method::POST } else { reqwest::Method::GET };
        let request = Request { url: self.url.clone(), method, headers: self.headers.resolve(job).await?, body };
        let answer = self.client.fetch(&request, self.url.clone()).await?;
        if answer.status().is_success() { Ok(answer) } else { Err(self.refusal(job, answer).await) }
    }

    /// What keeps this machine from asking it.
    pub(super) fn missing(&self) -> Vec<String> {
        let forbidden = self.client.forbids(&self.url);
        self.headers.missing().into_iter().chain(self.client.missing()).chain(forbidden).collect()
    }

    async fn refusal(&self, job: &J, mut answer: Response) -> Failure {
        let words = answer.beginning(ERROR_BYTES).await.words(&self.headers.secrets(job));
        let mut text = format!("{} answered {}", answer.name(), answer.status());
        if !words.is_empty() {
            text = format!("{text}: {words}");
        }
        let retry_after = retry_after(answer.headers(), self.clock.now());
        let class = classify::http_status(answer.status().as_u16(), retry_after.is_some());
        Failure::new(class, text).after(retry_after)
    }
}

#[derive(Debug)]
pub struct Post {
    server: Server<Job>,
}

impl Post {
    pub fn new(
        settings: &PostSettings<'_>,
        around: &Surroundings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SettingError> {
        Ok(Self { server: Server::new(settings, around, clock)? })
    }

    async fn run(&self, job: &Job) -> Result<Answer, Failure> {
        let mut answer = self.server.ask(job, Some(job.to_json())).await?;
        // One byte more than is allowed shows that there is more.
        let body = answer.beginning(answer::MAX_BYTES + 1).await.whole().map_err(|why| {
            let text = format!("{} answered {}, but its body cannot be read: {why}", answer.name(), answer.status());
            Failure::retryable(text)
        })?;
        Answer::read(&body, "the body").map_err(|why| {
            let why = redact(&why, &self.server.headers.secrets(job));
            Failure::retryable(format!("{} answered {}, but {why}", answer.name(), answer.status()))
        })
    }
}

impl Handler for Post {
    fn handle<'a>(&'a self, job: &'a Job, _: &'a Context) -> BoxFuture<'a, Result<Answer, Error>> {
        Box::pin(async move { Ok(self.run(job).await?) })
    }

    fn secrets(&self, job: &Job) -> Vec<String> {
        self.server.headers.secrets(job)
    }

    fn missing(&self) -> Vec<String> {
        self.server.missing()
    }
}
