//! Many judgements at once.

use std::sync::Arc;
use std::time::Duration;

use crate::lab::{Lab, rules, submission, verdict};

/// However few threads there are for the work, judgements take turns and none waits for another for ever.
#[test]
fn any_number_of_judgements_share_one_thread() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let lines: Vec<String> = (0..3000).map(|n| format!("{{\"id\":{n},\"pad\":\"{}\"}}", "x".repeat(200))).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let lab = Arc::new(Lab::with(&lines).await);
        let rules = rules(r#"{"unique":["id"],"required_fields":["pad"]}"#);
        let judgements: Vec<_> = (0..20)
            .map(|_| {
                let (lab, rules) = (lab.clone(), rules.clone());
                tokio::spawn(async move { lab.judge(&rules, &submission()).await.unwrap() })
            })
            .collect();
        let all = async {
            for judgement in judgements {
                assert_eq!(verdict(judgement.await.unwrap()), Ok(3000));
            }
        };
        tokio::time::timeout(Duration::from_secs(60), all).await.expect("judgements wait for each other");
    });
}
