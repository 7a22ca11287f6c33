//! From suspicion to proof: which records do repeat a key.

use redrive_core::count;
use redrive_core::validation::{NAMED, Tally};
use redrive_store::raw::{Manifest, RawView, blocking};

use super::confirm::Confirm;
use super::keys::Keys;
use crate::error::{Result, ScratchError};
use crate::validate::feed::feed;
use crate::validate::rules::Rules;

/// Counts the duplicates among `keys` and names the first.
pub(in crate::validate) async fn tally(
    raw: &RawView,
    manifest: &Manifest,
    rules: &Rules,
    keys: Keys,
    tally: &mut Tally,
) -> Result<()> {
    let scratch = rules.scratch().clone();
    let fingerprint = keys.fingerprint();
    let mut sorted = blocking(move || keys.sort().map_err(|error| scratch.error(error))).await?;
    let mut cleared = Cleared::default();
    loop {
        let scratch = rules.scratch().clone();
        let (found, back) = blocking(move || {
            let found = sorted.suspects(cleared.up_to, NAMED).map_err(|error| scratch.error(error))?;
            Ok::<_, ScratchError>((found, sorted))
        })
        .await?;
        sorted = back;
        let Some(last) = found.first.last().map(|suspect| suspect.record) else { return Ok(()) };
        let suspects = count::of(found.first.len());
        let confirmed = feed(raw, manifest, Confirm::new(rules, fingerprint, &found.first)).await?.repeats;
        let proved = count::of(confirmed.len());
        cleared = Cleared { up_to: last, count: cleared.count + suspects.saturating_sub(proved) };
        if proved > 0 {
            tally.add(found.total.saturating_sub(cleared.count).saturating_sub(proved));
            confirmed.into_iter().for_each(|repeat| tally.offend(|| repeat));
            return Ok(());
        }
    }
}

/// Suspects that turned out to be innocent.
#[derive(Debug, Clone, Copy, Default)]
struct Cleared {
    /// No record up to this one repeats another.
    up_to: u64,
    count: u64,
}

#[cfg(test)]
mod tests {
    use redrive_core::key::PartitionKey;
    use redrive_core::time::Timestamp;
    use redrive_core::validation::Rule;
    use redrive_store::raw::{RawOptions, RawSink, RawUrl, RunHeader, RunOutcome};

    use super::super::entry::Fingerprint;
    use super::*;
    use crate::validate::Settings;
    use crate::validate::check::Check;

    /// Judges `ids` with fingerprints of a few bits, and gives what is said of them.
    async fn told(ids: &[u32], mask: u64) -> String {
        let dir = tempfile::tempdir().unwrap();
        let sink = RawSink::open(&RawUrl::File(dir.path().to_owned()), &RawOptions::default()).await.unwrap();
        let key = PartitionKey::new("ads", "1", "daily", "2026-01-31").unwrap();
        let mut writer = sink.begin(RunHeader {
            key: key.clone(),
            run_id: "019a0000-0000-7000-8000-000000000001".parse().unwrap(),
            fence: "019a0000-0000-7000-9000-000000000001".parse().unwrap(),
            extractor: "sample".to_owned(),
            started_at: Timestamp::from_micros(0),
        });
        for id in ids {
            writer.write_line(format!("{{\"id\":{id}}}").as_bytes()).await.unwrap();
        }
        let manifest = writer.finish(RunOutcome::Complete, Timestamp::from_micros(1)).await.unwrap();
        let rules = Settings { unique: vec!["id".to_owned()], ..Settings::default() }.build().unwrap();
        let keys = Keys::new(rules.scratch()).with_fingerprint(Fingerprint::narrow(mask));
        let check = Check::new(&rules, key.logical_date, Some(keys));
        let keys = feed(&sink.view(), &manifest, check).await.unwrap().keys.unwrap();
        let mut unique = Tally::new(Rule::Unique(vec!["id".parse().unwrap()]));
        tally(&sink.view(), &manifest, &rules, keys, &mut unique).await.unwrap();
        unique.to_string()
    }

    #[tokio::test]
    async fn a_fingerprint_that_collides_rejects_nothing() {
        let different: Vec<u32> = (0..40).collect();
        assert_eq!(told(&different, 0).await, "unique (id): 0 duplicates");
    }

    #[tokio::test]
    async fn a_duplicate_is_found_behind_any_number_of_collisions() {
        let mut ids: Vec<u32> = (0..40).collect();
        ids.extend([7, 40, 7, 12]);
        for mask in [0, 1, 7] {
            let said = told(&ids, mask).await;
            assert!(said.contains("record 41 repeats record 8: 7"), "{said}");
        }
        let exactly = "unique (id): 3 duplicates, first record 41 repeats record 8: 7, \
                       record 43 repeats record 8: 7, record 44 repeats record 13: 12";
        assert_eq!(told(&ids, u64::MAX).await, exactly);
    }
}
