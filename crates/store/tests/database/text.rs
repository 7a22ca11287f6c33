//! Texts that come from outside: what one database keeps, the other keeps too.

use crate::steps::named_job;
use redrive_core::run::Work;
use redrive_store::{Error, NewFile, NewRun};

use crate::stanzas::{stanza, upload};
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

/// IN-5, IN-6
async fn a_stanza_may_have_a_long_name(subject: Subject) {
    let (data, run) = (subject.store.data(), upload(&subject).await);
    let path = "a.conf".to_owned();
    let file = data.file(run, NewFile { path, bytes: 1, sha256: String::new() }).await.unwrap();
    let name = noise(6000);
    assert_eq!(data.add_stanzas(run, vec![stanza(file, Some(&name), 1, &[])]).await.unwrap(), 1);
    assert_eq!(data.add_stanzas(run, vec![stanza(file, Some(&name), 1, &[])]).await.unwrap(), 0);
}

/// IN-5
async fn a_setting_may_hold_any_character(subject: Subject) {
    let (data, run) = (subject.store.data(), upload(&subject).await);
    let path = "a.conf".to_owned();
    let file = data.file(run, NewFile { path, bytes: 1, sha256: String::new() }).await.unwrap();
    let odd = stanza(file, Some("it's 100% \"ok\""), 1, &[("k", "\u{1}\t\u{7f}é🦀\u{10ffff}"), ("l", "before\0after")]);
    assert_eq!(data.add_stanzas(run, vec![odd]).await.unwrap(), 1);
}

async fn an_external_id_is_kept_up_to_1024_bytes_and_refused_beyond(subject: Subject) {
    let control = subject.store.control();
    let job = |bytes| named_job("a", &noise(bytes), subject.now());
    assert!(!control.submit(vec![job(1024)]).await.unwrap()[0].existing);
    assert!(control.submit(vec![job(1024)]).await.unwrap()[0].existing);
    assert!(matches!(control.submit(vec![job(8), job(1032)]).await, Err(Error::Input { .. })));
    assert_eq!(subject.claim_jobs(9).await.len(), 1, "a submission is taken whole or not at all");
}

async fn a_nul_in_a_submission_is_refused(subject: Subject) {
    let job = NewRun::job("a", None, subject.now());
    let odd = "before\0after";
    for bad in [
        NewRun::job("\0", None, subject.now()),
        NewRun { payload: Some(odd.to_owned()), ..job },
        named_job("a", odd, subject.now()),
        NewRun::new(Work::Ingest { upload: odd.to_owned() }, None, subject.now()),
    ] {
        let refused = subject.store.control().submit(vec![bad]).await;
        assert!(matches!(refused, Err(Error::Input { .. })), "{refused:?}");
    }
}

crate::on_both_databases!(
    a_stanza_may_have_a_long_name,
    a_setting_may_hold_any_character,
    an_external_id_is_kept_up_to_1024_bytes_and_refused_beyond,
    a_nul_in_a_submission_is_refused,
);
