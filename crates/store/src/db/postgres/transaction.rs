//! A transaction on the server.

use deadpool_postgres::Object;
use redrive_metrics::Event;
use tokio_postgres::types::{ToSql, Type};

use crate::clock::ServerClock;
use crate::db::shared::Shared;
use crate::db::value::{Column, Param};
use crate::db::wakeups::Tells;
use crate::error::{Error, Result};

use super::deferred::Deferred;
use super::fault::{Fault, Remedy, within};
use super::kind::Kind;

/// How statements reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Statements {
    /// Prepared once a connection, and kept.
    Prepared,
    /// Sent whole every time: for fresh plans, and for poolers that move a client from one connection to another.
    Whole,
}

/// A transaction on the server, and the name of its work.
pub(crate) struct PgTx<'a> {
    /// Inside a transaction that has begun.
    pub(super) client: &'a Object,
    pub(super) statements: Statements,
    pub(super) kind: Kind,
    pub(super) place: &'a str,
    pub(in crate::db) clock: &'a ServerClock,
    /// What the last fault allows.
    pub(super) remedy: Remedy,
    pub(in crate::db) tells: Tells,
    pub(in crate::db) events: Vec<Event>,
    pub(super) deferred: Deferred<'a>,
}

pub(super) type Typed<'p> = (&'p (dyn ToSql + Sync), Type);

impl PgTx<'_> {
    pub(in crate::db) async fn query(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<tokio_postgres::Row>> {
        let params: Vec<Typed<'_>> = params.iter().map(typed).collect();
        self.run(sql, &params).await
    }

    pub(in crate::db) async fn query_arrays(
        &mut self,
        sql: &str,
        columns: &[Column<'_>],
    ) -> Result<Vec<tokio_postgres::Row>> {
        let params: Vec<Typed<'_>> = columns.iter().map(typed_array).collect();
        self.run(sql, &params).await
    }

    pub(in crate::db) async fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64> {
        let params: Vec<Typed<'_>> = params.iter().map(typed).collect();
        self.run_count(sql, &params).await
    }

    /// The same of a batch, whose rows share some values.
    pub(in crate::db) async fn query_batch(
        &mut self,
        sql: &str,
        columns: &[Column<'_>],
        shared: Shared,
    ) -> Result<Vec<tokio_postgres::Row>> {
        let firsts = first_row(columns);
        self.run(sql, &typed_batch(columns, &firsts, shared)).await
    }

    /// Runs a batch of which every row takes effect: with the next statement, or with the commit.
    pub(in crate::db) async fn defer_batch(&mut self, sql: &str, columns: &[Column<'_>], shared: Shared) -> Result<()> {
        let firsts = first_row(columns);
        let (client, name) = (self.client, self.kind.name);
        let values = typed_batch(columns, &firsts, shared);
        let deferred = match self.statements {
            Statements::Prepared => {
                let statement = within(self.kind.answer(), self.deferred.prepare(client, sql)).await;
                let statement = statement.map_err(|fault| self.faulted(&fault))?;
                self.deferred.prepared(client, statement, &values)
            }
            Statements::Whole => self.deferred.whole(client, sql, &values),
        };
        deferred.map_err(|why| Error::Statement { name, why: why.to_string() })?;
        if self.deferred.is_full() {
            let limit = self.kind.answer();
            let sent = within(limit, async { self.deferred.then(async { Ok(()) }).await.all() }).await;
            sent.map_err(|fault| self.faulted(&fault))?;
        }
        Ok(())
    }

    async fn run(&mut self, sql: &str, params: &[Typed<'_>]) -> Result<Vec<tokio_postgres::Row>> {
        let (client, statements, deferred) = (self.client, self.statements, &mut self.deferred);
        let rows = async {
            match statements {
                Statements::Prepared => {
                    let statement = deferred.prepare(client, sql).await?;
                    deferred.then(client.query(&statement, &untyped(params))).await.all()
                }
                Statements::Whole => deferred.then(client.query_typed(sql, params)).await.all(),
            }
        };
        within(self.kind.answer(), rows).await.map_err(|fault| self.faulted(&fault))
    }

    async fn run_count(&mut self, sql: &str, params: &[Typed<'_>]) -> Result<u64> {
        let (client, statements, deferred) = (self.client, self.statements, &mut self.deferred);
        let count = async {
            match statements {
                Statements::Prepared => {
                    let statement = deferred.prepare(client, sql).await?;
                    deferred.then(client.execute(&statement, &untyped(params))).await.all()
                }
                Statements::Whole => deferred.then(client.execute_typed(sql, params)).await.all(),
            }
        };
        within(self.kind.answer(), count).await.map_err(|fault| self.faulted(&fault))
    }

    /// Has the transaction run again once its work has failed; gives its name.
    pub(in crate::db) fn have_again(&mut self) -> &'static str {
        self.remedy = Remedy::Again;
        self.kind.name
    }

    fn faulted(&mut self, fault: &Fault) -> Error {
        self.remedy = fault.remedy();
        fault.error(self.place, self.kind.name)
    }
}

fn typed<'p>(param: &'p Param<'_>) -> Typed<'p> {
    let kind = match param {
        // Left to the server, which takes it from the place where it stands.
        Param::Null => Type::UNKNOWN,
        Param::Int(_) => Type::INT8,
        Param::Text(_) => Type::TEXT,
        Param::Id(_) => Type::UUID,
        Param::Bytes(_) => Type::BYTEA,
    };
    (param, kind)
}

fn typed_array<'p>(column: &'p Column<'_>) -> Typed<'p> {
    let kind = match column {
        Column::Int(_) => Type::INT8_ARRAY,
        Column::Text(_) => Type::TEXT_ARRAY,
        Column::Id(_) => Type::UUID_ARRAY,
        Column::Bytes(_) => Type::BYTEA_ARRAY,
    };
    (column.array(), kind)
}

fn first_row<'p>(columns: &'p [Column<'_>]) -> Vec<Param<'p>> {
    columns.iter().map(|column| column.row(0)).collect()
}

/// The value of a column that is shared, and all values of any other.
fn typed_batch<'p>(columns: &'p [Column<'_>], firsts: &'p [Param<'_>], shared: Shared) -> Vec<Typed<'p>> {
    let both = columns.iter().zip(firsts).enumerate();
    both.map(|(nth, (column, first))| if shared.has(nth) { typed(first) } else { typed_array(column) }).collect()
}

fn untyped<'p>(params: &[Typed<'p>]) -> Vec<&'p (dyn ToSql + Sync)> {
    params.iter().map(|(param, _)| *param).collect()
}
