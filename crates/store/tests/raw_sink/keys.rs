//! No key leaves the sink, and no two keys meet in it.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::key::PartitionKey;
use redrive_store::raw::Error;

use crate::lab::{Lab, attempt, key, lines, write};

fn hostile() -> Vec<String> {
    let plain = [
        "../../x",
        "a/b",
        "a",
        "b",
        "x",
        ".",
        "..",
        "...",
        "%2e",
        "%2E",
        "%",
        "%25",
        ".hidden",
        "a.",
        "a ",
        " a",
        "a+b",
        "a b",
        "CON",
        "con",
        "Con",
        "nul",
        "ACME",
        "acme",
        "Acme",
        "\u{e9}",
        "e\u{301}",
        "\u{c9}",
        "🦀",
        "~",
        "a~b",
        "#1",
        "a#1",
        "a=b",
        "C:\\x",
        "\\",
        "*?",
        "\u{feff}a",
        "\u{202e}a",
        "ﬀ",
        "ff",
        "ſ",
        "s",
        "K",
        "\u{212a}",
        "-",
        "_",
        "_manifest.json",
    ];
    let mut values: Vec<String> = plain.map(str::to_owned).into();
    values.extend(["é".repeat(128), "é".repeat(127) + "e\u{301}"[..1].repeat(2).as_str(), "🦀".repeat(64)]);
    values.extend(["a".repeat(256), "A".repeat(256), "a".repeat(255) + ".", "/".repeat(256)]);
    // The long form of another value, as a value.
    values.push(format!("{}~{}", "a".repeat(64), redrive_store::raw::Sha256::of("a".repeat(256).as_bytes())));
    values
}

pub async fn hostile_keys_have_directories_of_their_own(lab: Lab) {
    let sink = lab.sink().await;
    let values = hostile();
    let mut written = BTreeMap::new();
    for (value, n) in values.iter().zip(1..) {
        for key in [
            PartitionKey::new(value, "c", "q", "2026-01-31").unwrap(),
            PartitionKey::new("s", value, "q", "2026-01-31").unwrap(),
            PartitionKey::new("s", "c", value, "2026-01-31").unwrap(),
            PartitionKey::new(value, value, value, "2026-01-31").unwrap(),
        ] {
            let manifest = write(&sink, attempt(&key, n), &["{}"]).await.unwrap();
            assert_eq!(sink.view().manifest(&key, manifest.run_id).await.unwrap().as_ref(), Some(&manifest));
            written.insert(key, manifest.run_id);
        }
    }
    for (key, run_id) in &written {
        assert!(sink.view().has_any(key).await.unwrap(), "{key}");
        assert!(sink.view().manifest(key, *run_id).await.unwrap().is_some(), "{key}");
    }

    let objects = lab.objects().await;
    assert_eq!(objects.len(), 2 * written.len(), "a part and a manifest each, and all inside the sink");
    let mut partitions = BTreeSet::new();
    for object in &objects {
        let steps: Vec<&str> = object.split('/').collect();
        let [source, customer, query, date, run, _] = steps[..] else { panic!("{object}") };
        for (step, field) in [source, customer, query, date, run].iter().zip([
            "source",
            "customer_id",
            "query_name",
            "logical_date",
            "run_id",
        ]) {
            assert!(
                step.strip_prefix(field).is_some_and(|rest| rest.starts_with('=')) && step.len() <= 255,
                "{object}"
            );
        }
        partitions.insert(object.rsplit_once("/run_id=").unwrap().0.to_lowercase());
    }
    assert_eq!(partitions.len(), written.len(), "distinct even where case is ignored");
}

pub async fn runs_and_partitions_are_told_apart(lab: Lab) {
    let sink = lab.sink_of_small_parts().await;
    let view = sink.view();
    assert!(!view.has_any(&key("1")).await.unwrap());
    let mut written = Vec::new();
    for n in [3, 1, 2] {
        written.push(write(&sink, attempt(&key("1"), n), &["{}", "{}"]).await.unwrap());
    }
    for manifest in &written {
        assert_eq!(view.manifest(&key("1"), manifest.run_id).await.unwrap().as_ref(), Some(manifest));
    }
    assert!(view.has_any(&key("1")).await.unwrap());
    // "1" is the beginning of "11", and the days differ in their last digit.
    assert!(!view.has_any(&key("11")).await.unwrap());
    let other_day = PartitionKey { logical_date: "2026-01-30".parse().unwrap(), ..key("1") };
    assert!(!view.has_any(&other_day).await.unwrap());
    assert_eq!(view.manifest(&other_day, written[0].run_id).await.unwrap(), None);

    // What is not a run is not taken for one.
    let odd = key("odd");
    write(&sink, attempt(&odd, 1), &["{}"]).await.unwrap();
    let name = lab
        .objects()
        .await
        .into_iter()
        .find(|name| name.contains("customer_id=odd") && name.ends_with("json"))
        .unwrap();
    let partition = name.split("/run_id=").next().unwrap();
    lab.overwrite(&format!("{partition}/.DS_Store"), b"x".to_vec()).await;
    assert!(view.has_any(&odd).await.unwrap());
    for object in lab.objects().await.into_iter().filter(|name| name.starts_with(&format!("{partition}/run_id="))) {
        lab.remove(&object).await;
    }
    assert!(!view.has_any(&odd).await.unwrap(), "what else lies there is no run");
    let run = write(&sink, attempt(&odd, 1), &["{}"]).await.unwrap();
    assert_eq!(lines(&view, &run).await, ["{}"]);
}

pub async fn a_manifest_of_another_partition_is_refused(lab: Lab) {
    let sink = lab.sink().await;
    let manifest = write(&sink, attempt(&key("1"), 1), &["{}"]).await.unwrap();
    write(&sink, attempt(&key("2"), 1), &["{}"]).await.unwrap();
    let names: Vec<String> = lab.objects().await.into_iter().filter(|name| name.ends_with("_manifest.json")).collect();
    let other = lab.read(&names[1]).await;
    lab.overwrite(&names[0], other).await;
    let error = sink.view().manifest(&key("1"), manifest.run_id).await.unwrap_err();
    assert!(matches!(error, Error::Manifest { .. }) && error.to_string().contains("ads/2/campaign_daily"), "{error}");
}
