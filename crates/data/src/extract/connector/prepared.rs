//! A connector's program, ready to be started as often as one job needs it.

use std::ffi::OsStr;
use std::sync::Arc;

use crate::extract::{Failure, Job};
use crate::program::{Child, Invocation, Watch};
use crate::settings::Redactor;

pub(in crate::extract) struct Prepared {
    pub(in crate::extract) invocation: Invocation,
    pub(in crate::extract) redactor: Arc<Redactor>,
}

impl Prepared {
    /// Starts it with these arguments; lines of its stderr that hold a pattern are kept.
    pub(in crate::extract) fn start(
        &self,
        job: &Job,
        arguments: &[&OsStr],
        patterns: Vec<String>,
    ) -> Result<Child, Failure> {
        job.start(&self.invocation, arguments, Watch { patterns, ..Watch::with(Arc::clone(&self.redactor)) })
    }
}
