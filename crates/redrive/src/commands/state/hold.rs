//! `state hold`: what workers leave alone, and `state cooldown`, the same for sources that asked for it.

use std::collections::BTreeSet;

use redrive_control::shape::HoldShape;
use redrive_control::{Audit, ControlPlane, Insight};
use redrive_core::hold::{Hold, HoldKind, HoldScope};
use redrive_core::key::{CustomerId, KeyError, Source};
use redrive_core::time::Timestamp;

use crate::cli::{HoldChangeArgs, HoldLift, HoldSet, ScopeArgs};
use crate::commands::Context;
use crate::commands::runs::filter::moment;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;
use crate::output::columns::{Cell, Column};
use crate::output::listing::{Layout, Listing, Row};
use crate::output::terminal::Times;
use crate::shell::command_line;

pub static HOLDS: Layout = Layout {
    name: "holds",
    header: &[
        Column::new("source"),
        Column::new("customer"),
        Column::new("query"),
        Column::new("kind"),
        Column::new("since"),
        Column::new("until"),
        Column::text("by"),
        Column::detail("why"),
    ],
    columns: &["id", "source", "customer_id", "query_name", "kind", "since", "until", "by", "why"],
    nothing: Some("nothing is held"),
};

/// The same, where only sources are listed that asked to be left alone.
static COOLDOWNS: Layout = Layout { nothing: Some("no source is cooling down"), ..HOLDS };

impl Row for HoldShape {
    fn lines(&self, times: Times) -> Vec<Vec<Cell>> {
        vec![vec![
            Cell::new(self.source.as_str()),
            Cell::new(self.customer_id.as_ref().map_or("(all)", |customer| customer.as_str())),
            Cell::new(self.query_name.as_ref().map_or("(all)", |query| query.as_str())),
            Cell::state(self.kind.as_str()),
            Cell::new(times.tell(self.since)),
            Cell::new(self.until.map_or_else(|| "lifted".to_owned(), |until| times.tell(until))),
            Cell::new(&self.by),
            Cell::some(self.why.as_ref()),
        ]]
    }
}

/// Lists the holds in force, or those of one kind.
pub async fn list(kind: Option<HoldKind>, insight: &Insight, context: &Context) -> Result<Exit> {
    let mut holds = insight.holds().await?;
    holds.retain(|hold| kind.is_none_or(|kind| hold.kind() == kind));
    let exit = if holds.is_empty() { Exit::NothingFound } else { Exit::Done };
    show(holds, kind, insight.now(), context)?;
    Ok(exit)
}

/// Says what holds would cover.
pub fn foresee_set(args: &HoldSet, insight: &Insight, context: &Context) -> Result<Exit> {
    let (scopes, until) = (scopes(&args.scope)?, until(args, insight.now())?);
    warn_of_unknown(&scopes, insight, context);
    let until = until.map_or_else(|| "until it is lifted".to_owned(), |until| format!("until {until}"));
    scopes.iter().for_each(|scope| output::note(&format!("would hold {scope} {until}")));
    Ok(Exit::Done)
}

pub async fn set(args: &HoldSet, plane: &ControlPlane, context: &Context) -> Result<Exit> {
    let now = plane.insight().now();
    let (scopes, until) = (scopes(&args.scope)?, until(args, now)?);
    warn_of_unknown(&scopes, plane.insight(), context);
    let (op_id, holds) = plane.hold_all(&scopes, until, &audit(&args.change, context)).await?;
    if !context.global.quiet {
        let held: Vec<String> = scopes.iter().map(ToString::to_string).collect();
        output::note(&format!("held {}; `redrive state undo {op_id}` takes it back", held.join(", ")));
    }
    show(holds, None, now, context)?;
    Ok(Exit::Done)
}

/// Lists what a lift would end.
pub async fn foresee_lift(
    args: &HoldLift,
    kind: Option<HoldKind>,
    insight: &Insight,
    context: &Context,
) -> Result<Exit> {
    let scopes = scopes(&args.scope)?;
    let mut found = insight.holds().await?;
    found.retain(|hold| {
        scopes.iter().any(|scope| scope.contains(&hold.scope)) && kind.is_none_or(|kind| hold.kind() == kind)
    });
    end(found, kind, insight.now(), context)
}

pub async fn lift(args: &HoldLift, kind: Option<HoldKind>, plane: &ControlPlane, context: &Context) -> Result<Exit> {
    let (_, lifted) = plane.lift(&scopes(&args.scope)?, kind, &audit(&args.change, context)).await?;
    end(lifted, kind, plane.insight().now(), context)
}

fn audit(change: &HoldChangeArgs, context: &Context) -> Audit {
    let HoldChangeArgs { dry_run: _, yes, force, ref reason } = *change;
    Audit { reason: reason.clone(), yes, force, ..Audit::new(context.actor(), command_line()) }
}

/// Every combination of the values that were given.
fn scopes(args: &ScopeArgs) -> Result<BTreeSet<HoldScope>> {
    let wrong = |error: KeyError| Error::Usage(error.to_string());
    let mut scopes = BTreeSet::new();
    for source in &args.source {
        let source: Source = source.parse().map_err(wrong)?;
        if args.customer_id.is_empty() {
            scopes.insert(HoldScope::Source(source));
            continue;
        }
        for customer in &args.customer_id {
            let customer: CustomerId = customer.parse().map_err(wrong)?;
            if args.query_name.is_empty() {
                scopes.insert(HoldScope::Customer(source.clone(), customer.clone()));
            }
            for query in &args.query_name {
                let query = query.parse().map_err(wrong)?;
                scopes.insert(HoldScope::Query(source.clone(), customer.clone(), query));
            }
        }
    }
    Ok(scopes)
}

/// When the hold ends; none means when it is lifted.
fn until(args: &HoldSet, now: Timestamp) -> Result<Option<Timestamp>> {
    let until = match (args.r#for, &args.until) {
        (Some(span), _) => Some(now.saturating_add(span)),
        (None, Some(text)) => Some(moment("--until", text)?),
        (None, None) => None,
    };
    match until {
        Some(until) if until <= now => Err(Error::Usage(format!("the hold would end at {until}, which is over"))),
        until => Ok(until),
    }
}

/// A slip in a name would hold nothing.
fn warn_of_unknown(scopes: &BTreeSet<HoldScope>, insight: &Insight, context: &Context) {
    let named: BTreeSet<&Source> = scopes.iter().map(HoldScope::source).collect();
    for source in named {
        if !context.global.quiet && !insight.sources().is_known(source) {
            output::note(&format!("warning: this configuration has no [sources.{source}]"));
        }
    }
}

fn end(lifted: Vec<Hold>, kind: Option<HoldKind>, now: Timestamp, context: &Context) -> Result<Exit> {
    if lifted.is_empty() {
        let todo = "`redrive state hold list` shows what is";
        return Err(Error::NothingFound(format!("nothing of that is held; {todo}")));
    }
    show(lifted, kind, now, context)?;
    Ok(Exit::Done)
}

fn show(holds: Vec<Hold>, kind: Option<HoldKind>, now: Timestamp, context: &Context) -> Result<()> {
    let layout = if kind == Some(HoldKind::Cooldown) { &COOLDOWNS } else { &HOLDS };
    let rows: Vec<_> = holds.into_iter().map(HoldShape::from).collect();
    Listing::print_as_of(layout, &context.global, &rows, now)
}
