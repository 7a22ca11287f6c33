//! A sink that cannot work says so when it is opened, in one line; and what only a directory can show.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;

use redrive_fixture::S3;
use redrive_store::raw::{Error, Problem, RawOptions, RawSink, RawUrl, RawView, RunOutcome, S3Options};

use crate::lab::{Lab, attempt, key, later, lines, long_line, settings, write};

async fn refusal(url: &str, options: &RawOptions) -> (Problem, String) {
    let url: RawUrl = url.parse().unwrap();
    let error = RawSink::open(&url, options).await.unwrap_err();
    let text = error.to_string();
    assert!(!text.contains('\n') && text.len() < 400 && text.contains(&url.to_string()), "{text}");
    (error.problem().unwrap_or_else(|| panic!("{text}")).clone(), text)
}

#[tokio::test]
async fn a_directory_below_a_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    for url in [format!("file:{}", file.display()), format!("file:{}/raw", file.display())] {
        let (_, text) = refusal(&url, &RawOptions::default()).await;
        assert!(text.contains("cannot write to"), "{text}");
    }
    assert_eq!(
        refusal(&format!("file:{}/raw", file.display()), &RawOptions::default()).await.0,
        Problem::NotADirectory
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_directory_that_cannot_be_written_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let binds = fs::write(dir.path().join("probe"), "").is_err();
    // Permissions do not bind root; the kernel's own file system refuses even root.
    let url = if binds { format!("file:{}", dir.path().display()) } else { "file:/sys/kernel".to_owned() };
    if !binds && !Path::new("/sys/kernel").exists() {
        return;
    }
    let (problem, text) = refusal(&url, &RawOptions::default()).await;
    assert!(matches!(problem, Problem::Denied | Problem::ReadOnly), "{text}");
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_is_refused_soon() {
    for endpoint in ["http://127.0.0.1:1", "https://127.0.0.1:1"] {
        let vars = [
            ("AWS_ENDPOINT_URL", endpoint),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "k"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
        ];
        let options = RawOptions { s3: S3Options::from_vars(vars), ..RawOptions::default() };
        let begun = std::time::Instant::now();
        let (problem, text) = refusal("s3://lake/raw", &options).await;
        assert!(matches!(&problem, Problem::Unreachable(why) if why.contains("refused")), "{text}");
        assert!(begun.elapsed().as_secs() < 10);
    }
}

#[tokio::test]
async fn a_bucket_that_does_not_exist_is_refused() {
    let bucket = S3::shared().fresh_bucket();
    let options = RawOptions { s3: settings(&bucket), ..RawOptions::default() };
    let (problem, _) = refusal(&format!("s3://{}-not/raw", bucket.name), &options).await;
    assert_eq!(problem, Problem::NoBucket);
}

#[tokio::test]
async fn a_bucket_that_disappears_is_not_taken_for_an_empty_one() {
    let bucket = S3::shared().fresh_bucket();
    let url: RawUrl = format!("s3://{}", bucket.name).parse().unwrap();
    let view = RawView::open(&url, &settings(&bucket)).await.unwrap();
    assert_eq!(view.manifest(&key("1"), attempt(&key("1"), 1).run_id).await.unwrap(), None);

    let address = bucket.endpoint.strip_prefix("http://").unwrap();
    let mut server = std::net::TcpStream::connect(address).unwrap();
    write!(server, "DELETE /{} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n", bucket.name).unwrap();
    let mut answer = String::new();
    server.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");

    let error = view.manifest(&key("1"), attempt(&key("1"), 1).run_id).await.unwrap_err();
    assert_eq!(error.problem(), Some(&Problem::NoBucket), "{error}");
    let error = view.has_any(&key("1")).await.unwrap_err();
    assert_eq!(error.problem(), Some(&Problem::NoBucket), "{error}");
}

#[tokio::test]
async fn a_view_of_a_directory_nobody_made_is_empty_and_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let url: RawUrl = format!("file://{}/not/yet", dir.path().display()).parse().unwrap();
    let view = RawView::open(&url, &S3Options::default()).await.unwrap();
    assert!(!view.has_any(&key("1")).await.unwrap());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);

    let manifest =
        write(&RawSink::open(&url, &RawOptions::default()).await.unwrap(), attempt(&key("1"), 1), &["{}"]).await;
    assert_eq!(lines(&view, &manifest.unwrap()).await, ["{}"], "the view sees what is written later");
    assert_eq!(fs::read_dir(dir.path().join("not/yet")).unwrap().count(), 1, "and the probe is gone");
}

#[tokio::test]
async fn a_directory_that_becomes_unwritable_is_named_by_the_write() {
    let lab = Lab::files();
    let sink = lab.sink().await;
    fs::write(lab.root().join("source=ads"), "in the way").unwrap();
    let error = write(&sink, attempt(&key("1"), 1), &["{}"]).await.unwrap_err();
    assert_eq!(error.problem(), Some(&Problem::NotADirectory), "{error}");
    assert!(error.to_string().contains("part-00000.jsonl.zst"), "{error}");
}

#[tokio::test]
async fn a_relative_directory_with_parents_is_resolved() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/raw")).unwrap();
    let url: RawUrl = format!("file:{}/a/../a/raw", dir.path().display()).parse().unwrap();
    write(&RawSink::open(&url, &RawOptions::default()).await.unwrap(), attempt(&key("1"), 1), &["{}"]).await.unwrap();
    assert!(dir.path().join("a/raw/source=ads").is_dir());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn two_hundred_megabytes_do_not_pile_up() {
    let lab = Lab::files();
    let sink = lab.sink_of_small_parts().await;
    let mut writer = sink.begin(attempt(&key("1"), 1));
    let different: Vec<String> = (0..500).map(|n| long_line(n, 9_980)).collect();
    for line in different.iter().cycle().take(20_000) {
        writer.write_line(line.as_bytes()).await.unwrap();
    }
    let manifest = writer.finish(RunOutcome::Complete, later()).await.unwrap();
    assert!(manifest.bytes >= 199_000_000, "{}", manifest.bytes);
    assert!((180..=200).contains(&manifest.parts.len()), "{}", manifest.parts.len());
    let compressed: u64 = manifest.parts.iter().map(|part| part.compressed_bytes).sum();
    let most = peak_memory();
    assert!(compressed > 90 << 20 && most < 80 << 20, "{compressed} bytes were written with {most} bytes of memory");
    assert_eq!(fs::read_dir(lab.root()).unwrap().count(), 1);
}

/// The most that this process has had in memory.
#[cfg(target_os = "linux")]
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[tokio::test]
async fn a_staging_file_of_a_crash_is_not_data() {
    let lab = Lab::files();
    let sink = lab.sink().await;
    let manifest = write(&sink, attempt(&key("1"), 1), &["{}"]).await.unwrap();
    let part = lab.objects().await.into_iter().find(|name| name.ends_with(".zst")).unwrap();
    fs::write(lab.root().join(format!("{part}#1")), "half").unwrap();
    let again = write(&sink, attempt(&key("1"), 1), &["{}"]).await.unwrap();
    assert_eq!(again, manifest);
    assert!(matches!(sink.view().verify(&manifest).await, Ok::<(), Error>(())));
}
