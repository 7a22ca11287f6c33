//! The stream of ticks, as server-sent events: `event: partitions` and so on, each with the number of its tick.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::watch;

use crate::app::App;
use crate::error::{Error, Result};
use crate::events::{TOPICS, Ticks};
use crate::metrics::{Metrics, StreamGuard};
use crate::routes::{Access, Gives, Route};
use crate::web::Code;

/// So that nothing on the way takes a quiet stream for a dead one.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub fn routes() -> Vec<Route> {
    let what = "Which topics may have changed, as server-sent events";
    vec![Route::get("/events", Access::Viewer, what, events).gives(Gives::Events).refuses(&[Code::Draining])]
}

async fn events(State(app): State<App>) -> Result<Response> {
    if app.is_draining() {
        return Err(Error::of_code(Code::Draining, "the server is about to end; use another one"));
    }
    let followed = app.events().follow(app.store());
    let seen = *followed.borrow();
    let stream = Stream { _open: Metrics::stream(&app), app, followed, seen, has_begun: false };
    let body = Body::from_stream(stream::unfold(stream, Stream::next));
    Ok(([(CONTENT_TYPE, "text/event-stream")], body).into_response())
}

struct Stream {
    app: App,
    followed: watch::Receiver<Ticks>,
    seen: Ticks,
    has_begun: bool,
    _open: StreamGuard,
}

impl Stream {
    /// The next piece of the stream; none when the server is about to end.
    async fn next(mut self) -> Option<(std::result::Result<Bytes, Infallible>, Self)> {
        if !self.has_begun {
            self.has_begun = true;
            return Some((Ok(Bytes::from_static(b"retry: 2000\n\n")), self));
        }
        let text = tokio::select! {
            () = self.app.drained() => return None,
            changed = self.followed.changed() => {
                changed.ok()?;
                self.ticks()
            }
            () = tokio::time::sleep(KEEP_ALIVE) => ": still here\n\n".to_owned(),
        };
        Some((Ok(Bytes::from(text)), self))
    }

    fn ticks(&mut self) -> String {
        let now = *self.followed.borrow_and_update();
        let before = std::mem::replace(&mut self.seen, now);
        let ticked = TOPICS.iter().zip(now).zip(before).filter(|((_, now), before)| now != before);
        ticked.map(|((topic, number), _)| format!("event: {topic}\ndata: {number}\n\n")).collect()
    }
}
