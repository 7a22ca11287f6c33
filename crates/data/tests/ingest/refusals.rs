//! Archives that are wrong for good: FAILED at once, with a reason and a trace, and nothing of them stays.

use redrive_core::failure::ErrorClass;
use redrive_core::run::{State, label};

use crate::everywhere;
use crate::lab::{Lab, conf, corpus_file, tar};

async fn what_is_wrong_with_an_archive_ends_its_run_at_once(lab: Lab) {
    let good = corpus_file("paloalto.tgz");
    let with_good = |bad: &str| {
        let mut bytes = tar(&[("a/default/props.conf", b"[a]\nb = 1\n"), ("x/default/props.conf", b"[a]\n")]);
        // The second member's name, with what its checksum says about it.
        bytes[1024..1024 + bad.len()].copy_from_slice(bad.as_bytes());
        bytes[1024 + bad.len()..1024 + 100].fill(0);
        let mut header = tar::Header::from_byte_slice(&bytes[1024..1536]).clone();
        header.set_cksum();
        bytes[1024..1536].copy_from_slice(header.as_bytes());
        bytes
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("malformed_archive", good[..good.len() / 2].to_vec()),
        ("no_files", tar(&[("a/README", b"nothing here")])),
        ("invalid_format", vec![0xfe; 5000]),
        ("unsafe_entry", with_good("../../etc/props.conf")),
        ("limit_exceeded", tar(&[("a/default/props.conf", &vec![b'#'; 17 << 20])])),
    ];
    for (error_type, bytes) in cases {
        let run_id = lab.upload("apps.tgz", &bytes).await.run.run_id;
        let counts = lab.drain().await;
        assert_eq!((counts.accepted, counts.rejected), (0, 1), "{error_type}");
        let run = lab.run(run_id).await;
        assert_eq!((label(&run), run.state, run.error_class), ("FAILED", State::Dead, Some(ErrorClass::Final)));
        assert_eq!((run.attempt, run.retry_count, run.next_retry_at), (1, 0, None), "there is no retry");
        assert!(run.completed_at.is_some());
        let (message, trace) = (run.error_message.unwrap(), run.error_traceback.unwrap());
        assert!(
            !message.is_empty() && trace.contains(error_type) && trace.contains("reading upload apps.tgz"),
            "{trace}"
        );
        if error_type == "unsafe_entry" {
            assert!(trace.contains("etc/props.conf"), "the member is named: {trace}");
        }
        let metrics = lab.metrics(run_id).await;
        assert_eq!(metrics["error_type"], error_type, "{message}");
        assert_eq!(metrics["retry_count"], 0);
        assert!(metrics["duration_seconds"].is_f64() && metrics.as_object().unwrap().len() == 3, "{metrics}");
        assert_eq!(lab.stanzas(run_id).await, [], "{error_type}");
    }
}

/// Batches that were written before the end of the archive turned out to be missing are taken away again.
async fn nothing_stays_of_an_archive_that_is_cut_off(lab: Lab) {
    let mut bytes = tar(&[("a/default/props.conf", &conf(20_000)), ("b/default/props.conf", b"[a]\n")]);
    bytes.truncate(bytes.len() - 1024 - 700);
    let run_id = lab.upload("apps.tar", &bytes).await.run.run_id;
    lab.drain().await;
    assert_eq!(lab.metrics(run_id).await["error_type"], "malformed_archive");
    assert_eq!(lab.stanzas(run_id).await, []);
}

everywhere!(what_is_wrong_with_an_archive_ends_its_run_at_once, nothing_stays_of_an_archive_that_is_cut_off);
