//! The extractor: page after page, until one is the last.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use redrive_core::classify;
use redrive_store::clock::Clock;
use url::Url;

use super::body;
use super::pages::{PageGuard, Paging};
use super::settings::{Format, Method, RateLimitScope, Settings};
use crate::extract::json_stream::{Path, RecordStream};
use crate::extract::{Error, Extractor, ExtractorContext, Failure, Job, Records, Template};
use crate::settings::{Escape, SettingError};
use crate::web::{Client, ClientOptions, Headers, Proxy, Request, Response, retry_after};

/// How much of an error's body is read.
const ERROR_BYTES: usize = 2 << 10;

#[derive(Debug)]
pub struct Http {
    settings: Settings,
    url: Template,
    body: Option<Template>,
    headers: Headers<Job>,
    records: Path,
    paging: Paging,
    client: Client,
    clock: Arc<dyn Clock>,
}

impl Http {
    pub fn new(settings: &Settings, context: &ExtractorContext) -> Result<Self, SettingError> {
        let at = |key: &'static str| move |why: String| SettingError::at(key, why);
        if !settings.url.starts_with("http://") && !settings.url.starts_with("https://") {
            return Err(SettingError::at("url", format!("{:?} must begin with https:// or http://", settings.url)));
        }
        let records = Path::dotted(&settings.records).map_err(at("records"))?;
        if settings.format == Format::Jsonl && !records.is_root() {
            let why = "records is for format = \"json\"; with \"jsonl\" every line is a record";
            return Err(SettingError::at("records", why).also(&["format"]));
        }
        let body = settings.body.as_deref().map(Template::parse).transpose().map_err(at("body"))?;
        if body.is_some() && settings.method == Some(Method::Get) {
            let why = "a GET has no body; set method = \"POST\", or leave body out";
            return Err(SettingError::at("body", why).also(&["method"]));
        }
        let options = ClientOptions {
            connect_timeout: settings.connect_timeout,
            idle_timeout: settings.idle_timeout,
            ca_file: settings.ca_file.as_deref(),
            allow_private: settings.allow_private,
            redirects: settings.redirects,
            max_ratio: settings.max_ratio,
        };
        let proxy = Proxy::new(settings.proxy.as_deref(), settings.proxy_password.as_ref(), &context.around)?;
        Ok(Self {
            url: Template::parse(&settings.url).map_err(at("url"))?,
            body,
            headers: Headers::new(&settings.headers, &context.around)?,
            paging: Paging::new(settings, &records)?,
            records,
            client: Client::new(options, proxy)?,
            settings: settings.clone(),
            clock: Arc::clone(&context.clock),
        })
    }

    /// Why the URL's own host may not be asked, where that can be told without the work and without looking it up.
    fn forbidden(&self) -> Option<String> {
        self.client.forbids(&self.place()?)
    }

    /// The URL up to its first placeholder, where its host is whole by then.
    fn place(&self) -> Option<Url> {
        let beginning = self.url.beginning();
        let (_, after_scheme) = beginning.split_once("://")?;
        let names_host = self.url.fixed().is_some() || after_scheme.contains('/');
        Url::parse(beginning).ok().filter(|_| names_host)
    }

    async fn request(&self, job: &Job) -> Result<Request, Failure> {
        let method = match (self.settings.method, &self.body) {
            (Some(Method::Get), _) | (None, None) => reqwest::Method::GET,
            (Some(Method::Post), _) | (None, Some(_)) => reqwest::Method::POST,
            (Some(Method::Put), _) => reqwest::Method::PUT,
        };
        Ok(Request {
            url: place(&self.url.render(job, Escape::Url))?,
            method,
            headers: self.headers.resolve(job).await?,
            body: self.body.as_ref().map(|body| body.render(job, Escape::Json)),
        })
    }

    /// Takes a page's records; gives the URL of the next one.
    async fn page(
        &self,
        job: &Job,
        first: &Url,
        mut answer: Response,
        records: &mut Records,
    ) -> Result<Option<Url>, Error> {
        match answer.status().as_u16() {
            200 | 201 | 203 => {}
            204 => return Ok(None),
            // Among them "accepted" and "partial content": what would come is not all.
            _ => return Err(self.refusal(job, answer).await.into()),
        }
        let stream = RecordStream::new(self.records.clone(), self.paging.path().cloned());
        let stream = body::read(&mut answer, &self.settings, stream, records).await?;
        if self.settings.format == Format::Json && !stream.found() {
            let text = format!("{}: the answer has no array at {}", answer.name(), self.records);
            return Err(Failure::retryable(text).into());
        }
        Ok(self.paging.next(first, &answer, &stream)?)
    }

    async fn refusal(&self, job: &Job, mut answer: Response) -> Failure {
        let words = answer.beginning(ERROR_BYTES).await.words(&self.secrets(job));
        let mut text = format!("{} answered {}", answer.name(), answer.status());
        if !words.is_empty() {
            text = format!("{text}: {words}");
        }
        let retry_after = retry_after(answer.headers(), self.clock.now());
        let class = classify::http_status(answer.status().as_u16(), retry_after.is_some());
        let failure = Failure::new(class, text).after(retry_after);
        if answer.status().as_u16() == 407 {
            // The proxy does not know us: no other request would fare better.
            return failure.of_setup();
        }
        match self.settings.rate_limit_scope {
            RateLimitScope::Customer => failure,
            RateLimitScope::Source => failure.of_source(),
        }
    }
}

/// The URL that was filled in. Values are percent-encoded, but dots alone would still climb out of their place.
fn place(rendered: &str) -> Result<Url, Failure> {
    let path = rendered.split(['?', '#']).next().unwrap_or_default();
    if path.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err(Failure::fatal(format!(
            "url {path:?} would lead to another place; \".\" and \"..\" are not allowed"
        )));
    }
    let mut url = Url::parse(rendered).map_err(|why| Failure::fatal(format!("url {path:?} is no URL: {why}")))?;
    url.set_fragment(None);
    Ok(url)
}

impl Extractor for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn extract<'a>(&'a self, job: &'a Job, records: &'a mut Records) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let request = self.request(job).await?;
            let mut guard = PageGuard::new(&request.url, &self.settings);
            let mut next = Some(request.url.clone());
            while let Some(page) = next {
                guard.admit(&page)?;
                records.note("pages", guard.pages());
                let answer = self.client.fetch(&request, page).await?;
                next = self.page(job, &request.url, answer, records).await?;
            }
            Ok(())
        })
    }

    fn secrets(&self, job: &Job) -> Vec<String> {
        [self.headers.secrets(job), self.client.secrets()].concat()
    }

    fn missing(&self) -> Vec<String> {
        self.headers.missing().into_iter().chain(self.client.missing()).chain(self.forbidden()).collect()
    }

    fn missing_for(&self, job: &Job) -> Vec<String> {
        self.headers.missing_for(job)
    }

    fn hosts(&self) -> Vec<String> {
        self.client.hosts(self.place().as_ref())
    }
}
