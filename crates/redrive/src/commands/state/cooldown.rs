//! `state cooldown`: which sources asked to be left alone, and lifting that.

use redrive_control::shape::CooldownShape;
use redrive_control::{Audit, ControlPlane, Insight, Lift};
use redrive_core::key::{CustomerId, Source};
use redrive_store::Cooldown;

use crate::cli::CooldownLift;
use crate::commands::Context;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output::listing::{Layout, Listing, Row};

static COOLDOWNS: Layout = Layout {
    name: "cooldowns",
    header: &["source", "customer", "until", "why"],
    columns: &["source", "customer_id", "until", "why"],
    nothing: Some("no source is cooling down"),
};

impl Row for CooldownShape {
    fn lines(&self) -> Vec<Vec<String>> {
        let customer = self.customer_id.as_ref().map_or_else(|| "(all)".to_owned(), ToString::to_string);
        vec![vec![self.source.to_string(), customer, self.until.to_string(), self.why.clone().unwrap_or_default()]]
    }
}

pub async fn list(insight: &Insight, context: &Context) -> Result<Exit> {
    show(insight.cooldowns().await?, context)?;
    Ok(Exit::Done)
}

/// Lists what a lift would end.
pub async fn foresee(args: &CooldownLift, insight: &Insight, context: &Context) -> Result<Exit> {
    let (source, customer_id) = scope(args)?;
    let mut found = insight.cooldowns().await?;
    found.retain(|held| held.is_of(&source, customer_id.as_ref()));
    end(found, context)
}

pub async fn lift(args: &CooldownLift, plane: &ControlPlane, audit: &Audit, context: &Context) -> Result<Exit> {
    let (source, customer_id) = scope(args)?;
    end(plane.lift(&Lift { source, customer_id }, audit).await?.1, context)
}

fn scope(args: &CooldownLift) -> Result<(Source, Option<CustomerId>)> {
    let invalid = |error: redrive_core::key::KeyError| Error::Usage(error.to_string());
    let source = args.source.parse().map_err(invalid)?;
    Ok((source, args.customer_id.as_ref().map(|id| id.parse()).transpose().map_err(invalid)?))
}

fn end(lifted: Vec<Cooldown>, context: &Context) -> Result<Exit> {
    if lifted.is_empty() {
        let todo = "`redrive state cooldown list` shows what is";
        return Err(Error::NothingFound(format!("nothing of that is held back; {todo}")));
    }
    show(lifted, context)?;
    Ok(Exit::Done)
}

fn show(cooldowns: Vec<Cooldown>, context: &Context) -> Result<()> {
    let rows: Vec<_> = cooldowns.into_iter().map(CooldownShape::from).collect();
    Listing::print(&COOLDOWNS, &context.global, &rows)
}
