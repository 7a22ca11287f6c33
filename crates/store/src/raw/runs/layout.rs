//! Where everything lies below the sink's base:
//! `source=<s>/customer_id=<c>/query_name=<q>/logical_date=<d>/run_id=<r>/`, and in it the parts and the manifest.

use object_store::path::Path;
use redrive_core::id::RunId;
use redrive_core::key::{LogicalDate, PartitionKey};

use super::encode::segment;

/// The object that commits a run's directory.
pub(super) const MANIFEST: &str = "_manifest.json";

const DAY: &str = "logical_date=";
const RUN: &str = "run_id=";

/// The longest key below the base: three full names, the date, the run and a part with its slashes. S3 takes 1,024 bytes
/// in all, so the base may have what is left.
pub(in crate::raw) const MAX_BELOW_BASE: usize = 3 * 256 + "logical_date=2026-01-01/".len() + 44 + 32;

/// The directory that holds every day of one query.
pub(super) fn query(base: &Path, key: &PartitionKey) -> Path {
    verbatim(&query_text(base, key))
}

pub(super) fn partition(base: &Path, key: &PartitionKey) -> Path {
    verbatim(&partition_text(base, key))
}

fn query_text(base: &Path, key: &PartitionKey) -> String {
    format!(
        "{base}/{}/{}/{}",
        segment("source", key.source.as_str()),
        segment("customer_id", key.customer_id.as_str()),
        segment("query_name", key.query_name.as_str()),
    )
}

fn partition_text(base: &Path, key: &PartitionKey) -> String {
    format!("{}/{DAY}{}", query_text(base, key), key.logical_date)
}

/// The day whose directory this is.
pub(super) fn day_of(directory: &Path) -> Option<LogicalDate> {
    directory.filename()?.strip_prefix(DAY)?.parse().ok()
}

pub(super) fn run(base: &Path, key: &PartitionKey, run_id: RunId) -> Path {
    verbatim(&format!("{}/{RUN}{run_id}", partition_text(base, key)))
}

pub(super) fn object(dir: &Path, name: &str) -> Path {
    verbatim(&format!("{dir}/{name}"))
}

pub(super) fn part_name(number: usize) -> String {
    format!("part-{number:05}.jsonl.zst")
}

/// Whether `object` lies in the directory of one of the partition's runs.
pub(super) fn is_of_a_run(partition: &Path, object: &Path) -> bool {
    let first = object.prefix_match(partition).and_then(|mut steps| steps.next());
    first.is_some_and(|step| step.as_ref().strip_prefix(RUN).is_some_and(|id| id.parse::<RunId>().is_ok()))
}

/// `Path::from` and `Path::join` would encode our `%` and `~` once more; the names must be on disk as `encode` says.
fn verbatim(path: &str) -> Path {
    Path::parse(path).expect("a base is parsed before, and encoded names hold neither `/` nor `..` nor nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(value: &str) -> PartitionKey {
        PartitionKey::new(value, value, value, "2026-01-31").unwrap()
    }

    #[test]
    fn objects_lie_in_hive_directories_under_the_names_of_encode() {
        let id = "019a0000-0000-7000-8000-000000000001".parse().unwrap();
        let dir = run(&Path::parse("lake/raw").unwrap(), &key("a/b"), id);
        assert_eq!(
            object(&dir, &part_name(7)).as_ref(),
            "lake/raw/source=a%2Fb/customer_id=a%2Fb/query_name=a%2Fb/logical_date=2026-01-31/\
             run_id=019a0000-0000-7000-8000-000000000001/part-00007.jsonl.zst"
        );
        assert_eq!(
            partition(&Path::ROOT, &key("x")).as_ref(),
            "source=x/customer_id=x/query_name=x/logical_date=2026-01-31"
        );
        assert!(is_of_a_run(&partition(&Path::parse("lake/raw").unwrap(), &key("a/b")), &dir));
        assert!(!is_of_a_run(&partition(&Path::ROOT, &key("a/b")), &dir));
        assert!(!is_of_a_run(&Path::parse("lake").unwrap(), &Path::parse("lake/run_id=x/y").unwrap()));
    }

    #[test]
    fn the_longest_key_leaves_the_base_what_the_limit_says() {
        let id = "019a0000-0000-7000-8000-000000000001".parse().unwrap();
        for value in ["a".repeat(243), "a".repeat(244), "🦀".repeat(64)] {
            let below = object(&run(&Path::ROOT, &key(&value), id), &part_name(99_999_999)).as_ref().len();
            assert!(below <= MAX_BELOW_BASE, "{below}");
        }
    }
}
