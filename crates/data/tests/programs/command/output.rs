//! What programs write, and what of it lies in the raw sink.

use std::fs;

use redrive_core::failure::ErrorClass;
use redrive_data::extract::MAX_RECORD_BYTES;

use crate::lab::Lab;

#[tokio::test]
async fn lines_are_kept_as_they_are_and_blank_ones_are_none() {
    let left = Lab::new().await.sh(r#"printf "{\"a\": 1.50}\n\n   \n{\"b\":2}\r\n""#).await;
    left.result.as_ref().unwrap();
    assert_eq!(left.texts(), ["{\"a\": 1.50}", "{\"b\":2}\r"]);
}

#[tokio::test]
async fn a_last_line_without_a_newline_counts() {
    let left = Lab::new().await.sh(r#"printf "{\"a\":1}\n{\"b\":2}""#).await;
    left.result.as_ref().unwrap();
    assert_eq!(left.texts(), ["{\"a\":1}", "{\"b\":2}"]);
}

#[tokio::test]
async fn no_output_is_no_record() {
    let left = Lab::new().await.sh("exit 0").await;
    left.result.as_ref().unwrap();
    assert!(left.lines.is_empty());
}

#[tokio::test]
async fn a_line_that_comes_in_pieces_is_joined() {
    // Each piece is read before the next one is written: the pipe would tell a joined line from two.
    let script = r#"for piece in "{" "\"a\"" ":" "1" "}"; do printf "%s" "$piece"; sleep 0.02; done; echo; echo "{}""#;
    let left = Lab::new().await.sh(script).await;
    left.result.as_ref().unwrap();
    assert_eq!(left.texts(), ["{\"a\":1}", "{}"]);
}

#[tokio::test]
async fn binary_garbage_comes_through_byte_for_byte() {
    let lab = Lab::new().await;
    let mut garbage = Vec::new();
    let mut state = 1_u32;
    while garbage.len() < 3_000_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        garbage.extend_from_slice(&state.to_be_bytes());
    }
    let file = lab.path().join("garbage");
    fs::write(&file, &garbage).unwrap();
    let left = lab.extract(&format!("kind = 'command'\ncommand = ['cat', '{}']", file.display())).await;
    left.result.as_ref().unwrap();
    let lines = garbage.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    assert!(left.lines.iter().eq(lines));
}

#[tokio::test]
async fn a_line_as_long_as_a_record_may_be_is_kept_and_a_longer_one_is_refused() {
    let line = |bytes: usize| format!("echo \"{{}}\"; head -c {bytes} /dev/zero | tr \"\\0\" x; echo; echo \"{{}}\"");
    let left = Lab::new().await.sh(&line(MAX_RECORD_BYTES)).await;
    left.result.as_ref().unwrap();
    assert_eq!(left.lines.iter().map(Vec::len).collect::<Vec<_>>(), [2, MAX_RECORD_BYTES, 2]);
    for bytes in [MAX_RECORD_BYTES + 1, MAX_RECORD_BYTES * 4] {
        let left = Lab::new().await.sh(&line(bytes)).await;
        let failure = left.failure();
        assert_eq!(failure.class, ErrorClass::Final, "{bytes}");
        assert_eq!(failure.message, "record 2 is longer than 4 MiB; split it at the source", "{bytes}");
    }
}

#[tokio::test]
async fn a_line_without_an_end_does_not_fill_the_memory() {
    let left = Lab::new().await.extract("kind = 'command'\ncommand = ['cat', '/dev/zero']").await;
    assert!(left.failure().message.starts_with("record 1 is longer than"), "{:?}", left.result);
}

/// The highest that this process's memory has ever been, in bytes. nextest gives each test a process of its own.
#[cfg(target_os = "linux")]
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn two_hundred_megabytes_pass_in_bounded_memory() {
    let lab = Lab::new().await;
    let script = r#"line=$(head -c 2000 /dev/zero | tr "\0" x); yes "{\"a\":\"$line\"}" | head -n 100000"#;
    let extractor = crate::lab::build(&crate::lab::shell(script)).unwrap();
    let mut records = lab.records();
    let before = peak_memory();
    extractor.extract(&lab.job, &mut records).await.unwrap();
    let grown = peak_memory() - before;
    assert_eq!(records.count(), 100_000);
    assert!(grown < 64 << 20, "{} MiB more", grown >> 20);
}
