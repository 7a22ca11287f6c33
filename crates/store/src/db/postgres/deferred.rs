//! Statements of which nothing is asked but that they take effect. They wait here and go to the server with the next statement, or with
//! the commit, so that none of them costs a wait of its own.
//!
//! The server does what it is sent in order. What follows a statement that has failed fails, too, and a commit after it takes
//! everything back: nothing is lost by sending them together.

use std::fmt;

use deadpool_postgres::Object;
use futures_util::future::{BoxFuture, join, try_join_all};
use tokio_postgres::Statement;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::transaction::Typed;

type Failure = Box<dyn std::error::Error + Sync + Send>;

#[derive(Default)]
pub(super) struct Deferred<'a> {
    waiting: Vec<BoxFuture<'a, Result<u64, tokio_postgres::Error>>>,
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
        self.waiting.push(Box::pin(async move {
            let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
            client.execute(&statement, &values).await
        }));
        Ok(())
    }

    /// Puts off a statement that is sent whole.
    pub(super) fn whole(&mut self, client: &'a Object, sql: &str, values: &[Typed<'_>]) -> Result<(), Failure> {
        let sql = sql.to_owned();
        let values = values.iter().map(|(value, ty)| Ok((Encoded::of(*value, ty)?, ty.clone())));
        let values = values.collect::<Result<Vec<_>, Failure>>()?;
        self.waiting.push(Box::pin(async move {
            let values: Vec<Typed<'_>> = values.iter().map(|(value, ty)| (value as _, ty.clone())).collect();
            client.execute_typed(&sql, &values).await
        }));
        Ok(())
    }

    /// Sends what waits, and `next` behind it. Of several failures it gives the first, of which the others come.
    pub(super) async fn then<T>(&mut self, next: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Sent<T> {
        if self.waiting.is_empty() {
            return Sent { deferred: Ok(()), next: next.await };
        }
        let waiting = try_join_all(std::mem::take(&mut self.waiting));
        let (waited, next) = join(waiting, next).await;
        Sent { deferred: waited.map(drop), next }
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
