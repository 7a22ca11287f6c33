//! A request with the redirects that it meets. Where an answer may lead is decided here and not by the library: it gets
//! no secret that was not meant for it, and it cannot point into a private network.

use std::net::IpAddr;

use reqwest::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::{Method, StatusCode};
use url::{Host, Url};

use super::client::Client;
use super::guard::{MetadataAddress, PrivateAddress, is_metadata, is_public};
use super::headers::ResolvedHeader;
use super::response::{Response, without_query};
use crate::failure::Failure;

const MAX_REDIRECTS: u32 = 10;

/// What is sent to `url`, or to a page that an answer from there names.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) url: Url,
    pub(crate) method: Method,
    pub(crate) headers: Vec<ResolvedHeader>,
    pub(crate) body: Option<String>,
}

impl Client {
    /// Sends the request to `page` and follows redirects, where the client may. Confidential headers go to the origin
    /// of the request's own URL and nowhere else.
    pub(crate) async fn fetch(&self, request: &Request, page: Url) -> Result<Response, Failure> {
        let (mut url, mut method, mut body) = (page, request.method.clone(), request.body.clone());
        for _ in 0..=MAX_REDIRECTS {
            // An answer may lead to less than the configuration: what it may not know is out of its reach.
            let is_led = url.origin() != request.url.origin();
            check(&url, self.allow_private, is_led)?;
            let made = self.made().await?;
            let http = if is_led { &made.led } else { &made.http };
            let answer = self.send_by(http, request.to(&url, &method, body.as_ref())).await?;
            let Some(target) = redirected(&answer)? else { return Ok(answer) };
            if !self.redirects {
                return Err(Failure::retryable(format!(
                    "{} answers {} and leads to {}; set redirects = true, or url to where it leads",
                    answer.name(),
                    answer.status(),
                    without_query(&target),
                )));
            }
            if url.scheme() == "https" && target.scheme() != "https" {
                let text = format!("{} leads from https to {}", answer.name(), without_query(&target));
                return Err(Failure::fatal(text));
            }
            if turns_into_get(answer.status(), &method) {
                (method, body) = (Method::GET, None);
            }
            url = target;
        }
        Err(Failure::retryable(format!("{}: more than {MAX_REDIRECTS} redirects", without_query(&request.url))))
    }
}

impl Client {
    /// Why a configured address may not be connected to, as far as it says itself where it leads.
    pub(crate) fn forbids(&self, url: &Url) -> Option<String> {
        let is_here = matches!(url.host(), Some(Host::Domain("localhost")));
        if is_here && !self.allow_private {
            let here = PrivateAddress { host: "localhost".to_owned(), address: "127.0.0.1".to_owned() };
            return Some(here.to_string());
        }
        check(url, self.allow_private, false).err().map(|failure| failure.message)
    }
}

impl Request {
    fn to(&self, url: &Url, method: &Method, body: Option<&String>) -> reqwest::Request {
        let mut request = reqwest::Request::new(method.clone(), url.clone());
        let at_home = url.origin() == self.url.origin();
        for header in self.headers.iter().filter(|header| at_home || !header.confidential) {
            request.headers_mut().insert(header.name.clone(), header.value.clone());
        }
        if let Some(body) = body {
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().entry(CONTENT_TYPE).or_insert(json);
            *request.body_mut() = Some(body.clone().into());
        }
        request
    }
}

/// Fails for what must not be connected to. Names are checked again by whatever they resolve to.
fn check(url: &Url, allow_private: bool, is_led: bool) -> Result<(), Failure> {
    let shown = without_query(url);
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Failure::fatal(format!("{shown} is neither http nor https")));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let why = format!("the URL of {shown} has a user or a password; put them into headers");
        return Err(Failure::fatal(why).of_setup());
    }
    let address: Option<IpAddr> = match url.host() {
        Some(Host::Ipv4(address)) => Some(address.into()),
        Some(Host::Ipv6(address)) => Some(address.into()),
        Some(Host::Domain(_)) | None => None,
    };
    let host = || url.host_str().unwrap_or_default().to_owned();
    match address {
        Some(address) if is_led && is_metadata(address) => {
            Err(Failure::fatal(MetadataAddress { host: host(), address: address.to_string() }.to_string()))
        }
        Some(address) if !allow_private && !is_public(address) => {
            Err(Failure::fatal(PrivateAddress { host: host(), address: address.to_string() }.to_string()).of_setup())
        }
        Some(_) | None => Ok(()),
    }
}

fn redirected(answer: &Response) -> Result<Option<Url>, Failure> {
    if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = answer.headers().get(LOCATION) else { return Ok(None) };
    let joined = location.to_str().ok().and_then(|location| answer.url().join(location).ok());
    let no_url = || Failure::retryable(format!("{} answers {} to no URL", answer.name(), answer.status()));
    joined.map(Some).ok_or_else(no_url)
}

/// As every browser does it: only 307 and 308 keep the method.
fn turns_into_get(status: StatusCode, method: &Method) -> bool {
    match status.as_u16() {
        303 => *method != Method::GET,
        301 | 302 => *method == Method::POST,
        _ => false,
    }
}
