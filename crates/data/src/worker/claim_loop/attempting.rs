//! An attempt that is under way: goes on with it, in its span and with its panics caught, until there is something to hear.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tracing::Span;

use crate::worker::attempt_end::{AttemptEnd, AttemptResult};
use crate::worker::permit::Permit;

/// An attempt that has nothing left to do by itself.
#[derive(Debug)]
pub(super) struct Finished {
    /// Its workload, by its place among the worker's.
    pub(super) nth: usize,
    pub(super) permit: Option<Permit>,
    pub(super) result: AttemptResult,
    pub(super) span: Span,
}

/// An attempt under way.
pub(super) struct Attempting {
    nth: usize,
    /// Given up once the attempt only settles.
    permit: Option<Permit>,
    doing: BoxFuture<'static, AttemptResult>,
    span: Span,
}

impl Attempting {
    pub(super) fn new(
        nth: usize,
        permit: Option<Permit>,
        doing: BoxFuture<'static, AttemptResult>,
        span: Span,
    ) -> Self {
        Self { nth, permit, doing, span }
    }

    /// Whether only our own disk and database are waited for.
    pub(super) fn is_settling(&self) -> bool {
        self.permit.is_none()
    }

    /// Puts something in the place of what was being done, which is dropped as a part of the attempt.
    fn replace(&mut self, next: BoxFuture<'static, AttemptResult>) {
        let before = std::mem::replace(&mut self.doing, next);
        self.span.in_scope(|| drop(before));
    }
}

impl Future for Attempting {
    type Output = Finished;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Finished> {
        loop {
            let Self { doing, span, .. } = &mut *self;
            let result = match span.in_scope(|| catch_unwind(AssertUnwindSafe(|| doing.as_mut().poll(task)))) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(AttemptResult::Settling { rest })) => {
                    self.replace(rest);
                    if let Some(permit) = self.permit.take() {
                        permit.give_up();
                    }
                    continue;
                }
                Ok(Poll::Ready(result)) => result,
                // Its lease is dropped with it and runs out, and the attempt is ended as abandoned.
                Err(_) => AttemptResult::Ended(AttemptEnd::Lost),
            };
            self.replace(nothing());
            let span = std::mem::replace(&mut self.span, Span::none());
            return Poll::Ready(Finished { nth: self.nth, permit: self.permit.take(), result, span });
        }
    }
}

/// What is aborted is dropped as a part of the attempt, too.
impl Drop for Attempting {
    fn drop(&mut self) {
        self.replace(nothing());
    }
}

fn nothing() -> BoxFuture<'static, AttemptResult> {
    Box::pin(std::future::pending())
}
