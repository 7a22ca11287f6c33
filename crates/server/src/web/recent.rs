//! Answers of a moment ago: many who ask for the same at once are served by one look at the database.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Mutex;

use crate::error::Result;

/// How old an answer may be.
const FRESH: Duration = Duration::from_millis(200);
/// How many different ones are kept.
const MOST: usize = 64;

/// Answers by what was asked.
#[derive(Debug, Default)]
pub struct Recent(Mutex<HashMap<String, (Instant, Bytes)>>);

impl Recent {
    /// The answer of a moment ago, or a new one. Who comes while a new one is made waits for it.
    pub async fn get(&self, asked: &str, make: impl Future<Output = Result<Bytes>>) -> Result<Bytes> {
        let mut known = self.0.lock().await;
        if let Some((at, answer)) = known.get(asked)
            && at.elapsed() < FRESH
        {
            return Ok(answer.clone());
        }
        let at = Instant::now();
        let answer = make.await?;
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(asked.to_owned(), (at, answer.clone()));
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn many_who_ask_at_once_cost_one_look() {
        let (recent, looks) = (Recent::default(), AtomicU32::new(0));
        let look = async || {
            let nth = looks.fetch_add(1, Ordering::Relaxed);
            Ok(Bytes::from(nth.to_string()))
        };
        let asked = (0..100).map(|_| recent.get("a", look()));
        let answers = futures_util::future::join_all(asked).await;
        assert!(answers.iter().all(|answer| answer.as_ref().unwrap() == "0"));
        assert_eq!(recent.get("b", look()).await.unwrap(), "1", "another question is another look");
    }
}
