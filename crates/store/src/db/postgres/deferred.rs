//! Statements of which nothing is asked but that they take effect. They wait here and go to the server with the next statement, or with
//! the commit, so that none of them costs a wait of its own. A large one goes at once, behind those that wait: the server is busy with it
//! while the next is made.
//!
//! The server does what it is sent in order. What follows a statement that has failed fails, too, and a commit after it takes
//! everything back: nothing is lost by sending them together.

use std::fmt;
use std::pin::Pin;

use deadpool_postgres::Object;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, MaybeDone, join, join_all, maybe_done};
use tokio_postgres::Statement;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::transaction::Typed;

type Failure = Box<dyn std::error::Error + Sync + Send>;

/// A statement of so many bytes keeps the server busy for longer than a wake-up costs.
const LARGE: usize = 64 << 10;

#[derive(Default)]
pub(super) struct Deferred<'a> {
    waiting: Vec<MaybeDone<BoxFuture<'a, Result<u64, tokio_postgres::Error>>>>,
}

impl fmt::Debug for Deferred<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Deferred({})", self.waiting.len())
    }
}

impl<'a> Deferred<'a> {
    /// How many may wait. What is sent at once is small beside what the server and this program keep for a connection.
    const MOST: usize = 16;

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= Self::MOST
    }

    /// Has a statement prepared. Where the server refuses because one that was sent before has failed, that failure is given.
    pub(super) async fn prepare(&mut self, client: &Object, sql: &str) -> Result<Statement, tokio_postgres::Error> {
        match client.prepare_cached(sql).await {
            Err(error) if error.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION) => {
                self.then(async { Err(error) }).await.all()
            }
            prepared => prepared,
        }
    }

    /// Puts off a statement that is prepared: were it not, what comes after it could overtake it.
    pub(super) fn prepared(
        &mut self,
        client: &'a Object,
        statement: Statement,
        values: &[Typed<'_>],
    ) -> Result<(), Failure> {
        let types = statement.params().iter();
        let values = values.iter().zip(types).map(|((value, _), ty)| Encoded::of(*value, ty));
        let values = values.collect::<Result<Vec<_>, Failure>>()?;
        let bytes = values.iter().map(Encoded::len).sum();
        let executed = async move {
            let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
            client.execute(&statement, &values).await
        };
        self.put_off(executed.boxed(), bytes);
        Ok(())
    }

    /// Puts off a statement that is sent whole.
    pub(super) fn whole(&mut self, client: &'a Object, sql: &str, values: &[Typed<'_>]) -> Result<(), Failure> {
        let sql = sql.to_owned();
        let values = values.iter().map(|(value, ty)| Ok((Encoded::of(*value, ty)?, ty.clone())));
        let values = values.collect::<Result<Vec<_>, Failure>>()?;
        let bytes = values.iter().map(|(value, _)| value.len()).sum();
        let executed = async move {
            let values: Vec<Typed<'_>> = values.iter().map(|(value, ty)| (value as _, ty.clone())).collect();
            client.execute_typed(&sql, &values).await
        };
        self.put_off(executed.boxed(), bytes);
        Ok(())
    }

    fn put_off(&mut self, executed: BoxFuture<'a, Result<u64, tokio_postgres::Error>>, bytes: usize) {
        self.waiting.push(maybe_done(executed));
        if bytes >= LARGE {
            // The first poll hands a statement to the connection. The next statement that is waited for, or the commit, waits for all of
            // these too.
            for executed in &mut self.waiting {
                executed.now_or_never();
            }
        }
    }

    /// Sends what waits, and `next` behind it. Of several failures it gives the first, of which the others come.
    pub(super) async fn then<T>(&mut self, next: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Sent<T> {
        if self.waiting.is_empty() {
            return Sent { deferred: Ok(()), next: next.await };
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let (_, next) = join(join_all(&mut waiting), next).await;
        let mut done = waiting.iter_mut().filter_map(|executed| Pin::new(executed).take_output());
        Sent { deferred: done.try_for_each(|done| done.map(drop)), next }
    }
}

/// What became of statements that were sent together.
pub(super) struct Sent<T> {
    pub(super) deferred: Result<(), tokio_postgres::Error>,
    pub(super) next: Result<T, tokio_postgres::Error>,
}

impl<T> Sent<T> {
    pub(super) fn all(self) -> Result<T, tokio_postgres::Error> {
        self.deferred.and(self.next)
    }
}

/// A value as it goes to the server, without what it was made of.
#[derive(Debug)]
struct Encoded(Option<BytesMut>);

impl Encoded {
    fn len(&self) -> usize {
        self.0.as_ref().map_or(0, BytesMut::len)
    }

    fn of(value: &(dyn ToSql + Sync), ty: &Type) -> Result<Self, Failure> {
        let mut bytes = BytesMut::new();
        Ok(match value.to_sql_checked(ty, &mut bytes)? {
            IsNull::Yes => Self(None),
            IsNull::No => Self(Some(bytes)),
        })
    }
}

impl ToSql for Encoded {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        let Some(bytes) = &self.0 else { return Ok(IsNull::Yes) };
        out.extend_from_slice(bytes);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        // It was checked when it was encoded.
        true
    }

    to_sql_checked!();
}
