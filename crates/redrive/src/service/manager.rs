//! What a service manager such as systemd is told: that the process is ready, that it is alive, and that it ends. Where
//! none has started the process, nothing is done.

use sd_notify::NotifyState;

/// The process serves from now on.
pub fn ready() {
    tell(NotifyState::Ready);
}

/// The process is alive: a manager that watches over it (`WatchdogSec`) starts it anew when this is not said for long.
pub fn alive() {
    tell(NotifyState::Watchdog);
}

/// The process has begun to end.
pub fn stopping() {
    tell(NotifyState::Stopping);
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "the service manager could not be told");
    }
}
