//! A row of the table of routes: what it is, who may call it, and what it takes and gives.

use std::sync::Arc;

use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{self, MethodRouter};
use schemars::JsonSchema;

use crate::app::App;
use crate::description::{Answer, Gives, Link, Takes};
use crate::web::{Access, Code, Gate, List, Param};

/// A row of the table.
#[derive(Debug)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub access: Access,
    /// Whether it changes something that lasts.
    pub changes: bool,
    /// The parameters that it knows; any other is refused.
    pub query: &'static [&'static [Param]],
    /// What it does, in a line.
    pub what: &'static str,
    /// The ways in which it succeeds; the usual one first.
    pub answers: Vec<Answer>,
    /// The problems that it may answer with beside those of every route of its kind.
    pub refuses: &'static [Code],
    /// The requests that its answer leads to.
    pub links: &'static [Link],
    pub takes: Takes,
    /// Whether it heeds `If-Match`.
    pub if_match: bool,
    pub(crate) handler: MethodRouter<App>,
}

/// Where an answer of 202 leads.
const LOCATION: &[(&str, &str)] = &[("Location", "Where the operation is looked at")];
const ETAG: &[(&str, &str)] = &[("ETag", "The version, for If-Match")];

impl Route {
    /// Only reads.
    pub fn get<H, T>(path: &'static str, access: Access, what: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self { changes: false, ..Self::new(Method::GET, path, access, what, routing::get(handler)) }
    }

    pub fn post<H, T>(path: &'static str, access: Access, what: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::new(Method::POST, path, access, what, routing::post(handler))
    }

    pub fn delete<H, T>(path: &'static str, access: Access, what: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Self::new(Method::DELETE, path, access, what, routing::delete(handler))
    }

    /// A route that changes something and answers with nothing, unless more is said of it.
    fn new(method: Method, path: &'static str, access: Access, what: &'static str, handler: MethodRouter<App>) -> Self {
        let answers = vec![Answer { status: 200, what, gives: Gives::Nothing, headers: &[] }];
        let (query, refuses, links, takes) = (&[], &[], &[], Takes::Nothing);
        Self {
            method,
            path,
            access,
            changes: true,
            query,
            what,
            answers,
            refuses,
            links,
            takes,
            if_match: false,
            handler,
        }
    }

    /// Changes its usual answer.
    fn usually(mut self, change: impl FnOnce(&mut Answer)) -> Self {
        if let Some(usual) = self.answers.first_mut() {
            change(usual);
        }
        self
    }

    #[must_use]
    pub fn status(self, status: u16) -> Self {
        self.usually(|answer| answer.status = status)
    }

    #[must_use]
    pub fn gives(self, gives: Gives) -> Self {
        self.usually(|answer| answer.gives = gives)
    }

    #[must_use]
    pub fn json<T: JsonSchema>(self) -> Self {
        self.gives(Gives::json::<T>())
    }

    /// A page of a list, or everything as JSON lines.
    #[must_use]
    pub fn list<L: List>(self) -> Self {
        self.gives(Gives::page::<L>())
    }

    /// Its answer carries the version of what it shows.
    #[must_use]
    pub fn etag(self) -> Self {
        self.usually(|answer| answer.headers = ETAG)
    }

    /// Its answer says where the operation that it has begun is looked at.
    #[must_use]
    pub fn accepted<T: JsonSchema>(self) -> Self {
        self.usually(|answer| {
            *answer = Answer { status: 202, gives: Gives::json::<T>(), headers: LOCATION, ..*answer };
        })
    }

    /// It may also have begun an operation that goes on, and say where that is looked at.
    #[must_use]
    pub fn or_accepted<T: JsonSchema>(mut self, what: &'static str) -> Self {
        self.answers.push(Answer { status: 202, what, gives: Gives::json::<T>(), headers: LOCATION });
        self
    }

    /// It may also succeed with nothing to say.
    #[must_use]
    pub fn or_nothing(mut self, what: &'static str) -> Self {
        self.answers.push(Answer { status: 204, what, gives: Gives::Nothing, headers: &[] });
        self
    }

    /// A browser is told of this problem by a page.
    #[must_use]
    pub fn or_page(mut self, status: u16, what: &'static str) -> Self {
        self.answers.push(Answer { status, what, gives: Gives::Html, headers: &[] });
        self
    }

    #[must_use]
    pub fn takes<T: JsonSchema>(self) -> Self {
        Self { takes: Takes::json::<T>(), ..self }
    }

    /// Takes bodies that no type of Rust stands for.
    #[must_use]
    pub fn takes_bodies(self, content: fn() -> serde_json::Value) -> Self {
        Self { takes: Takes::Other(content), ..self }
    }

    #[must_use]
    pub fn refuses(self, refuses: &'static [Code]) -> Self {
        Self { refuses, ..self }
    }

    #[must_use]
    pub fn links(self, links: &'static [Link]) -> Self {
        Self { links, ..self }
    }

    #[must_use]
    pub fn if_match(self) -> Self {
        Self { if_match: true, ..self }
    }

    #[must_use]
    pub fn query(self, query: &'static [&'static [Param]]) -> Self {
        Self { query, ..self }
    }

    /// It may change who is signed in, and nothing else: a server that only reads takes it too.
    #[must_use]
    pub fn leaves_data_alone(self) -> Self {
        Self { changes: false, ..self }
    }

    /// Whether an `Idempotency-Key` lets the request be sent again.
    pub fn is_keyed(&self) -> bool {
        self.method == Method::POST && self.changes
    }

    pub(crate) fn gate(&self) -> Arc<Gate> {
        Arc::new(Gate { access: self.access, changes: self.changes, query: self.query })
    }
}
