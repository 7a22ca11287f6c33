//! `redrive serve`: the HTTP API, and beside it a worker and a daemon, until a signal stops them. SIGHUP has each of them read
//! the configuration again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::process::{Kind, Serves};
use redrive_core::run::Workload;
use redrive_core::safety::Rails;
use redrive_core::sign_in::TokenState;
use redrive_data::outside::OutsideWorkers;
use redrive_server::{App, Listener, Rules, Settings, routes};
use redrive_store::Store;

use super::{Context, Missing, daemon, open, worker};
use crate::cli::{self, Serve};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;
use crate::remedy;
use crate::service::{self, Me, Presence, Reload};

/// How long requests under way may take to end.
const GRACE: Duration = Duration::from_secs(2);

pub async fn run(args: &Serve, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    let worker_args = cli::Worker {
        workload: vec![],
        source: vec![],
        category: vec![],
        concurrency: None,
        drain: false,
        metrics: None,
    };
    let plan = match args.no_worker {
        true => None,
        false => Some(worker::plan(&worker_args, &config, context)?),
    };
    let listener = listen(args, &config).await?;
    let store = open(&config, Missing::Make, context).await?;
    let is_first = !listener.is_local() && config.server.forward_auth.is_none() && !has_tokens(&store).await?;
    if is_first && !args.insecure {
        return Err(Error::Refused(no_tokens(&listener)));
    }
    let settings = Settings { read_only: args.read_only || config.server.read_only, ..config.server.clone() };
    let app = App::new(store.clone(), settings, rules(&store, &config, context)?, listener.is_local(), remedy::of_need);
    if !context.global.quiet {
        output::note(&format!("listening on {}", url(&listener, &config)));
    }
    if is_first {
        greet(&app, &listener, &config)?;
    }
    let working = async {
        match plan {
            Some(plan) => worker::serve(&worker_args, config.clone(), &store, plan, context).await,
            None => Ok(Exit::Done),
        }
    };
    let ticking = async {
        let daemon_args = cli::Daemon { once: false, dry_run: false, interval: None, metrics: None };
        match args.no_daemon {
            true => Ok(Exit::Done),
            false => daemon::serve(&daemon_args, config.clone(), store.clone(), context).await,
        }
    };
    let serving = serve(&app, listener, config.clone(), &store, context);
    let (served, worked, ticked) = tokio::join!(part(serving, context), part(working, context), part(ticking, context));
    served.and(worked).and(ticked)
}

/// Runs a part of the service. One that cannot go on stops the others: half a service would look like a whole one.
async fn part(running: impl Future<Output = Result<Exit>>, context: &Context) -> Result<Exit> {
    let ended = running.await;
    if ended.is_err() {
        context.stop.request();
    }
    ended
}

async fn listen(args: &Serve, config: &Config) -> Result<Listener> {
    let listen = args.listen.as_deref().unwrap_or(&config.settings.server.listen);
    let listener = Listener::bind(listen).await.map_err(Error::io(format!("cannot listen on {listen}")))?;
    Ok(listener)
}

/// Whether somebody could sign in.
async fn has_tokens(store: &Store) -> Result<bool> {
    let view = store.view();
    let (now, tokens) = (view.now(), view.tokens().await?);
    Ok(tokens.iter().any(|token| token.state(now) == TokenState::Valid))
}

fn no_tokens(listener: &Listener) -> String {
    let address = listener.address();
    format!(
        "others can reach {address}, and there is no token that anybody could sign in with; make one by \
         `redrive token create --name me --role admin --expires 30d`, listen on 127.0.0.1, or give --insecure for a link \
         that signs in once"
    )
}

/// Says how to sign in for the first time. The secret is behind the `#`, which reaches no log.
fn greet(app: &App, listener: &Listener, config: &Config) -> Result<()> {
    let secret = app.first_link().make(app.access().now()).map_err(|error| Error::Stopped(error.to_string()))?;
    let base = match &config.server.public_url {
        Some(url) => format!("{}{}", url.origin().ascii_serialization(), config.server.base_path.to("/")),
        None => url(listener, config),
    };
    output::note("warning: what is sent to this address can be read on its way; put a proxy with https before it");
    output::note(&format!("sign in once within ten minutes: {base}login#{}", secret.reveal()));
    output::note("afterwards: redrive token create --name me --role admin --expires 30d");
    Ok(())
}

/// Where the server is found on this machine.
fn url(listener: &Listener, config: &Config) -> String {
    format!("http://{}{}", listener.address(), config.server.base_path.to("/"))
}

fn rules(store: &Store, config: &Config, context: &Context) -> Result<Rules> {
    let sections = Arc::new(config.plan(&[Workload::Process], &context.environment)?.sections);
    let safety = &config.settings.safety;
    Ok(Rules {
        plane: context.control_of(store, config),
        config: config.fingerprint.clone(),
        raw: config.raw.clone(),
        raw_options: config.raw_options.clone(),
        limits: config.ingestion.limits.clone(),
        outside: OutsideWorkers::new(store.data(), sections, config.settings.worker.lease),
        rails: Rails { confirm_above: safety.confirm_above.into(), hard_limit: safety.hard_limit.into() },
    })
}

async fn serve(app: &App, listener: Listener, config: Config, store: &Store, context: &Context) -> Result<Exit> {
    let me = Me { kind: Kind::Server, config: config.fingerprint.clone(), serves: Serves::default() };
    let (presence, hangups) = (Presence::begin(store, me, None).await, Reload::listen()?);
    let stop = async {
        context.stop.requested().await;
        app.drain();
    };
    tokio::select! {
        () = listener.serve(routes::router(app), stop, GRACE) => {}
        () = redrive_server::work(app) => {}
        never = reload(app, config, store, &presence, hangups, context) => match never {},
    }
    presence.end().await;
    tracing::info!("the server has stopped");
    Ok(Exit::Done)
}

/// Reads the configuration again whenever it is asked to. Where the server listens and what it is called stays.
async fn reload(
    app: &App,
    mut config: Config,
    store: &Store,
    presence: &Presence,
    mut hangups: Reload,
    context: &Context,
) -> Infallible {
    loop {
        hangups.asked().await;
        let next = service::next(context, &config).and_then(|next| Ok((rules(store, &next, context)?, next)));
        service::log(next.map(|(rules, next)| {
            app.replace(rules);
            presence.tell(next.fingerprint.clone(), Serves::default());
            config = next;
            config.fingerprint.clone()
        }));
    }
}
