//! `redrive daemon`: ticks until it is told to stop.

use std::time::Duration;

use redrive_control::daemon::Tick;

use super::{Context, person};
use crate::cli::{Daemon, Format};
use crate::exit::Exit;
use crate::output;

pub async fn run(args: &Daemon, context: &Context) -> anyhow::Result<Exit> {
    let config = context.config()?;
    let actor = format!("daemon {} pid {}", person(), std::process::id());
    let plane = context.control(&config, actor).await?;
    let interval = args.interval.unwrap_or(config.settings.daemon.interval);
    if args.once {
        let tick = plane.tick(args.dry_run).await?;
        show(&tick, args.dry_run, context)?;
        return Ok(Exit::Done);
    }
    tracing::info!(interval_s = interval.as_secs(), dry_run = args.dry_run, "started");
    loop {
        match plane.tick(args.dry_run).await {
            Ok(tick) => tracing::info!(
                considered = tick.considered,
                requeued = tick.requeued,
                overtaken = tick.overtaken,
                enqueued = tick.enqueued,
                "tick"
            ),
            // The next tick looks at everything again, so nothing is lost by going on.
            Err(error) => tracing::error!(%error, "tick failed"),
        }
        if stopped_within(interval).await? {
            tracing::info!("stopped");
            return Ok(Exit::Done);
        }
    }
}

/// Sleeps, unless a signal says to stop.
async fn stopped_within(interval: Duration) -> std::io::Result<bool> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        () = tokio::time::sleep(interval) => Ok(false),
        _ = terminate.recv() => Ok(true),
        interrupted = tokio::signal::ctrl_c() => interrupted.map(|()| true),
    }
}

fn show(tick: &Tick, dry_run: bool, context: &Context) -> anyhow::Result<()> {
    match context.global.output {
        Format::Json => return output::json(tick),
        Format::Jsonl => return tick.would.iter().try_for_each(output::json),
        Format::Table | Format::Csv => {}
    }
    for action in &tick.would {
        let (key, attempts, delay) = (&action.key, action.attempt_count, action.delay_seconds);
        output::line(&format!("would {} {key} (attempts {attempts}, delay {delay} s)", action.action));
    }
    let would = if dry_run { "would requeue" } else { "requeued" };
    output::line(&format!("{would} {}, enqueued {} expected", tick.requeued, tick.enqueued));
    Ok(())
}
