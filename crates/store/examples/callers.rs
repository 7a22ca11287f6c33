//! Measures how many commits a second concurrent callers get from PostgreSQL, each submitting one run at a time, with a
//! second store that listens: `cargo run --release -p redrive-store --example callers -- [callers] [runs of each]`.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]

use std::time::Instant;

use redrive_core::time::Timestamp;
use redrive_fixture::{Durability, Postgres};
use redrive_store::{NewRun, Open, Options, Store, StoreUrl};

#[tokio::main]
async fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u32>().unwrap());
    let (callers, runs) = (numbers.next().unwrap_or(16), numbers.next().unwrap_or(200));
    let server = Postgres::start(Durability::Full);
    let database = server.fresh_database();
    let url = StoreUrl::parse(&database.url).unwrap();
    let connections = usize::try_from(callers).unwrap();
    let store = Store::open(&url, Open::Migrate, Options { connections, ..Options::default() }).await.unwrap();
    let listener = Store::open(&url, Open::Current, Options::default()).await.unwrap();
    submit(&store, callers, 20).await;
    let started = Instant::now();
    submit(&store, callers, runs).await;
    let rate = f64::from(callers * runs) / started.elapsed().as_secs_f64();
    drop(listener);
    println!("{callers} callers, {runs} commits each: {rate:.0} commits/s");
}

async fn submit(store: &Store, callers: u32, runs: u32) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..callers {
        let control = store.control();
        tasks.spawn(async move {
            for _ in 0..runs {
                let run = NewRun::job("any", None, Timestamp::from_micros(1_767_225_600_000_000));
                control.submit(vec![run]).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}
