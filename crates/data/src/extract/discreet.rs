//! An extractor that shows no secret, whatever the one inside it says. Every extractor of a configuration is built into
//! one, so that none has to think of it.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt as _};

use super::{Error, Extractor, Failure, Job, Records};
use crate::settings::redact;

#[derive(Debug)]
pub(super) struct Discreet(pub(super) Arc<dyn Extractor>);

impl Discreet {
    /// The secrets are asked for when it is over: an extractor may have met some on its way.
    fn hide(&self, error: Error) -> Error {
        match error {
            Error::Source(failure) => {
                let message = redact(&failure.message, &self.secrets());
                Error::Source(Failure { message, ..failure })
            }
            Error::Sink(error) => Error::Sink(error),
        }
    }
}

impl Extractor for Discreet {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn extract<'a>(&'a self, job: &'a Job, records: &'a mut Records) -> BoxFuture<'a, Result<(), Error>> {
        self.0.extract(job, records).map(|outcome| outcome.map_err(|error| self.hide(error))).boxed()
    }

    fn secrets(&self) -> Vec<String> {
        self.0.secrets()
    }
}
