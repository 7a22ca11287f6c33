//! Idempotency keys: a request that changes something may be sent again, and changes nothing more.
//!
//! A key is first noted as running. While the request is at work, under [`under_key`], every transaction that writes notes in itself that
//! the key has changed something, and takes nothing back if another request holds the key by then. Where what a transaction gives is
//! all that the answer is made of, the answer is kept in it ([`answering`]); otherwise it is kept at last.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use redrive_core::time::Timestamp;
use uuid::Uuid;

use crate::db::{Sql, Tx};
use crate::error::{Error, Result};
use crate::handles::{ControlStore, Store, transact};

/// How long a request may be at work before another may take its key over, provided that nothing was changed.
const HELD_FOR: Duration = Duration::from_secs(300);

tokio::task_local! {
    /// The key of the request that this task serves.
    static KEY: KeyHold;
    /// How the request is answered, from what a transaction gives.
    static ANSWER_OF: AnswerOf;
}

/// The answer to a request, where this is what it is made of.
type AnswerOf = Arc<dyn Fn(&dyn Any) -> Option<String> + Send + Sync>;

/// A request with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedRequest {
    pub actor: String,
    /// Method and path.
    pub route: String,
    pub key: String,
    /// SHA-256.
    pub body_hash: Vec<u8>,
}

/// A key that this request holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyHold {
    request: KeyedRequest,
    holder: Uuid,
}

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyFound {
    /// Nothing: the request is to be done, under this hold.
    Fresh(KeyHold),
    /// It was answered so.
    Answered(String),
    /// Another request with the same key is at work.
    Running,
    /// It changed something, and the server ended before its answer was kept.
    Interrupted,
    /// The key was used for another body.
    OtherBody,
}

impl Store {
    /// Looks a key up, and holds it where it is new.
    pub async fn begin_key(&self, request: KeyedRequest) -> Result<KeyFound> {
        let hold = KeyHold { request, holder: self.new_process_id() };
        transact!(self.inner, "begin key", |tx, hold| begin(tx, &hold).await)
    }

    /// Keeps the answer of a request.
    pub async fn answer_key(&self, hold: KeyHold, answer: String) -> Result<()> {
        transact!(self.inner, "answer key", |tx, hold, answer| keep_answer(tx, &hold, &answer).await)
    }

    /// Forgets the key of a request that has changed nothing, so that it may be sent again.
    pub async fn drop_key(&self, hold: KeyHold) -> Result<()> {
        transact!(self.inner, "drop key", |tx, hold| {
            let KeyHold { request, holder } = &*hold;
            let params = [
                request.actor.as_str().into(),
                request.route.as_str().into(),
                request.key.as_str().into(),
                (*holder).into(),
            ];
            tx.execute(&DROP, &params).await.map(drop)
        })
    }
}

impl ControlStore {
    /// Forgets keys that were first used before a moment; gives how many.
    pub async fn forget_keys(&self, before: Timestamp) -> Result<u64> {
        transact!(self.inner, "forget keys", |tx| tx.execute(&FORGET, &[before.micros().into()]).await)
    }
}

/// Does something under a key: what it writes to the database is noted with the key, in the same transactions.
pub async fn under_key<F: Future>(hold: KeyHold, work: F) -> F::Output {
    KEY.scope(hold, work).await
}

/// Does something whose answer is made of what one of its transactions gives, and keeps that answer in the transaction where there is a
/// key for it.
pub async fn answering<T: Any, F: Future>(
    answer: impl Fn(&T) -> Option<String> + Send + Sync + 'static,
    work: F,
) -> F::Output {
    let answer_of: AnswerOf = Arc::new(move |given| given.downcast_ref::<T>().and_then(&answer));
    ANSWER_OF.scope(answer_of, work).await
}

/// Has work that another task will do go on under the key of this task, which a task that is spawned does not know of.
pub fn under_same_key<T>(work: impl Future<Output = T> + Send + 'static) -> BoxFuture<'static, T> {
    match current() {
        None => work.boxed(),
        Some(CurrentKey { hold, answer_of: None }) => KEY.scope(hold, work).boxed(),
        Some(CurrentKey { hold, answer_of: Some(answer_of) }) => {
            KEY.scope(hold, ANSWER_OF.scope(answer_of, work)).boxed()
        }
    }
}

/// The key under which this task works.
pub(crate) fn current() -> Option<CurrentKey> {
    let hold = KEY.try_with(KeyHold::clone).ok()?;
    Some(CurrentKey { hold, answer_of: ANSWER_OF.try_with(Arc::clone).ok() })
}

/// A key, and how its request is answered where that is known in time.
#[derive(Clone)]
pub(crate) struct CurrentKey {
    hold: KeyHold,
    answer_of: Option<AnswerOf>,
}

impl CurrentKey {
    /// The answer, where what a change gives is all that it is made of.
    pub(crate) fn answer(&self, given: &dyn Any) -> Option<String> {
        self.answer_of.as_ref().and_then(|answer_of| answer_of(given))
    }

    /// Notes in the transaction of a change that the key has changed something, with the answer where it is known.
    pub(crate) async fn note(&self, tx: &mut Tx<'_>, answer: Option<String>) -> Result<()> {
        note_change(tx, &self.hold).await?;
        match answer {
            Some(answer) => keep_answer(tx, &self.hold, &answer).await,
            None => Ok(()),
        }
    }
}

static NOTE_NEW: Sql = Sql::new(
    "/* keys::note_new */
     INSERT INTO idempotency_keys (actor, route, name, body_hash, holder, begun_at, held_until, state)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'running')
     ON CONFLICT (actor, route, name) DO NOTHING",
);
static READ: Sql = Sql::new(
    "/* keys::read */
     SELECT body_hash, state, held_until, answer
     FROM idempotency_keys
     WHERE actor = ?1
       AND route = ?2
       AND name = ?3
     {lock}",
);
static TAKE_OVER: Sql = Sql::new(
    "/* keys::take_over */
     UPDATE idempotency_keys
     SET holder = ?4, held_until = ?5
     WHERE actor = ?1
       AND route = ?2
       AND name = ?3",
);

async fn begin(tx: &mut Tx<'_>, hold: &KeyHold) -> Result<KeyFound> {
    let KeyHold { request, holder } = hold;
    let now = tx.now();
    let until = now.saturating_add(HELD_FOR).micros();
    let name = [request.actor.as_str().into(), request.route.as_str().into(), request.key.as_str().into()];
    let new = [
        name[0],
        name[1],
        name[2],
        request.body_hash.as_slice().into(),
        (*holder).into(),
        now.micros().into(),
        until.into(),
    ];
    if tx.execute(&NOTE_NEW, &new).await? > 0 {
        return Ok(KeyFound::Fresh(hold.clone()));
    }
    let read = |row: &crate::db::Row<'_>| Ok((row.bytes(0)?, row.text(1)?, row.int(2)?, row.opt_text(3)?));
    let Some((body_hash, state, held_until, answer)) = tx.row(&READ, &name, read).await? else {
        return Ok(KeyFound::Running);
    };
    if body_hash != request.body_hash {
        return Ok(KeyFound::OtherBody);
    }
    let is_held = held_until > now.micros();
    Ok(match (state.as_str(), answer) {
        ("done", Some(answer)) => KeyFound::Answered(answer),
        ("running" | "changed", _) if is_held => KeyFound::Running,
        ("running", _) => {
            tx.execute(&TAKE_OVER, &[name[0], name[1], name[2], (*holder).into(), until.into()]).await?;
            KeyFound::Fresh(hold.clone())
        }
        (_, _) => KeyFound::Interrupted,
    })
}

static CHANGED: Sql = Sql::new(
    "/* keys::changed */
     UPDATE idempotency_keys
     SET state = CASE WHEN state = 'done' THEN state ELSE 'changed' END
     WHERE actor = ?1
       AND route = ?2
       AND name = ?3
       AND holder = ?4",
);
static ANSWER: Sql = Sql::new(
    "/* keys::answer */
     UPDATE idempotency_keys
     SET state = 'done', answer = ?5
     WHERE actor = ?1
       AND route = ?2
       AND name = ?3
       AND holder = ?4",
);
static DROP: Sql = Sql::new(
    "/* keys::drop */
     DELETE FROM idempotency_keys
     WHERE actor = ?1
       AND route = ?2
       AND name = ?3
       AND holder = ?4
       AND state = 'running'",
);
static FORGET: Sql = Sql::new(
    "/* keys::forget */
     DELETE FROM idempotency_keys
     WHERE begun_at < CAST(?1 AS BIGINT)",
);

async fn keep_answer(tx: &mut Tx<'_>, KeyHold { request, holder }: &KeyHold, answer: &str) -> Result<()> {
    let params = [
        request.actor.as_str().into(),
        request.route.as_str().into(),
        request.key.as_str().into(),
        (*holder).into(),
        answer.into(),
    ];
    tx.execute(&ANSWER, &params).await.map(drop)
}

/// Notes in the transaction of a change that its key has changed something.
async fn note_change(tx: &mut Tx<'_>, KeyHold { request, holder }: &KeyHold) -> Result<()> {
    let params =
        [request.actor.as_str().into(), request.route.as_str().into(), request.key.as_str().into(), (*holder).into()];
    match tx.execute(&CHANGED, &params).await? {
        0 => Err(Error::KeyTaken),
        _ => Ok(()),
    }
}
