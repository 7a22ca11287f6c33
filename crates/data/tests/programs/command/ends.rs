//! How programs end, and what that means.

use std::time::Duration;

use redrive_core::classify;
use redrive_core::failure::ErrorClass;
use redrive_data::extract::{Failure, Scope};

use crate::lab::{Lab, shell};

async fn failure(script: &str) -> Failure {
    let left = Lab::new().await.sh(script).await;
    left.failure().clone()
}

#[tokio::test]
async fn exit_code_0_is_done() {
    let left = Lab::new().await.sh(r#"echo boom >&2; echo "{}"; exit 0"#).await;
    left.result.as_ref().unwrap();
    assert_eq!(left.lines, [b"{}"]);
}

#[tokio::test]
async fn every_other_exit_code_is_classified_and_named() {
    for code in [1, 2, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 126, 127, 128, 255] {
        let failure = failure(&format!("echo '{{}}'; echo why >&2; exit {code}").replace('\'', "\"")).await;
        let expected = Failure::new(classify::exit_code(code), format!("/bin/sh ended with exit code {code}: why"));
        assert_eq!(failure, expected);
    }
}

#[tokio::test]
async fn a_signal_may_pass_and_is_named() {
    for (signal, name) in [(9, "SIGKILL"), (15, "SIGTERM"), (11, "SIGSEGV")] {
        let failure = failure(&format!("ulimit -c 0; kill -{signal} $$")).await;
        let told = format!("/bin/sh was ended by signal {signal} ({name}): it said nothing on stderr");
        assert_eq!(failure, Failure::retryable(told));
    }
}

#[tokio::test]
async fn the_last_line_of_stderr_says_it_exactly() {
    let said = failure(
        r#"echo starting >&2
        echo "{\"error_class\":\"rate_limited\",\"retry_after\":2.5,\"message\":\"too fast\",\"scope\":\"source\"}" >&2
        echo >&2
        exit 78"#,
    );
    let expected = Failure::rate_limited("too fast", Some(Duration::from_millis(2500))).of_source();
    assert_eq!(said.await, expected);
    let whole = failure(r#"echo "{\"error_class\":\"final\",\"message\":\"gone\"}" >&2; exit 75"#).await;
    assert_eq!((whole.class, whole.scope, whole.retry_after), (ErrorClass::Final, Scope::Customer, None));
    let mute = failure(r#"echo "{\"error_class\":\"final\"}" >&2; exit 75"#).await;
    assert_eq!(mute, Failure::fatal("/bin/sh ended with exit code 75: it gave no message"));
}

#[tokio::test]
async fn a_time_to_wait_that_is_none_is_told_with_the_rest() {
    let wait = |told: &str| {
        format!(
            r#"printf "%s" "{{\"error_class\":\"rate_limited\",\"retry_after\":{told},\"message\":\"slow\"}}" >&2; exit 1"#
        )
    };
    let text = failure(&wait(r#"\"30\""#)).await;
    assert_eq!(text, Failure::rate_limited("slow", Some(Duration::from_secs(30))));
    let odd = failure(&wait(r#"\"soon\""#)).await;
    let told = r#"slow (its retry_after, "soon", is no number of seconds)"#;
    assert_eq!(odd, Failure::rate_limited(told, None));
    let endless = failure(&wait("1e12")).await;
    assert_eq!(endless.retry_after, Some(Duration::from_secs(86_400)), "a hint holds a day at the most");
}

#[tokio::test]
async fn an_unknown_class_or_a_line_that_is_not_the_last_leaves_it_to_the_exit_code() {
    let unknown = failure(r#"echo "{\"error_class\":\"fatal\",\"message\":\"m\"}" >&2; exit 77"#).await;
    assert_eq!(unknown.class, ErrorClass::Final);
    assert!(unknown.message.contains("exit code 77"), "{unknown}");
    let earlier = failure(r#"echo "{\"error_class\":\"final\"}" >&2; echo bye >&2; exit 75"#).await;
    assert_eq!(earlier.class, ErrorClass::Retryable);
}

#[tokio::test]
async fn the_message_has_the_last_lines_of_stderr_without_colours_and_is_bounded() {
    let said = failure(r#"for i in 1 2 3 4 5; do printf "\033[31mline $i\033[0m\n" >&2; done; exit 1"#).await;
    assert_eq!(said.message, "/bin/sh ended with exit code 1: line 3 | line 4 | line 5");
    let long = failure("head -c 300000 /dev/zero | tr '\\0' x >&2; exit 1".replace('\'', "\"").as_str()).await;
    assert!(long.message.len() <= 2048 && long.message.contains("xxx"), "{} bytes", long.message.len());
}

#[tokio::test]
async fn much_talk_on_stderr_does_not_block_the_output() {
    let script = r#"head -c 3000000 /dev/zero >&2; echo "{}"; head -c 3000000 /dev/zero >&2"#;
    let left = Lab::new().await.sh(script).await;
    left.result.as_ref().unwrap();
    assert_eq!(left.lines, [b"{}"]);
}

#[tokio::test]
async fn what_came_before_a_failure_is_kept_for_inspection() {
    let left = Lab::new().await.sh(r#"echo "{}"; exit 1"#).await;
    assert_eq!((left.result.is_err(), left.lines.len()), (true, 1));
}

/// Runs a program that has the secret in `$KEY`.
async fn failure_with_key(secret: &str, script: &str) -> Failure {
    let lab = Lab::new().await;
    let file = lab.path().join("key");
    std::fs::write(&file, secret).unwrap();
    let settings = format!("{}env = {{ KEY = {{ file = {:?} }} }}\n", shell(script), file.display().to_string());
    lab.extract(&settings).await.failure().clone()
}

#[tokio::test]
async fn a_secret_of_several_lines_is_not_told() {
    let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\nkort\n-----END KEY-----\n";
    for script in [
        r#"echo "$KEY" >&2; exit 1"#,
        r#"echo bad >&2; echo "$KEY" | sed -n 2,3p >&2; exit 1"#,
        r#"printf "{\"error_class\":\"final\",\"message\":\"bad %s\"}" "$(echo "$KEY" | sed "s/\$/\\\\n/" | tr -d "\n")" >&2; exit 1"#,
    ] {
        let told = failure_with_key(key, script).await.message;
        assert!(told.contains("***"), "{told}");
        for line in key.lines() {
            assert!(!told.contains(line), "{told}");
        }
    }
}

#[tokio::test]
async fn half_a_secret_is_not_told() {
    let key = "s3cr3t-t0ken-that-is-long";
    let script = r#"printf "%0100d%s%065524d" 0 "$KEY" 0 >&2; exit 1"#;
    let told = failure_with_key(key, script).await.message;
    assert!(told.contains("exit code 1: …***000"), "{told}");
}
