//! A connection lent by the pool. It goes back only when the last call on it has been answered: one whose answer is still
//! on its way, or will never come, is closed, and the server gives up what was under way on it.

use std::ops::{Deref, DerefMut};

use deadpool_postgres::{Object, Pool, PoolError};

#[derive(Debug)]
pub(super) struct Lent {
    /// None once it has been closed.
    object: Option<Object>,
    is_idle: bool,
}

impl Lent {
    pub(super) async fn from(pool: &Pool) -> Result<Self, PoolError> {
        Ok(Self { object: Some(pool.get().await?), is_idle: false })
    }

    /// Says that nothing is under way on it, so that the pool may have it back.
    pub(super) fn give_back(mut self) {
        self.is_idle = true;
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(object) = self.object.take()
            && !self.is_idle
        {
            drop(Object::take(object));
        }
    }
}

impl Deref for Lent {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.object.as_ref().unwrap_or_else(|| unreachable!("it is there until the drop"))
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Object {
        self.object.as_mut().unwrap_or_else(|| unreachable!("it is there until the drop"))
    }
}
