//! An operation of the audit trail as people name it: by its id, the beginning of it, or `last`.

use redrive_control::{Found, IdPrefix, Insight, NoId};
use redrive_core::id::OpId;

use crate::error::{Error, Result};

/// The word for the actor's own newest operation.
const LAST: &str = "last";

pub async fn find(text: &str, actor: &str, insight: &Insight) -> Result<OpId> {
    if text == LAST {
        let absent = || Error::NothingFound(format!("{actor} has no operation in the audit trail"));
        return insight.last_operation(actor).await?.ok_or_else(absent);
    }
    let bad = |error: NoId| Error::Usage(format!("{error}; `redrive state audit list` shows them"));
    let prefix: IdPrefix<OpId> = text.parse().map_err(bad)?;
    match insight.find_operation(prefix).await? {
        Found::One(op_id) => Ok(op_id),
        Found::Nothing => {
            Err(Error::NothingFound(format!("there is no operation {text}; `redrive state audit list` shows them")))
        }
        Found::Several(first, second) => Err(Error::Usage(format!(
            "{text} is the beginning of several operations, among them {first} and {second}; give more of it"
        ))),
    }
}
