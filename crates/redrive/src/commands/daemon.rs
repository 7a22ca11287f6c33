//! `redrive daemon`: ticks until a signal stops it. SIGHUP has it read its configuration again.

use std::time::Duration;

use redrive_control::daemon::Tick;
use redrive_control::{ControlPlane, Insight};
use redrive_core::process::{Kind, Serves};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Context, open, person};
use crate::cli::{Daemon, Format};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;
use crate::service::{self, Me, Presence, Reload};

pub async fn run(args: &Daemon, context: &Context) -> Result<Exit> {
    let mut config = context.config()?;
    let interval = interval(args, &config)?;
    if args.dry_run {
        let ticks = Ticks::Foreseen(context.insight(&config).await?);
        return match args.once {
            true => once(&ticks, args, context).await,
            false => go_on(ticks, interval, args).await,
        };
    }
    let store = open(&config, context).await?;
    let actor = format!("daemon {} pid {}", person(), std::process::id());
    let ticks = |config: &Config| Ticks::Done(context.control_of(&store, config), actor.clone());
    if args.once {
        return once(&ticks(&config), args, context).await;
    }
    let mut hangups = Reload::listen()?;
    let presence = Presence::begin(&store, me(&config), None).await;
    let mut service = Service { ticks: ticks(&config), interval };
    let mut signals = Signals::listen()?;
    tracing::info!(interval_ms = interval.as_millis(), dry_run = false, "started");
    loop {
        service.tick().await;
        match signals.rest(service.interval, &mut hangups).await {
            Heard::Nothing => {}
            Heard::Stop => break,
            Heard::Reload => service::log(service::next(context, &config).and_then(|next| {
                service = Service { interval: self::interval(args, &next)?, ticks: ticks(&next) };
                config = next;
                let me = me(&config);
                presence.tell(me.config, me.serves);
                Ok(config.fingerprint.clone())
            })),
        }
    }
    presence.end().await;
    tracing::info!("stopped");
    Ok(Exit::Done)
}

fn interval(args: &Daemon, config: &Config) -> Result<Duration> {
    match args.interval.unwrap_or(config.settings.daemon.interval) {
        Duration::ZERO => Err(Error::Usage("--interval 0 would never rest; give at least 100ms".to_owned())),
        interval => Ok(interval),
    }
}

fn me(config: &Config) -> Me {
    Me { kind: Kind::Daemon, config: config.fingerprint.clone(), serves: Serves::default() }
}

async fn once(ticks: &Ticks, args: &Daemon, context: &Context) -> Result<Exit> {
    let tick = ticks.next().await?;
    show(&tick, args.dry_run, context)?;
    Ok(Exit::Done)
}

/// Says again and again what a daemon would do.
async fn go_on(ticks: Ticks, interval: Duration, args: &Daemon) -> Result<Exit> {
    let (mut hangups, mut signals) = (Reload::listen()?, Signals::listen()?);
    let service = Service { ticks, interval };
    tracing::info!(interval_ms = interval.as_millis(), dry_run = args.dry_run, "started");
    loop {
        service.tick().await;
        match signals.rest(interval, &mut hangups).await {
            Heard::Nothing | Heard::Reload => {}
            Heard::Stop => break,
        }
    }
    tracing::info!("stopped");
    Ok(Exit::Done)
}

struct Service {
    ticks: Ticks,
    interval: Duration,
}

impl Service {
    async fn tick(&self) {
        match self.ticks.next().await {
            Ok(tick) => tracing::info!(
                considered = tick.considered,
                requeued = tick.requeued,
                overtaken = tick.overtaken,
                enqueued = tick.enqueued,
                pruned = tick.pruned,
                "tick"
            ),
            // The next tick looks at everything again, so nothing is lost by going on.
            Err(error) => tracing::error!(%error, "tick failed"),
        }
    }
}

/// What ended a rest.
enum Heard {
    /// The interval is over.
    Nothing,
    Stop,
    Reload,
}

/// Signals are heard also while a tick is at work; it is finished first.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).map_err(Error::io("cannot listen for signals"));
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn rest(&mut self, interval: Duration, hangups: &mut Reload) -> Heard {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Heard::Stop,
            _ = self.interrupt.recv() => Heard::Stop,
            () = hangups.asked() => Heard::Reload,
            () = tokio::time::sleep(interval) => Heard::Nothing,
        }
    }
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
