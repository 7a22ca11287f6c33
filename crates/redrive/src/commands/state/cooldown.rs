//! `state cooldown`: whom sources asked to leave alone, and lifting it.

use redrive_control::{ControlPlane, Lift};
use redrive_core::key::{CustomerId, Source};
use redrive_store::Cooldown;
use serde_json::{Value, json};

use super::change::command_line;
use crate::cli::{self, CooldownLift, Format};
use crate::commands::Context;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;

pub async fn run(command: &cli::Cooldown, plane: &ControlPlane, context: &Context) -> Result<Exit> {
    match command {
        cli::Cooldown::List => {
            show(&plane.cooldowns().await?, context)?;
            Ok(Exit::Done)
        }
        cli::Cooldown::Lift(args) => lift(args, plane, context).await,
    }
}

async fn lift(args: &CooldownLift, plane: &ControlPlane, context: &Context) -> Result<Exit> {
    let wrong = |error: redrive_core::key::KeyError| Error::Usage(error.to_string());
    let source: Source = args.source.parse().map_err(wrong)?;
    let customer_id: Option<CustomerId> = args.customer_id.as_ref().map(|id| id.parse()).transpose().map_err(wrong)?;
    let lifted = if args.dry_run {
        let mut found = plane.cooldowns().await?;
        found.retain(|held| held.is_of(&source, customer_id.as_ref()));
        found
    } else {
        let lift = Lift { source, customer_id, command: command_line(), reason: args.reason.clone() };
        plane.lift(&lift).await?.1
    };
    if lifted.is_empty() {
        return Err(Error::NothingFound(
            "nothing of that is held back; `redrive state cooldown list` shows what is".to_owned(),
        ));
    }
    show(&lifted, context)?;
    Ok(Exit::Done)
}

fn show(cooldowns: &[Cooldown], context: &Context) -> Result<()> {
    let object = |held: &Cooldown| -> Value {
        json!({"source": held.source, "customer_id": held.customer_id, "until": held.until, "why": held.why})
    };
    match context.global.output {
        Format::Json => output::json(&json!({"cooldowns": cooldowns.iter().map(object).collect::<Vec<_>>()})),
        Format::Jsonl => cooldowns.iter().map(object).try_for_each(|held| output::json(&held)),
        Format::Table | Format::Csv => {
            let row = |held: &Cooldown| {
                let all = if context.global.output == Format::Csv { "" } else { "(all)" };
                let customer = held.customer_id.as_ref().map_or_else(|| all.to_owned(), ToString::to_string);
                vec![held.source.to_string(), customer, held.until.to_string(), held.why.clone().unwrap_or_default()]
            };
            let header = ["source", "customer", "until", "why"];
            let names = ["source", "customer_id", "until", "why"];
            output::rows(&header, &names, cooldowns.iter().map(row).collect(), context.global.output)
        }
    }
}
