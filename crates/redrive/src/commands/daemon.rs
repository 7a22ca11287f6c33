//! `redrive daemon`: ticks until a signal stops it. SIGHUP has it read its configuration again.

use std::time::Duration;

use redrive_control::daemon::{Tick, TickAction};
use redrive_control::{ControlPlane, Insight};
use redrive_core::process::{Kind, Serves};
use redrive_store::Store;

use super::{Context, Missing, open, person};
use crate::cli::{Daemon, Format};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;
use crate::service::{self, Me, Notifier, Presence, Reload, ShownMetrics};

pub async fn run(args: &Daemon, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let interval = interval(args, &config)?;
    if args.dry_run {
        let ticks = Ticks::Foreseen(context.insight(&config).await?);
        return match args.once {
            true => once(&ticks, args, context).await,
            false => {
                context.stop.in_order();
                go_on(&mut Service { ticks, interval, living: None }, args, context).await
            }
        };
    }
    let store = open(&config, Missing::Make, context).await?;
    if args.once {
        let sender = context.sender(&store, &config)?;
        let ended = once(&Ticks::of(&store, &config, context), args, context).await?;
        sender.pass().await?;
        return Ok(ended);
    }
    let _shown = ShownMetrics::begin(args.metrics.as_deref(), context).await?;
    serve(args, config, store, context).await
}

/// Ticks over an open store until a signal stops it.
pub async fn serve(args: &Daemon, config: Config, store: Store, context: &Context) -> Result<Exit> {
    let interval = interval(args, &config)?;
    let ticks = Ticks::of(&store, &config, context);
    let notifier = Notifier::begin(context.sender(&store, &config)?);
    let presence = Presence::begin(&store, me(&config), None).await;
    let mut service = Service { ticks, interval, living: Some(Living { store, config, presence, notifier }) };
    let ended = go_on(&mut service, args, context).await;
    if let Some(living) = service.living {
        living.notifier.end();
        living.presence.end().await;
    }
    ended
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
    let mut tick = ticks.next().await?;
    while tick.is_behind && !context.stop.is_requested() {
        tick = tick.and(ticks.next().await?);
    }
    show(&tick, args.dry_run, context)?;
    Ok(Exit::Done)
}

async fn go_on(service: &mut Service, args: &Daemon, context: &Context) -> Result<Exit> {
    let mut hangups = Reload::listen()?;
    tracing::info!(interval_ms = service.interval.as_millis(), dry_run = args.dry_run, "started");
    let mut is_behind = false;
    // A tick that is at work is finished first, or given up after a few seconds.
    while !context.stop.is_requested() {
        let mut rest = service.interval;
        match service.ticks.next().await {
            Ok(tick) => {
                tracing::info!(
                    considered = tick.considered,
                    requeued = tick.requeued,
                    overtaken = tick.overtaken,
                    enqueued = tick.enqueued,
                    pruned = tick.pruned,
                    "tick"
                );
                if tick.is_behind && !is_behind {
                    tracing::warn!(
                        "more runs are kept no longer than one tick forgets; ticks follow at once until all are forgotten"
                    );
                }
                is_behind = tick.is_behind;
                if is_behind {
                    rest = Duration::ZERO;
                }
            }
            Err(redrive_control::Error::Store(error)) if error.is_fatal() && !context.stop.is_requested() => {
                return Err(error.into());
            }
            // The next tick looks at everything again, so nothing is lost by going on.
            Err(error) => tracing::error!(%error, "tick failed"),
        }
        tokio::select! {
            () = context.stop.requested() => {}
            () = hangups.asked() => service.reload(args, context),
            () = tokio::time::sleep(rest) => {}
        }
    }
    tracing::info!("stopped");
    Ok(Exit::Done)
}

struct Service {
    ticks: Ticks,
    interval: Duration,
    /// None for a dry run, which reads its configuration once.
    living: Option<Living>,
}

/// What a daemon has that others see.
struct Living {
    store: Store,
    config: Config,
    presence: Presence,
    notifier: Notifier,
}

impl Service {
    /// Reads the configuration again. The next tick follows at once.
    fn reload(&mut self, args: &Daemon, context: &Context) {
        let Some(living) = &mut self.living else { return };
        let next = service::next(context, &living.config).and_then(|next| {
            let sender = context.sender(&living.store, &next)?;
            Ok((interval(args, &next)?, sender, next))
        });
        service::log(next.map(|(interval, sender, next)| {
            living.notifier.replace(sender);
            (self.interval, self.ticks) = (interval, Ticks::of(&living.store, &next, context));
            let me = me(&next);
            living.presence.tell(me.config.clone(), me.serves);
            living.config = next;
            me.config
        }));
    }
}

/// Where ticks come from: a dry run only looks.
enum Ticks {
    Foreseen(Insight),
    Done(ControlPlane, String),
}

impl Ticks {
    fn of(store: &Store, config: &Config, context: &Context) -> Self {
        let actor = format!("daemon {} pid {}", person(), std::process::id());
        Self::Done(context.control_of(store, config), actor)
    }

    async fn next(&self) -> redrive_control::Result<Tick> {
        match self {
            Self::Foreseen(insight) => insight.foresee_tick().await,
            Self::Done(plane, actor) => {
                let tick = plane.tick(actor).await?;
                let told = plane.follow_episodes().await?;
                if told > 0 {
                    tracing::info!(told, "notifications written");
                }
                Ok(tick)
            }
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
    let action = |action: &TickAction| {
        let TickAction { action, key, attempt_count, delay_seconds, .. } = action;
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
