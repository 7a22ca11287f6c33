//! `redrive daemon`: ticks until a signal stops it.

use redrive_control::daemon::{Action, Tick};
use redrive_control::{ControlPlane, Insight};

use super::{Context, Missing, person};
use crate::cli::{Daemon, Format};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;

pub async fn run(args: &Daemon, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let actor = format!("daemon {} pid {}", person(), std::process::id());
    let ticks = match args.dry_run {
        true => Ticks::Foreseen(context.insight(&config).await?),
        false => Ticks::Done(context.control(&config, Missing::Make).await?, actor),
    };
    let interval = args.interval.unwrap_or(config.settings.daemon.interval);
    if interval.is_zero() {
        return Err(Error::Usage("--interval 0 would never rest; give at least 100ms".to_owned()));
    }
    if args.once {
        let tick = ticks.next().await?;
        show(&tick, args.dry_run, context)?;
        return Ok(Exit::Done);
    }
    tracing::info!(interval_ms = interval.as_millis(), dry_run = args.dry_run, "started");
    // A tick that is at work is finished first, or given up after a few seconds.
    context.stop.in_order();
    while !context.stop.is_requested() {
        match ticks.next().await {
            Ok(tick) => tracing::info!(
                considered = tick.considered,
                requeued = tick.requeued,
                overtaken = tick.overtaken,
                enqueued = tick.enqueued,
                pruned = tick.pruned,
                "tick"
            ),
            Err(redrive_control::Error::Store(error)) if error.is_fatal() && !context.stop.is_requested() => {
                return Err(error.into());
            }
            // The next tick looks at everything again, so nothing is lost by going on.
            Err(error) => tracing::error!(%error, "tick failed"),
        }
        tokio::select! {
            () = context.stop.requested() => {}
            () = tokio::time::sleep(interval) => {}
        }
    }
    tracing::info!("stopped");
    Ok(Exit::Done)
}

/// Where ticks come from: a dry run only looks.
enum Ticks {
    Foreseen(Insight),
    Done(ControlPlane, String),
}

impl Ticks {
    async fn next(&self) -> redrive_control::Result<Tick> {
        match self {
            Self::Foreseen(insight) => insight.foresee_tick().await,
            Self::Done(plane, actor) => plane.tick(actor).await,
        }
    }
}

fn show(tick: &Tick, dry_run: bool, context: &Context) -> Result<()> {
    match context.global.output {
        Format::Jsonl if dry_run => return tick.would.iter().try_for_each(output::json),
        Format::Csv if dry_run => return actions(tick),
        Format::Jsonl | Format::Csv | Format::Json | Format::Table => {}
    }
    let names = ["considered", "requeued", "overtaken", "enqueued", "pruned"];
    output::one(&names, tick, &context.global, || in_words(tick, dry_run))
}

fn in_words(tick: &Tick, dry_run: bool) -> String {
    let action = |action: &Action| {
        let Action { action, key, attempt_count, delay_seconds, .. } = action;
        format!("would {action} {key} (attempts {attempt_count}, delay {delay_seconds} s)")
    };
    let mut text: Vec<String> = tick.would.iter().map(action).collect();
    let would = if dry_run { "would requeue" } else { "requeued" };
    let pruned = match (tick.pruned, dry_run) {
        (0, _) => String::new(),
        (count, true) => format!(", would forget {count} jobs that are kept no longer"),
        (count, false) => format!(", forgot {count} jobs that are kept no longer"),
    };
    text.push(format!("{would} {}, enqueued {} expected{pruned}", tick.requeued, tick.enqueued));
    text.join("\n")
}

fn actions(tick: &Tick) -> Result<()> {
    let names = [output::KEY.as_slice(), &["action", "attempt_count", "delay_seconds"]].concat();
    output::csv_header(&names)?;
    for action in &tick.would {
        output::csv(&output::cells(&names, &serde_json::to_value(action)?))?;
    }
    Ok(())
}
