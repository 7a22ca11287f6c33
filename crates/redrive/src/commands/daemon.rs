//! `redrive daemon`: ticks until a signal stops it.

use redrive_control::daemon::Tick;
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
        Format::Json => return output::json(tick),
        Format::Jsonl if dry_run => return tick.would.iter().try_for_each(output::json),
        Format::Jsonl => return output::json(tick),
        Format::Csv if dry_run => return actions(tick),
        Format::Csv => return output::record(&["considered", "requeued", "overtaken", "enqueued", "pruned"], tick),
        Format::Table => {}
    }
    for action in &tick.would {
        let (key, attempts, delay) = (&action.key, action.attempt_count, action.delay_seconds);
        output::line(&format!("would {} {key} (attempts {attempts}, delay {delay} s)", action.action))?;
    }
    let would = if dry_run { "would requeue" } else { "requeued" };
    output::line(&format!("{would} {}, enqueued {} expected", tick.requeued, tick.enqueued))
}

fn actions(tick: &Tick) -> Result<()> {
    let names = [output::KEY.as_slice(), &["action", "attempt_count", "delay_seconds"]].concat();
    output::csv_header(&names)?;
    for action in &tick.would {
        output::csv(&output::cells(&names, &serde_json::to_value(action)?))?;
    }
    Ok(())
}
