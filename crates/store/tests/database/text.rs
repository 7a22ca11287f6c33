//! Texts that come from outside: what one database keeps, the other keeps too.

use redrive_store::{Error, NewRun};

use crate::support::Subject;

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

async fn an_external_id_is_kept_up_to_1024_bytes_and_refused_beyond(subject: Subject) {
    let control = subject.store.control();
    let job = |bytes| NewRun { external_id: Some(noise(bytes)), ..NewRun::job("a", None, subject.now()) };
    assert!(!control.submit(vec![job(1024)]).await.unwrap()[0].existing);
    assert!(control.submit(vec![job(1024)]).await.unwrap()[0].existing);
    assert!(matches!(control.submit(vec![job(8), job(1032)]).await, Err(Error::Input { .. })));
    assert_eq!(subject.claim_jobs(9).await.len(), 1, "a submission is taken whole or not at all");
}

async fn a_nul_in_a_submission_is_refused(subject: Subject) {
    let job = NewRun::job("a", None, subject.now());
    let odd = Some("before\0after".to_owned());
    for bad in [
        NewRun { category: "\0".to_owned(), ..job.clone() },
        NewRun { payload: odd.clone(), ..job.clone() },
        NewRun { external_id: odd.clone(), ..job.clone() },
        NewRun { subject: odd, ..job.clone() },
    ] {
        let refused = subject.store.control().submit(vec![bad]).await;
        assert!(matches!(refused, Err(Error::Input { .. })), "{refused:?}");
    }
}

crate::on_both_databases!(an_external_id_is_kept_up_to_1024_bytes_and_refused_beyond, a_nul_in_a_submission_is_refused,);
