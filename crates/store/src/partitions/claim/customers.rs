//! Customers in turn: those after the one who was served last, and round to that one again.

use std::ops::ControlFlow;

use redrive_core::key::{CustomerId, Source};
use redrive_core::lane::Lane;
use redrive_core::partition::Partition;
use redrive_core::share::Capacity;

use crate::db::{Row, Sql, Tx};
use crate::error::{Error, Result};
use crate::series::Scope;

/// The next customers in a lane who have something claimable: one step down the index for each. The low half of a scope is
/// a series of that customer.
static NEXT_CUSTOMERS: Sql = Sql::new(
    "/* claim::next_customers */
     WITH RECURSIVE found(scope, nth) AS (
         SELECT (
             SELECT min(scope)
             FROM partition_control
             WHERE lane IS NOT NULL AND active_run_id IS NULL AND paused_at IS NULL
                 AND lane = ?1 AND scope > CAST(?2 AS BIGINT)), 1
         UNION ALL
         SELECT (
             SELECT min(c.scope)
             FROM partition_control c
             WHERE c.lane IS NOT NULL AND c.active_run_id IS NULL AND c.paused_at IS NULL
                 AND c.lane = ?1 AND c.scope > found.scope), found.nth + 1
         FROM found
         WHERE found.scope IS NOT NULL AND found.nth < CAST(?3 AS BIGINT))
     SELECT found.scope, s.source, s.customer_id
     FROM found
     CROSS JOIN series s
     WHERE s.series_id = found.scope & 4294967295
     ORDER BY found.scope",
);

/// A customer of a source.
#[derive(Debug)]
pub(super) struct Customer {
    pub(super) source: Source,
    pub(super) customer_id: CustomerId,
    pub(super) scope: Scope,
}

impl Customer {
    fn read(row: &Row<'_>) -> Result<Self> {
        let bad = |error: redrive_core::key::KeyError| Error::row("series", error);
        let mut row = row.cursor();
        Ok(Self {
            scope: Scope::from_row(row.int()?),
            source: row.text()?.try_into().map_err(bad)?,
            customer_id: row.text()?.try_into().map_err(bad)?,
        })
    }

    pub(super) fn has(&self, partition: &Partition) -> bool {
        let key = &partition.state.key;
        key.source == self.source && key.customer_id == self.customer_id
    }
}

/// Whose turn it is in a lane: those after the one who was served last, and round to that one again.
pub(super) struct CustomerCursor {
    lane: Lane,
    after: Scope,
    round: Round,
}

/// How far a cursor has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// From the first customer to the last.
    Whole,
    /// From the one after this to the last; from the first to this is still to come.
    After(Scope),
    UpTo(Scope),
    Done,
}

impl CustomerCursor {
    /// From the first customer on.
    pub(super) fn first(lane: Lane) -> Self {
        Self { lane, after: Scope::default(), round: Round::Whole }
    }

    pub(super) fn after(lane: Lane, served: Scope) -> Self {
        if served == Scope::default() {
            return Self::first(lane);
        }
        Self { lane, after: served, round: Round::After(served) }
    }

    /// The next customers who may be served now, up to `wanted`; none when all have had their turn.
    pub(super) async fn next(
        &mut self,
        tx: &mut Tx<'_>,
        wanted: usize,
        capacity: &Capacity<'_>,
    ) -> Result<Vec<Customer>> {
        let mut found: Vec<Customer> = Vec::new();
        while found.len() < wanted && self.round != Round::Done {
            let step = i64::try_from(wanted).unwrap_or(i64::MAX);
            let params = [self.lane.as_str().into(), self.after.number().into(), step.into()];
            let customers = tx.rows(&NEXT_CUSTOMERS, &params, Customer::read).await?;
            let is_last = customers.len() < wanted;
            if self.take(customers, wanted, capacity, &mut found).is_continue() && is_last {
                self.go_round();
            }
        }
        Ok(found)
    }

    /// Takes those who may be served; breaks off where what follows is to be asked for again.
    fn take(
        &mut self,
        customers: Vec<Customer>,
        wanted: usize,
        capacity: &Capacity<'_>,
        found: &mut Vec<Customer>,
    ) -> ControlFlow<()> {
        for customer in customers {
            if found.len() >= wanted {
                return ControlFlow::Break(());
            }
            if matches!(self.round, Round::UpTo(end) if customer.scope > end) {
                self.round = Round::Done;
                return ControlFlow::Break(());
            }
            if !capacity.admits_source(&customer.source) {
                // None of this source's customers will do, however many there are.
                self.after = customer.scope.end_of_source();
                return ControlFlow::Break(());
            }
            self.after = customer.scope;
            if capacity.admits(&customer.source, &customer.customer_id) {
                found.push(customer);
            }
        }
        ControlFlow::Continue(())
    }

    fn go_round(&mut self) {
        match self.round {
            Round::After(served) => (self.round, self.after) = (Round::UpTo(served), Scope::default()),
            Round::Whole | Round::UpTo(_) | Round::Done => self.round = Round::Done,
        }
    }
}
