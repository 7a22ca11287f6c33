//! Answers of a moment ago: many who ask for the same at once are served by one look at the database.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::error::Result;

/// How old an answer may be.
const FRESH: Duration = Duration::from_millis(200);
/// How old it may be while a request makes a new one.
const MEANWHILE: Duration = Duration::from_secs(1);
/// How many different ones are kept.
const MOST: usize = 64;

/// Answers by what was asked.
#[derive(Debug, Default)]
pub struct Recent(Mutex<HashMap<String, Arc<Kept>>>);

/// The last answer to one question.
#[derive(Debug, Default)]
struct Kept {
    /// Held by the request that makes a new one.
    making: tokio::sync::Mutex<()>,
    last: Mutex<Option<(Instant, Bytes)>>,
}

impl Kept {
    fn younger_than(&self, age: Duration) -> Option<Bytes> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(at, _)| at.elapsed() < age).map(|(_, answer)| answer.clone())
    }

    fn keep(&self, at: Instant, answer: Bytes) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((at, answer));
    }
}

impl Recent {
    /// The answer of a moment ago, or a new one. Who comes while a new one is made gets the last one, or waits where that is too old.
    pub async fn get(&self, asked: &str, make: impl Future<Output = Result<Bytes>>) -> Result<Bytes> {
        let kept = self.kept(asked);
        if let Some(answer) = kept.younger_than(FRESH) {
            return Ok(answer);
        }
        let making = match kept.making.try_lock() {
            Ok(making) => making,
            Err(_) => match kept.younger_than(MEANWHILE) {
                Some(answer) => return Ok(answer),
                None => kept.making.lock().await,
            },
        };
        if let Some(answer) = kept.younger_than(FRESH) {
            return Ok(answer);
        }
        let at = Instant::now();
        let answer = make.await?;
        kept.keep(at, answer.clone());
        drop(making);
        Ok(answer)
    }

    fn kept(&self, asked: &str) -> Arc<Kept> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST && !all.contains_key(asked) {
            all.clear();
        }
        Arc::clone(all.entry(asked.to_owned()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn many_who_ask_at_once_cost_one_look() {
        let (recent, looks) = (Recent::default(), AtomicU32::new(0));
        let look = async || {
            let nth = looks.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok(Bytes::from(nth.to_string()))
        };
        let asked = (0..100).map(|_| recent.get("a", look()));
        let answers = futures_util::future::join_all(asked).await;
        assert!(answers.iter().all(|answer| answer.as_ref().unwrap() == "0"));
        assert_eq!(recent.get("b", look()).await.unwrap(), "1", "another question is another look");
    }

    #[tokio::test]
    async fn nobody_waits_for_a_new_answer_while_the_last_one_will_do() {
        let recent = Recent::default();
        let never = || std::future::pending::<Result<Bytes>>();
        let past = |age: Duration| Instant::now().checked_sub(age).unwrap();
        recent.kept("a").keep(past(FRESH), Bytes::from("last"));
        let mut maker = Box::pin(recent.get("a", never()));
        assert!(futures_util::poll!(&mut maker).is_pending(), "it is too old for the first who comes");
        let mut served = Box::pin(recent.get("a", never()));
        assert!(matches!(futures_util::poll!(&mut served), Poll::Ready(Ok(answer)) if answer == "last"));
        recent.kept("a").keep(past(MEANWHILE), Bytes::from("too old"));
        let mut waits = Box::pin(recent.get("a", async { Ok(Bytes::from("new")) }));
        assert!(futures_util::poll!(&mut waits).is_pending());
        drop(maker);
        assert_eq!(waits.await.unwrap(), "new", "the request that was making it has ended");
    }
}
