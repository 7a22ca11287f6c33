//! What stands in the sink and is not the sink's: markers of other sinks, links, pipes, and what dead writers left.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use redrive_store::raw::{Error, RawSink, RunHeader};

use crate::lab::{Lab, attempt, key, write};

/// A database knows its sink again, wherever it lies, and takes no other for it.
pub async fn a_sink_is_known_by_its_marker(lab: Lab) {
    let first = RawSink::open_known(&lab.url, &lab.options, None).await.unwrap();
    let id = first.id().unwrap();
    assert_eq!(lab.objects().await, ["_redrive_sink.json"]);
    let again = RawSink::open_known(&lab.url, &lab.options, Some(id)).await.unwrap();
    assert_eq!(again.id(), Some(id));
    write(&again, attempt(&key("1"), 1), &["{}"]).await.unwrap();
    // A database that knows none takes the one that is there.
    assert_eq!(RawSink::open_known(&lab.url, &lab.options, None).await.unwrap().id(), Some(id));

    let marker = lab.read("_redrive_sink.json").await;
    let other = String::from_utf8(marker).unwrap().replace(&id.to_string(), "019a0000-0000-7000-8000-000000000001");
    lab.overwrite("_redrive_sink.json", other.into_bytes()).await;
    assert!(matches!(again.check().await, Err(Error::OtherSink { .. })));
    assert!(matches!(again.check_marker().await, Err(Error::OtherSink { .. })));
    lab.overwrite("_redrive_sink.json", b"{".to_vec()).await;
    assert!(matches!(again.check_marker().await, Err(Error::Marker { .. })));
    lab.remove("_redrive_sink.json").await;
    let error = RawSink::open_known(&lab.url, &lab.options, Some(id)).await.unwrap_err();
    assert!(matches!(error, Error::NoSink { .. }), "{error}");
    assert!(error.to_string().contains("adopt the place as it is"), "{error}");
    assert!(matches!(again.view().check_marker(id).await, Err(Error::NoSink { .. })));
}

/// A volume that is gone leaves nothing, or the empty directory that it was mounted on.
#[tokio::test]
async fn a_directory_that_is_gone_is_not_made_anew() {
    let lab = Lab::files();
    let sink = RawSink::open_known(&lab.url, &lab.options, None).await.unwrap();
    for is_mount_point in [false, true] {
        std::fs::remove_dir_all(lab.root()).unwrap();
        if is_mount_point {
            std::fs::create_dir(lab.root()).unwrap();
        }
        let error = write(&sink, attempt(&key("1"), 1), &["{}"]).await.unwrap_err();
        assert!(matches!(error, Error::NoSink { .. }), "{error}");
        assert!(sink.check().await.is_err());
        let error = RawSink::open_known(&lab.url, &lab.options, sink.id()).await.unwrap_err();
        assert!(matches!(error, Error::NoSink { .. }), "{error}");
        assert_eq!(lab.root().exists(), is_mount_point);
        assert!(!is_mount_point || lab.objects().await.is_empty());
        std::fs::create_dir_all(lab.root()).unwrap();
    }
}

#[tokio::test]
async fn a_link_is_not_followed() {
    let lab = Lab::files();
    let (sink, elsewhere) = (lab.sink().await, tempfile::tempdir().unwrap());
    symlink(elsewhere.path(), lab.root().join("source=ads")).unwrap();
    let header = attempt(&key("1"), 1);
    let error = write(&sink, header.clone(), &["{}"]).await.unwrap_err();
    assert!(error.to_string().contains("symbolic link"), "{error}");
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0, "nothing was written there");
    let error = sink.view().manifest(&header.key, header.run_id).await.unwrap_err();
    assert!(error.to_string().contains("symbolic link"), "{error}");
}

#[tokio::test]
async fn a_pipe_in_place_of_a_manifest_is_refused_and_not_read_for_ever() {
    let lab = Lab::files();
    let sink = lab.sink().await;
    let header = attempt(&key("1"), 1);
    write(&sink, header.clone(), &["{}"]).await.unwrap();
    let manifest = lab.objects().await.into_iter().find(|name| name.ends_with("_manifest.json")).unwrap();
    lab.remove(&manifest).await;
    assert!(Command::new("mkfifo").arg(lab.root().join(&manifest)).status().unwrap().success());
    let view = sink.view();
    let read = tokio::time::timeout(Duration::from_secs(20), view.manifest(&header.key, header.run_id)).await;
    let error = read.expect("it waits for a writer").unwrap_err();
    assert!(error.to_string().contains("no regular file"), "{error}");
}

#[tokio::test]
async fn what_a_dead_writer_had_not_finished_is_removed_and_nothing_else() {
    let lab = Lab::files();
    let sink = lab.sink().await;
    let header = attempt(&key("1"), 1);
    write(&sink, header.clone(), &["{}"]).await.unwrap();
    let before = lab.objects().await;
    let directory = lab.root().join(&before[0]).parent().unwrap().to_owned();
    std::fs::write(directory.join("part-00001.jsonl.zst#1"), "half").unwrap();
    let alive = std::fs::File::create(directory.join("part-00001.jsonl.zst#2")).unwrap();
    alive.lock().unwrap();
    assert_eq!(sink.clear_staged(&header.key, header.run_id).await.unwrap(), 1);
    assert!(directory.join("part-00001.jsonl.zst#2").exists(), "its writer lives");
    drop(alive);
    assert_eq!(sink.clear_staged(&header.key, header.run_id).await.unwrap(), 1);
    assert_eq!(lab.objects().await, before);
    assert_eq!(sink.clear_staged(&key("2"), header.run_id).await.unwrap(), 0, "nothing is there");
}

#[tokio::test]
async fn what_a_dead_writer_left_of_a_whole_directory_is_no_run_and_is_removed() {
    let lab = Lab::files();
    let sink = lab.sink().await;
    let (dead, other) = (attempt(&key("1"), 1), attempt(&key("1"), 2));
    write(&sink, other.clone(), &["{}"]).await.unwrap();
    let before = lab.objects().await;
    let day = lab.root().join(&before[0]).parent().unwrap().parent().unwrap().to_owned();
    let staged = |header: &RunHeader, number| day.join(format!(".run_id={}#{number}", header.run_id));
    for left in [staged(&dead, 1), staged(&dead, 2), staged(&other, 1)] {
        std::fs::create_dir(&left).unwrap();
        std::fs::write(left.join("part-00000.jsonl.zst"), "half").unwrap();
    }
    let view = sink.view();
    assert_eq!(view.manifest(&dead.key, dead.run_id).await.unwrap(), None);
    let alive = std::fs::File::open(staged(&dead, 2)).unwrap();
    alive.lock().unwrap();
    assert_eq!(sink.clear_staged(&dead.key, dead.run_id).await.unwrap(), 1);
    assert!(!staged(&dead, 1).exists() && staged(&dead, 2).exists() && staged(&other, 1).exists());
    drop(alive);
    assert_eq!(sink.clear_staged(&dead.key, dead.run_id).await.unwrap(), 1);
    assert_eq!(sink.clear_staged(&other.key, other.run_id).await.unwrap(), 1);
    assert_eq!(lab.objects().await, before);
}

#[tokio::test]
async fn a_day_that_holds_only_an_unfinished_directory_has_no_run() {
    let lab = Lab::files();
    let sink = lab.sink().await;
    let header = attempt(&key("1"), 1);
    write(&sink, header.clone(), &["{}"]).await.unwrap();
    let run = lab.root().join(&lab.objects().await[0]).parent().unwrap().to_owned();
    assert!(sink.view().has_any(&header.key).await.unwrap());
    std::fs::rename(&run, run.with_file_name(format!(".run_id={}#1", header.run_id))).unwrap();
    assert!(!sink.view().has_any(&header.key).await.unwrap());
}
