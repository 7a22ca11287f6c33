//! `notify`: what people were told, and whether those who are told can be reached.

use redrive_control::shape::NotificationShape;
use serde::Serialize;

use super::{Context, Missing, look, open, person};
use crate::cli::Notify;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output::columns::{Cell, Column};
use crate::output::listing::{Layout, Listing, Row};
use crate::output::terminal::Times;
use crate::remedy;

pub async fn run(command: &Notify, context: &Context) -> Result<Exit> {
    match command {
        Notify::Test { name } => test(name.as_deref(), context).await,
        Notify::List { limit } => list(*limit, context).await,
    }
}

static TESTS: Layout = Layout {
    name: "receivers",
    header: &[Column::text("receiver"), Column::new("delivered"), Column::detail("error")],
    columns: &["receiver", "delivered", "error"],
    nothing: Some("no receiver is configured"),
};

/// What became of a test.
#[derive(Debug, Serialize)]
struct Tested {
    receiver: String,
    delivered: bool,
    error: Option<String>,
}

impl Row for Tested {
    fn lines(&self, _: Times) -> Vec<Vec<Cell>> {
        let delivered = Cell::state(if self.delivered { "yes" } else { "no" });
        vec![vec![Cell::new(&self.receiver), delivered, Cell::some(self.error.as_ref())]]
    }
}

async fn test(name: Option<&str>, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let sender = context.sender(&open(&config, Missing::Refuse, context).await?, &config)?;
    let chosen = sender.receivers().iter().filter(|receiver| name.is_none_or(|name| receiver.name == name));
    let mut tested = Vec::new();
    for receiver in chosen {
        let error = sender.try_out(receiver, &person()).await.err();
        tested.push(Tested { receiver: receiver.name.clone(), delivered: error.is_none(), error });
    }
    if tested.is_empty() {
        let what = name.map_or_else(|| "receiver".to_owned(), |name| format!("receiver {name:?}"));
        return Err(Error::NothingFound(format!("the configuration has no {what}; add a [[notify]] section")));
    }
    Listing::print(&TESTS, &context.global, &tested)?;
    Ok(if tested.iter().all(|one| one.delivered) { Exit::Done } else { Exit::SomeFailed })
}

static NOTIFICATIONS: Layout = Layout {
    name: "notifications",
    header: &[Column::new("at"), Column::new("event"), Column::detail("what"), Column::text("receivers")],
    columns: &["id", "at", "event", "what", "count", "since", "next", "audit_head"],
    nothing: Some("there are no notifications yet"),
};

impl Row for NotificationShape {
    fn lines(&self, times: Times) -> Vec<Vec<Cell>> {
        let state = |delivery: &redrive_control::shape::DeliveryShape| match &delivery.delivered_at {
            Some(_) => format!("{} has it", delivery.receiver),
            None => format!("{} not yet ({} tried)", delivery.receiver, delivery.attempts),
        };
        let receivers: Vec<String> = self.deliveries.iter().map(state).collect();
        let (at, event) = (Cell::new(times.tell(self.at)), Cell::new(self.event.to_string()));
        vec![vec![at, event, Cell::new(&self.what), Cell::new(receivers.join(", "))]]
    }
}

async fn list(limit: u32, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let found = look(&config, context).await?.notifications(limit).await?;
    let shapes: Vec<_> = found.into_iter().map(|found| NotificationShape::new(found, remedy::of_notice)).collect();
    Listing::print(&NOTIFICATIONS, &context.global, &shapes)?;
    Ok(if shapes.is_empty() { Exit::NothingFound } else { Exit::Done })
}
