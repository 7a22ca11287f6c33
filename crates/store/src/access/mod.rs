//! Who may call the server: tokens, and the browsers that are signed in. What was given away is never kept, only its hash.

mod sessions;
mod tokens;

use std::sync::Arc;

use redrive_core::id::OpId;
use redrive_core::time::Timestamp;

use crate::handles::Inner;
pub use sessions::Session;
pub use tokens::{NewToken, Token};

/// The server's handle: it knows tokens and sessions, and neither partitions nor runs.
#[derive(Debug, Clone)]
pub struct Access {
    pub(crate) inner: Arc<Inner>,
}

impl Access {
    pub fn now(&self) -> Timestamp {
        self.inner.now()
    }

    pub fn new_operation_id(&self) -> OpId {
        self.inner.ids.operation(self.inner.now())
    }
}
