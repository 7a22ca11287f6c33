//! What goes in comes out, and a directory counts only with its manifest.

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use redrive_store::raw::{Error, RunOutcome};

use crate::lab::{Lab, attempt, key, later, lines, long_line, write};

pub async fn several_parts_come_back_as_they_went(lab: Lab) {
    let sink = lab.sink_of_small_parts().await;
    let mut writer = sink.begin(attempt(&key("1"), 1));
    let written: Vec<String> = (0..350).map(|n| long_line(n, 10_000)).collect();
    for line in &written {
        writer.write_line(line.as_bytes()).await.unwrap();
    }
    let manifest = writer.finish(RunOutcome::Complete, later()).await.unwrap();

    assert_eq!(manifest.parts.len(), 4);
    assert_eq!(manifest.records, 350);
    assert_eq!(manifest.bytes, written.iter().map(|line| line.len() as u64 + 1).sum::<u64>());
    let view = sink.view();
    assert_eq!(view.manifest(&key("1"), manifest.run_id).await.unwrap().as_ref(), Some(&manifest));
    view.verify(&manifest).await.unwrap();
    assert_eq!(lines(&view, &manifest).await, written);
    let chunks: Vec<Bytes> = view.chunks(&manifest).map(Result::unwrap).collect().await;
    assert_eq!(chunks.concat(), (written.join("\n") + "\n").into_bytes());
    assert!(chunks.iter().all(|chunk| chunk.len() <= 256 << 10));

    let dir = "source=ads/customer_id=1/query_name=campaign_daily/logical_date=2026-01-31/run_id=019a0000-0000-7000-8000-000000000001";
    let mut expected: Vec<String> = (0..4).map(|n| format!("{dir}/part-{n:05}.jsonl.zst")).collect();
    expected.insert(0, format!("{dir}/_manifest.json"));
    assert_eq!(lab.objects().await, expected);
    let first = lab.read(&expected[1]).await;
    assert!(zstd::decode_all(&first[..]).unwrap().starts_with(written[0].as_bytes()), "a part is plain zstd");
}

pub async fn bytes_are_kept_verbatim(lab: Lab) {
    let sink = lab.sink().await;
    let odd = ["{\"cost\":1.50}", " { \"a\" :1e3 ,\t\"a\": 2}  ", "{\"x\":\"\\u00e9\u{e9}\"}\r", "not json at all"];
    let manifest = write(&sink, attempt(&key("1"), 1), &odd).await.unwrap();
    assert_eq!(lines(&sink.view(), &manifest).await, odd);

    let mut writer = sink.begin(attempt(&key("1"), 2));
    writer.write_line(b"\xff\x00").await.unwrap();
    let manifest = writer.finish(RunOutcome::Complete, later()).await.unwrap();
    assert_eq!(sink.view().lines(&manifest).next().await.unwrap().unwrap(), &b"\xff\x00"[..]);
}

pub async fn a_line_is_one_line(lab: Lab) {
    let sink = lab.sink().await;
    let mut writer = sink.begin(attempt(&key("1"), 1));
    writer.write_line(b"{}").await.unwrap();
    for (bad, why) in [(&b""[..], "is empty"), (b"{}\n", "holds a newline"), (b"{}\n{}", "holds a newline")] {
        let error = writer.write_line(bad).await.unwrap_err();
        assert!(matches!(error, Error::Line { number: 2, .. }) && error.to_string().contains(why), "{error}");
    }
    let manifest = writer.finish(RunOutcome::Complete, later()).await.unwrap();
    assert_eq!(lines(&sink.view(), &manifest).await, ["{}"]);
}

pub async fn a_dropped_writer_leaves_a_directory_without_manifest(lab: Lab) {
    let sink = lab.sink_of_small_parts().await;
    let view = sink.view();
    let attempt = attempt(&key("1"), 1);
    let mut writer = sink.begin(attempt.clone());
    assert!(!view.has_any(&attempt.key).await.unwrap());
    for n in 0..150 {
        writer.write_line(long_line(n, 10_000).as_bytes()).await.unwrap();
    }
    drop(writer);
    assert_eq!(view.manifest(&attempt.key, attempt.run_id).await.unwrap(), None);
    assert!(view.has_any(&attempt.key).await.unwrap());
    assert_eq!(lab.objects().await.len(), 1, "one full part, and no manifest");
}

pub async fn a_failure_before_the_first_line_still_leaves_a_manifest(lab: Lab) {
    let sink = lab.sink().await;
    let attempt = attempt(&key("1"), 1);
    let outcome =
        RunOutcome::Failed { error_class: "rate_limited".to_owned(), message: "429 after\nnothing".to_owned() };
    let written = sink.begin(attempt.clone()).finish(outcome.clone(), later()).await.unwrap();
    let read = sink.view().manifest(&attempt.key, attempt.run_id).await.unwrap().unwrap();
    assert_eq!(read, written);
    assert_eq!((read.outcome, read.records, read.parts.len()), (outcome, 0, 0));
    assert!(sink.view().has_any(&attempt.key).await.unwrap());
    assert!(lines(&sink.view(), &written).await.is_empty());
}

pub async fn an_empty_success_has_no_parts(lab: Lab) {
    let sink = lab.sink().await;
    let manifest = write(&sink, attempt(&key("1"), 1), &[]).await.unwrap();
    assert_eq!((manifest.outcome.clone(), manifest.records, manifest.parts.len()), (RunOutcome::Complete, 0, 0));
    sink.view().verify(&manifest).await.unwrap();
}

pub async fn a_cancelled_write_can_only_be_finished_as_failed(lab: Lab) {
    let sink = lab.sink().await;
    let big = long_line(0, 32 << 20);
    let cancelled = async |n| {
        let mut writer = sink.begin(attempt(&key("1"), n));
        writer.write_line(b"{}").await.unwrap();
        assert!(writer.write_line(big.as_bytes()).now_or_never().is_none(), "it waits for the compressor");
        assert!(matches!(writer.write_line(b"{}").await, Err(Error::Interrupted { .. })));
        writer
    };
    let error = cancelled(1).await.finish(RunOutcome::Complete, later()).await.unwrap_err();
    assert!(matches!(error, Error::Interrupted { .. }), "{error}");
    assert!(!sink.view().has_any(&key("1")).await.unwrap());

    let outcome = RunOutcome::Failed { error_class: "retryable".to_owned(), message: "time-out".to_owned() };
    let manifest = cancelled(2).await.finish(outcome, later()).await.unwrap();
    assert_eq!((manifest.records, manifest.parts.len()), (0, 0));
}

pub async fn a_line_longer_than_every_buffer_is_kept(lab: Lab) {
    let sink = lab.sink_of_small_parts().await;
    let mut writer = sink.begin(attempt(&key("1"), 1));
    // One byte short of a chunk, so that the newline alone fills it; then one of several chunks.
    let mut exact = long_line(0, 1 << 20);
    exact.truncate((1 << 20) - 1);
    let huge = long_line(1, 5 << 20);
    for line in [&exact, &huge, &exact] {
        writer.write_line(line.as_bytes()).await.unwrap();
    }
    let manifest = writer.finish(RunOutcome::Complete, later()).await.unwrap();
    assert_eq!(
        manifest.parts.iter().map(|part| part.records).collect::<Vec<_>>(),
        [1, 1, 1],
        "no line spans two parts"
    );
    assert_eq!(lines(&sink.view(), &manifest).await, [exact.clone(), huge, exact]);
}
