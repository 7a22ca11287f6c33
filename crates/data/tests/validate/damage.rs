//! What differs from what was written rejects the attempt, and says how.

use redrive_data::validate::Rules;
use redrive_store::raw::{Manifest, RunOutcome, Sha256};

use crate::lab::{Lab, rules, verdict};

const PART: &str = "part-00001.jsonl.zst";

/// An attempt in several parts whose records would all pass.
async fn in_parts() -> (Lab, Manifest) {
    let lab = Lab::new().await;
    let lines: Vec<String> = (0..300_u64).map(|n| format!("{{\"id\":{n},\"pad\":\"{}\"}}", noise(n))).collect();
    let lines: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
    let manifest = lab.write(&lines, RunOutcome::Complete).await;
    assert!(manifest.parts.len() > 2);
    assert_eq!(verdict(lab.verdict(&Rules::default()).await), Ok(300));
    (lab, manifest)
}

fn noise(seed: u64) -> String {
    let mut word = seed + 1;
    let words = std::iter::repeat_with(move || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        format!("{word:016x}")
    });
    words.take(600).collect()
}

async fn told(lab: &Lab) -> String {
    let told = verdict(lab.verdict(&Rules::default()).await).unwrap_err();
    let with_rules = verdict(lab.verdict(&rules(r#"{"min_records":1000,"unique":["id"]}"#)).await).unwrap_err();
    assert_eq!(told, with_rules, "damage is told alone");
    told
}

#[tokio::test]
async fn a_missing_part_is_told() {
    let (lab, _) = in_parts().await;
    std::fs::remove_file(lab.file(PART)).unwrap();
    let told = told(&lab).await;
    assert!(told.contains(&format!("{PART} is missing")), "{told}");
}

#[tokio::test]
async fn a_part_of_another_size_is_told() {
    let (lab, _) = in_parts().await;
    let mut bytes = std::fs::read(lab.file(PART)).unwrap();
    bytes.pop();
    std::fs::write(lab.file(PART), bytes).unwrap();
    let told = told(&lab).await;
    assert!(told.contains(&format!("{PART} has ")) && told.contains("bytes and the manifest says"), "{told}");
}

#[tokio::test]
async fn a_flipped_bit_is_told() {
    let (lab, _) = in_parts().await;
    let mut bytes = std::fs::read(lab.file(PART)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(lab.file(PART), bytes).unwrap();
    let told = told(&lab).await;
    assert!(told.contains(&format!("{PART} has sha256")), "{told}");
}

#[tokio::test]
async fn a_part_that_is_not_zstd_is_told() {
    let (lab, mut manifest) = in_parts().await;
    let garbage = b"{\"id\":1}\n";
    std::fs::write(lab.file(PART), garbage).unwrap();
    manifest.parts[1].sha256 = Sha256::of(garbage);
    manifest.parts[1].compressed_bytes = 9;
    lab.forge(&manifest);
    let told = told(&lab).await;
    assert!(told.contains(&format!("{PART} is not zstd")), "{told}");
}

#[tokio::test]
async fn counts_that_are_wrong_are_told() {
    let (lab, manifest) = in_parts().await;
    let mut part = manifest.clone();
    part.parts[1].records += 1;
    part.records += 1;
    lab.forge(&part);
    let message = told(&lab).await;
    assert!(message.contains(&format!("{PART} holds")) && message.contains("records"), "{message}");

    let mut part = manifest.clone();
    part.parts[1].bytes -= 1;
    part.bytes -= 1;
    lab.forge(&part);
    let message = told(&lab).await;
    assert!(message.contains(&format!("{PART} holds")) && message.contains("bytes"), "{message}");
}

#[tokio::test]
async fn totals_that_are_not_the_sum_of_the_parts_are_told() {
    let (lab, manifest) = in_parts().await;
    let mut total = manifest.clone();
    total.records = 301;
    lab.forge(&total);
    let run = format!("run {} of {}", manifest.run_id, manifest.key);
    let message = told(&lab).await;
    assert!(message.starts_with(&format!("{run} holds 300 records and the manifest says 301")), "{message}");

    let mut total = manifest.clone();
    total.bytes -= 1;
    lab.forge(&total);
    let message = told(&lab).await;
    assert!(message.starts_with(&format!("{run} holds {} bytes", manifest.bytes)), "{message}");

    let mut total = manifest.clone();
    total.parts[0].records = u64::MAX;
    total.parts[1].records = u64::MAX;
    total.records = u64::MAX;
    lab.forge(&total);
    let message = told(&lab).await;
    assert!(message.contains("part-00000.jsonl.zst holds"), "{message}");
}
