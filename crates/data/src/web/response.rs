//! One request and its answer: every wait has an end, and every fault becomes a failure that names the request without
//! showing its query, which may hold more than a log should.

use std::time::Duration;

use bytes::Bytes;
use redrive_core::cause::{chain, in_words};
use reqwest::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use reqwest::{Request, StatusCode, Version};
use url::Url;

use super::client::Client;
use super::excerpt::excerpt;
use super::guard::{MetadataAddress, PrivateAddress};
use super::unzip::{self, Unzip};
use crate::failure::Failure;

#[derive(Debug)]
pub(crate) struct Response {
    head: reqwest::Response,
    /// The request, as messages call it.
    name: String,
    idle_timeout: Duration,
    unzip: Unzip,
    /// What came last and is not decompressed yet.
    piece: Bytes,
    ended: bool,
}

/// What messages call a request: its method and URL without user, query and fragment.
fn name_of(method: &str, url: &Url) -> String {
    format!("{method} {}", without_query(url))
}

pub(crate) fn without_query(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // These fail for URLs without a host, which have no user either.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

impl Client {
    /// Sends a request to a configured address and waits for the head of the answer.
    pub(crate) async fn send(&self, request: Request) -> Result<Response, Failure> {
        self.send_by(&self.made().await?.http, request).await
    }

    pub(super) async fn send_by(&self, http: &reqwest::Client, request: Request) -> Result<Response, Failure> {
        let name = name_of(request.method().as_str(), request.url());
        match tokio::time::timeout(self.idle_timeout, http.execute(request)).await {
            Ok(Ok(head)) if self.proxy.is_some() && head.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                Err(unknown_to_proxy(&name))
            }
            Ok(Ok(head)) => {
                let encoding = head.headers().get(CONTENT_ENCODING);
                let encoding = encoding.map_or("", |value| value.to_str().unwrap_or("?"));
                let unzip = Unzip::new(encoding, self.max_ratio);
                Ok(Response { head, name, idle_timeout: self.idle_timeout, unzip, piece: Bytes::new(), ended: false })
            }
            Ok(Err(error)) => Err(fault(&name, &error)),
            Err(_) => Err(silence(&name, self.idle_timeout)),
        }
    }
}

impl Response {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.head.status()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.head.headers()
    }

    pub(crate) fn url(&self) -> &Url {
        self.head.url()
    }

    /// A header that is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers().get(name)?.to_str().ok()
    }

    /// Whether the end of the body can be told from a connection that broke: by a length, by chunks, or by HTTP/2. Not
    /// by gzip, which may end after any of its members.
    pub(crate) fn is_framed(&self) -> bool {
        let headers = self.headers();
        // Another coding than chunks ends with the connection, whatever length the head names.
        let coding = headers.get_all(TRANSFER_ENCODING).iter().next_back();
        self.head.version() >= Version::HTTP_2
            || match coding {
                Some(coding) => coding.to_str().is_ok_and(ends_in_chunks),
                None => headers.contains_key(CONTENT_LENGTH),
            }
    }

    /// The next bytes of the body, decompressed; `None` at its end. However well it is compressed, what comes at once fits
    /// into a megabyte.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        while !self.ended {
            if self.piece.is_empty() {
                match tokio::time::timeout(self.idle_timeout, self.head.chunk()).await {
                    Ok(Ok(Some(piece))) => self.piece = piece,
                    Ok(Ok(None)) => self.ended = true,
                    Ok(Err(error)) => return Err(fault(&self.name, &error)),
                    Err(_) => return Err(silence(&self.name, self.idle_timeout)),
                }
            }
            let unzipped = if self.ended { self.unzip.finish() } else { self.unzip.take(&mut self.piece) };
            let bytes = unzipped.map_err(|error| unusable(&self.name, &error))?;
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// The beginning of the body. One that breaks off has no more to say.
    pub(crate) async fn beginning(&mut self, limit: usize) -> Beginning {
        let mut bytes = Vec::new();
        let rest = loop {
            match self.chunk().await {
                Ok(Some(chunk)) => {
                    let room = limit - bytes.len();
                    bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
                    if chunk.len() > room {
                        break Rest::More;
                    }
                }
                Ok(None) => break Rest::Nothing,
                Err(failure) => break Rest::Unreadable(failure.message.replace(&format!("{}: ", self.name), "")),
            }
        };
        Beginning { bytes, rest }
    }
}

/// What was read of a body, and what follows it.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) bytes: Vec<u8>,
    rest: Rest,
}

#[derive(Debug)]
enum Rest {
    Nothing,
    More,
    Unreadable(String),
}

impl Beginning {
    /// What was read, unless the body broke off; more may follow it.
    pub(crate) fn whole(self) -> Result<Vec<u8>, String> {
        match self.rest {
            Rest::Nothing | Rest::More => Ok(self.bytes),
            Rest::Unreadable(why) => Err(why),
        }
    }

    /// A few words of it, fit for a message.
    pub(crate) fn words(&self, secrets: &[String]) -> String {
        match &self.rest {
            Rest::Nothing => excerpt(&self.bytes, true, secrets),
            Rest::Unreadable(why) if self.bytes.is_empty() => format!("its body cannot be read: {why}"),
            Rest::More | Rest::Unreadable(_) => excerpt(&self.bytes, false, secrets),
        }
    }
}

fn ends_in_chunks(coding: &str) -> bool {
    coding.rsplit(',').next().is_some_and(|last| last.trim().eq_ignore_ascii_case("chunked"))
}

fn unusable(name: &str, error: &unzip::Error) -> Failure {
    let text = format!("{name}: {error}");
    match error {
        unzip::Error::Damaged(_) => Failure::retryable(text),
        // It was made so, and comes again.
        unzip::Error::Ratio { .. } => Failure::fatal(text),
    }
}

/// The proxy does not know us: no other request would fare better.
fn unknown_to_proxy(name: &str) -> Failure {
    let todo = "correct the user in proxy, or proxy_password";
    Failure::retryable(format!("{name}: the proxy answered 407, it wants to know who asks; {todo}")).of_setup()
}

fn silence(name: &str, patience: Duration) -> Failure {
    Failure::retryable(format!("{name}: nothing came for {patience:?}; raise idle_timeout if that is usual"))
}

fn fault(name: &str, error: &reqwest::Error) -> Failure {
    if let Some(private) = chain(error).find_map(|cause| cause.downcast_ref::<PrivateAddress>()) {
        return Failure::fatal(format!("{name}: {private}")).of_setup();
    }
    if let Some(metadata) = chain(error).find_map(|cause| cause.downcast_ref::<MetadataAddress>()) {
        return Failure::fatal(format!("{name}: {metadata}"));
    }
    // The library has no type for it that could be asked for.
    if chain(error).any(|cause| cause.to_string() == "tunnel error: proxy authorization required") {
        return unknown_to_proxy(name);
    }
    let text = format!("{name} failed: {}", causes_in_words(error));
    if error.is_builder() { Failure::fatal(text) } else { Failure::retryable(text) }
}

/// The causes behind the library's own words, which show the whole URL.
fn causes_in_words(error: &reqwest::Error) -> String {
    match in_words(chain(error).skip(1)).as_str() {
        "" if error.is_timeout() => "time-out".to_owned(),
        "" => "the connection was lost".to_owned(),
        text => text.replace(['\n', '\r'], " "),
    }
}
