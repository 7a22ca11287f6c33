//! Sends notifications on a task of its own, so that a receiver that does not answer holds up nothing else.

use std::time::Duration;

use redrive_data::notify::Sender;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How often the outbox is looked at.
const PAUSE: Duration = Duration::from_secs(5);

/// The sender of a process.
#[derive(Debug)]
pub struct Notifier {
    sender: watch::Sender<Sender>,
    task: JoinHandle<()>,
}

impl Notifier {
    pub fn begin(sender: Sender) -> Self {
        let (sender, followed) = watch::channel(sender);
        Self { sender, task: tokio::spawn(send(followed)) }
    }

    /// Sends by another configuration from the next pass on.
    pub fn replace(&self, sender: Sender) {
        self.sender.send_replace(sender);
    }

    /// Ends at once. What was under way is sent again by the next sender, once its lease has run out.
    pub fn end(self) {
        self.task.abort();
    }
}

async fn send(mut followed: watch::Receiver<Sender>) {
    loop {
        let sender = followed.borrow_and_update().clone();
        if let Err(error) = sender.pass().await {
            tracing::warn!(%error, "the outbox could not be worked through");
        }
        if let Ok(Err(_)) = tokio::time::timeout(PAUSE, followed.changed()).await {
            return;
        }
    }
}
