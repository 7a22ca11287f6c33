//! What the server does beside answering: gives back runs whose outside worker fell silent, and goes on with operations in steps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::app::App;

/// How often silent workers are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// How often operations are looked for, whether or not one was announced.
const LOOK: Duration = Duration::from_secs(5);

/// Works until the server is about to end. What it is at then, another process goes on with.
pub async fn work(app: &App) {
    if app.settings().read_only {
        app.drained().await;
        return std::future::pending().await;
    }
    tokio::join!(sweep(app), carry_on(app));
    std::future::pending().await
}

async fn sweep(app: &App) {
    loop {
        if let Err(error) = app.rules().outside.sweep().await {
            tracing::warn!(%error, "silent workers could not be looked for");
        }
        tokio::select! {
            () = app.drained() => return,
            () = tokio::time::sleep(SWEEP) => {}
        }
    }
}

async fn carry_on(app: &App) {
    let stop = AtomicBool::new(false);
    let mut wakeups = app.store().wakeups();
    let working = async {
        loop {
            wakeups.mark_unchanged();
            if let Err(error) = app.rules().plane.carry_on_all(&stop).await {
                tracing::warn!(%error, "operations could not be gone on with");
            }
            if stop.load(Ordering::SeqCst) {
                return;
            }
            tokio::select! {
                _ = wakeups.changed() => {}
                () = tokio::time::sleep(LOOK) => {}
                () = app.drained() => return,
            }
        }
    };
    let stopping = async {
        app.drained().await;
        stop.store(true, Ordering::SeqCst);
    };
    tokio::join!(working, stopping);
}
