//! Ending an attempt without a verdict: what is not the partition's fault burns none of its attempts.

use redrive_core::failure::ErrorClass;
use redrive_core::hold::HoldScope;
use redrive_core::partition::Judgement;
use redrive_core::time::Timestamp;
use redrive_store::{Recorded, raw};
use serde_json::Map;

use super::{Attempt, Judged, NotJudged};
use crate::error::{Result, TRY_AGAIN};
use crate::extract::Scope;
use crate::worker::{AttemptEnd, AttemptResult};

/// How a partition is given back without a verdict.
enum GiveBack {
    /// With the reason, where it lies on this side.
    Untried(Option<String>),
    /// Its source said when to come again.
    Until { message: String, until: Timestamp },
}

impl Attempt {
    pub(super) async fn end_without_verdict(self, why: NotJudged) -> AttemptResult {
        let error = match why {
            NotJudged::LeaseEnded(end) => return AttemptResult::Ended(end.into()),
            NotJudged::Overtaken => return AttemptResult::Ended(AttemptEnd::Lost),
            NotJudged::Stopped => return AttemptResult::Ended(self.give_back(GiveBack::Untried(None)).await),
            NotJudged::Unusable { scope, why } => {
                return AttemptResult::Ended(self.end_unusable(scope, why).await);
            }
            NotJudged::RateLimited { message, until } => {
                return AttemptResult::Ended(self.give_back(GiveBack::Until { message, until }).await);
            }
            NotJudged::Failed(error) => error,
            NotJudged::SinkFailed(error) => match self.reject_unless_sink_is_down(error).await {
                Ok(end) => return AttemptResult::Ended(end),
                Err(NotJudged::LeaseEnded(end)) => return AttemptResult::Ended(end.into()),
                Err(NotJudged::Failed(error)) => error,
                Err(NotJudged::SinkFailed(error)) => error.into(),
                Err(NotJudged::Unusable { scope, why }) => {
                    return AttemptResult::Ended(self.end_unusable(scope, why).await);
                }
                Err(NotJudged::Stopped | NotJudged::Overtaken | NotJudged::RateLimited { .. }) => {
                    return AttemptResult::Ended(AttemptEnd::Lost);
                }
            },
        };
        let why = error.to_string();
        let give_back = Box::pin(async move { self.give_back(GiveBack::Untried(Some(why))).await });
        AttemptResult::InfraFailed { error, give_back }
    }

    /// Holds what cannot be used, and only then gives the partition back, so that no worker takes it in between.
    async fn end_unusable(&self, scope: Scope, why: String) -> AttemptEnd {
        let key = &self.claimed.partition.state.key;
        let scope = match scope {
            Scope::Source => HoldScope::Source(key.source.clone()),
            Scope::Customer => HoldScope::Customer(key.source.clone(), key.customer_id.clone()),
        };
        let worker = self.claimed.run.worker.as_deref().unwrap_or_default();
        tracing::warn!(source = %scope, why, "the source cannot be used; it is held, and looked at again in a minute");
        if let Err(error) = self.data.hold_unusable(&scope, &why, worker).await {
            tracing::warn!(source = %scope, %error, "the hold could not be recorded");
        }
        self.give_back(GiveBack::Untried(Some(why))).await
    }

    /// Where the sink works for others, this partition is not to be had, and runs out of attempts like any other.
    async fn reject_unless_sink_is_down(&self, error: raw::Error) -> Result<AttemptEnd, NotJudged> {
        if self.under_lease(async { Ok(self.sink.is_down(&error).await) }).await? {
            return Err(NotJudged::Failed(error.into()));
        }
        let (class, message) = (ErrorClass::Retryable, error.to_string());
        let judgement = Judgement::Rejected { class, message, not_before: None };
        self.record(Judged { judgement, metrics: Map::new(), stderr: self.children.whole_stderr() }).await
    }

    /// Gives the partition back, as long as its lease lasts.
    async fn give_back(&self, how: GiveBack) -> AttemptEnd {
        tokio::select! {
            biased;
            end = self.lease.ended() => end.into(),
            is_released = self.release(&how) => match (is_released, how) {
                (false, _) => AttemptEnd::Lost,
                (true, GiveBack::Untried(_)) => AttemptEnd::Released,
                (true, GiveBack::Until { .. }) => AttemptEnd::RateLimited,
            },
        }
    }

    async fn release(&self, how: &GiveBack) -> bool {
        loop {
            let released = match how {
                GiveBack::Untried(why) => self.data.release(&self.claimed.run, why.as_deref()).await,
                GiveBack::Until { message, until } => self.data.rate_limited(&self.claimed.run, message, *until).await,
            };
            match released {
                Ok(Recorded::As(_)) => return true,
                Ok(Recorded::Refused(_) | Recorded::Lost) => return false,
                Err(error) => {
                    tracing::warn!(run_id = %self.claimed.run.run_id, %error, "could not give the partition back");
                    if !error.is_transient() {
                        return false;
                    }
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            }
        }
    }
}
