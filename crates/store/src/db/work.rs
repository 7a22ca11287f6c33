//! What a transaction does, whatever it gives: one type, so that the way through a database is compiled once and not for each of its
//! callers.

use std::any::Any;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::tx::Tx;
use crate::error::Result;

/// What a transaction gave.
pub(super) type Given = Box<dyn Any + Send>;

/// What a transaction does; it is called again for each try.
pub(super) type Work = Arc<dyn for<'t, 'c> Fn(&'t mut Tx<'c>) -> BoxFuture<'t, Result<Given>> + Send + Sync>;

/// What gives a `T` gives something.
pub(super) fn giving<T, F>(work: F) -> Work
where
    T: Send + 'static,
    F: for<'t> Fn(&'t mut Tx<'_>) -> BoxFuture<'t, Result<T>> + Send + Sync + 'static,
{
    shared(move |tx| {
        let doing = work(tx);
        Box::pin(async move { Ok(Box::new(doing.await?) as Given) })
    })
}

pub(super) fn shared<F>(work: F) -> Work
where
    F: for<'t, 'c> Fn(&'t mut Tx<'c>) -> BoxFuture<'t, Result<Given>> + Send + Sync + 'static,
{
    Arc::new(work)
}

/// What work that [gives](giving) a `T` gave.
pub(super) fn given<T: 'static>(given: Given) -> T {
    match given.downcast() {
        Ok(value) => *value,
        Err(_) => unreachable!("work gave another thing than it says"),
    }
}
