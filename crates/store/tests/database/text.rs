//! Texts that come from outside: what one database keeps, the other keeps too.

use redrive_core::run::Work;
use redrive_store::{Error, NewRun};

use crate::steps::named_job;
use crate::support::{TestStore, key};

/// Text that no compression makes short.
fn noise(bytes: usize) -> String {
    let mut state = 1u64;
    let mut text = String::new();
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:08x}", state >> 32));
    }
    text
}

async fn an_external_id_is_kept_up_to_1024_bytes_and_refused_beyond(subject: TestStore) {
    let control = subject.store.control();
    let job = |bytes| named_job("a", &noise(bytes), subject.now());
    assert!(!control.submit(vec![job(1024)]).await.unwrap()[0].existing);
    assert!(control.submit(vec![job(1024)]).await.unwrap()[0].existing);
    assert!(matches!(control.submit(vec![job(8), job(1032)]).await, Err(Error::Input { .. })));
    assert_eq!(subject.claim_jobs(9).await.len(), 1, "a submission is taken whole or not at all");
}

async fn a_nul_in_a_submission_is_refused(subject: TestStore) {
    let job = NewRun::job("a", None, subject.now());
    let odd = "before\0after";
    for bad in [
        NewRun::job("\0", None, subject.now()),
        NewRun { payload: Some(odd.to_owned()), ..job },
        named_job("a", odd, subject.now()),
        NewRun::new(Work::Ingest { upload: odd.to_owned() }, None, subject.now()),
        NewRun::new(Work::Extract(key("ads", "a", "daily", "2026-01-01")), None, subject.now()),
    ] {
        let refused = subject.store.control().submit(vec![bad]).await;
        assert!(matches!(refused, Err(Error::Input { .. })), "{refused:?}");
    }
}

crate::on_both_databases!(an_external_id_is_kept_up_to_1024_bytes_and_refused_beyond, a_nul_in_a_submission_is_refused,);
