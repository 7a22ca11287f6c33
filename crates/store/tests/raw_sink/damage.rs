//! What was changed behind the sink's back is found, and named.

use futures_util::StreamExt as _;
use redrive_store::raw::{Damage, Error, Manifest, RawView, RunOutcome};

use crate::lab::{Lab, attempt, key, later, lines, long_line};

/// A run of three parts, and the name of its second.
async fn three_parts(lab: &Lab) -> (RawView, Manifest, String) {
    let sink = lab.sink_of_small_parts().await;
    let mut writer = sink.begin(attempt(&key("1"), 1));
    for n in 0..250 {
        writer.write_line(long_line(n, 10_000).as_bytes()).await.unwrap();
    }
    let manifest = writer.finish(RunOutcome::Complete, later()).await.unwrap();
    assert_eq!(manifest.parts.len(), 3);
    sink.view().verify(&manifest).await.unwrap();
    let second = lab.objects().await.into_iter().find(|name| name.ends_with("part-00001.jsonl.zst")).unwrap();
    (sink.view(), manifest, second)
}

async fn damage(view: &RawView, manifest: &Manifest) -> Damage {
    match view.verify(manifest).await {
        Err(Error::Damaged(damage)) => {
            assert!(!damage.to_string().contains('\n'), "{damage}");
            damage
        }
        other => panic!("{other:?}"),
    }
}

pub async fn a_flipped_byte_is_found(lab: Lab) {
    let (view, manifest, second) = three_parts(&lab).await;
    let whole = lab.read(&second).await;
    for at in [0, whole.len() / 2, whole.len() - 1] {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        lab.overwrite(&second, flipped).await;
        let damage = damage(&view, &manifest).await;
        assert!(matches!(&damage, Damage::Hash { object, .. } if object.ends_with(&second)), "{damage}");
    }
    lab.overwrite(&second, whole).await;
    view.verify(&manifest).await.unwrap();
}

pub async fn a_missing_part_is_found(lab: Lab) {
    let (view, manifest, second) = three_parts(&lab).await;
    lab.remove(&second).await;
    let damage = damage(&view, &manifest).await;
    assert!(matches!(&damage, Damage::Missing { object } if object.ends_with(&second)), "{damage}");
}

pub async fn a_shortened_part_is_found(lab: Lab) {
    let (view, manifest, second) = three_parts(&lab).await;
    let mut short = lab.read(&second).await;
    short.pop();
    lab.overwrite(&second, short).await;
    let damage = damage(&view, &manifest).await;
    assert!(matches!(&damage, Damage::Size { object, .. } if object.ends_with(&second)), "{damage}");
}

pub async fn a_forged_part_is_found_by_its_hash_before_any_line_is_read(lab: Lab) {
    let sink = lab.sink().await;
    let mut manifests = Vec::new();
    for (n, line) in [(1, "{\"cost\":1.50}"), (2, "{\"cost\":9.99}")] {
        let mut writer = sink.begin(attempt(&key("1"), n));
        writer.write_line(line.as_bytes()).await.unwrap();
        manifests.push(writer.finish(RunOutcome::Complete, later()).await.unwrap());
    }
    let parts: Vec<String> = lab.objects().await.into_iter().filter(|name| name.ends_with(".zst")).collect();
    // As long, as many records, well compressed: only the hash is wrong.
    let forged = lab.read(&parts[1]).await;
    lab.overwrite(&parts[0], forged).await;
    let view = sink.view();
    assert!(matches!(damage(&view, &manifests[0]).await, Damage::Hash { .. }));
    let first = view.lines(&manifests[0]).next().await.unwrap();
    assert!(matches!(first, Err(Error::Damaged(Damage::Hash { .. }))), "{first:?}");
    assert_eq!(lines(&view, &manifests[1]).await, ["{\"cost\":9.99}"]);
}

pub async fn wrong_counts_are_found(lab: Lab) {
    let (view, manifest, second) = three_parts(&lab).await;
    let mut total = manifest.clone();
    total.records += 1;
    let damage_of_total = damage(&view, &total).await;
    assert!(
        matches!(damage_of_total, Damage::Count { unit: "records", expected: 251, found: 250, .. }),
        "{damage_of_total}"
    );

    for unit in ["records", "bytes"] {
        let mut moved = manifest.clone();
        let count = |manifest: &mut Manifest, part: usize, change: i64| {
            let part = &mut manifest.parts[part];
            let count = if unit == "records" { &mut part.records } else { &mut part.bytes };
            *count = count.checked_add_signed(change).unwrap();
        };
        count(&mut moved, 1, 1);
        count(&mut moved, 2, -1);
        let damage = damage(&view, &moved).await;
        assert!(
            matches!(&damage, Damage::Count { object, unit: u, .. } if object.ends_with(&second) && *u == unit),
            "{damage}"
        );
    }
}

pub async fn a_manifest_of_a_later_format_is_named(lab: Lab) {
    let (view, manifest, _) = three_parts(&lab).await;
    let name = lab.objects().await.into_iter().find(|name| name.ends_with("_manifest.json")).unwrap();
    let json = String::from_utf8(lab.read(&name).await).unwrap();
    lab.overwrite(&name, json.replace("\"format\": 1", "\"format\": 2").into_bytes()).await;
    let error = view.manifest(&manifest.key, manifest.run_id).await.unwrap_err();
    assert!(
        matches!(error, Error::Format { format: 2, .. }) && error.to_string().ends_with("upgrade redrive"),
        "{error}"
    );
    lab.overwrite(&name, b"{\"format\":".to_vec()).await;
    let error = view.manifest(&manifest.key, manifest.run_id).await.unwrap_err();
    assert!(matches!(error, Error::Manifest { .. }), "{error}");
}
