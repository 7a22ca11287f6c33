//! The same on S3.

use redrive_fixture::S3;
use redrive_store::raw::S3Options;

use crate::home::Home;
use crate::scene::{Sink, furnish, text};
use crate::world::MigratedProgram;

fn on_s3(mut world: MigratedProgram) -> (MigratedProgram, Sink, String) {
    let bucket = S3::shared().fresh_bucket();
    let url = format!("s3://{}/lake", bucket.name);
    let settings = [
        ("AWS_ACCESS_KEY_ID", bucket.access_key.as_str()),
        ("AWS_SECRET_ACCESS_KEY", &bucket.secret_key),
        ("AWS_REGION", &bucket.region),
        ("AWS_ENDPOINT_URL", &bucket.endpoint),
        ("AWS_ALLOW_HTTP", "true"),
    ];
    let home = Home::at(world.home.path()).env("REDRIVE_RAW__URL", &url);
    world.program.home = settings.iter().fold(home, |home, (name, value)| home.env(name, value));
    let sink = Sink { url: url.parse().unwrap(), s3: S3Options::from_vars(settings) };
    (world, sink, url)
}

#[test]
fn data_is_listed_read_and_checked() {
    let (world, sink, url) = on_s3(MigratedProgram::sqlite());
    let days = furnish(&world, &sink);
    let run = world.read(&days[0]).state.current_run_id.unwrap();
    let directory = format!("{url}/source=ads/customer_id=111/query_name=daily/logical_date=2026-01-01/run_id={run}");
    let listed = world.json("data ls --logical-date 2026-01-01", 0);
    assert_eq!(listed["data"][0]["path"], directory);
    let paths = world.run("data ls --paths --logical-date 2026-01-01").done().stdout;
    assert_eq!(paths, format!("{directory}/part-00000.jsonl.zst\n"));
    assert_eq!(world.run("data cat --all").done().stdout, text(&days[0], 1) + &text(&days[1], 1));
    for how in ["", "--quick"] {
        let report = world.json(&format!("doctor {how}"), 0);
        let says = report["checks"].as_array().unwrap().last().unwrap()["says"].as_str().unwrap();
        assert!(says.starts_with("2 current runs, 2 parts"), "{says}");
    }
}

#[test]
fn a_run_that_is_not_in_the_bucket_is_found() {
    let (world, _, _) = on_s3(MigratedProgram::sqlite());
    // Written elsewhere: the bucket is empty.
    furnish(&world, &Sink::files(&world));
    let report = world.json("doctor", 1);
    assert_eq!(report["breaches"].as_array().unwrap().len(), 2, "{report}");
    assert!(report["breaches"][0]["says"].as_str().unwrap().contains("_manifest.json is missing"), "{report}");
}
