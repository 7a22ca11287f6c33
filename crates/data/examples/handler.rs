//! A worker inside a program of your own: jobs are handled by Rust code, and kept in a SQLite file.
//!
//! ```sh
//! cargo run -p redrive-data --example handler
//! ```
//!
//! It submits three greetings, handles them, and prints what became of each.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use futures_util::future::BoxFuture;
use redrive_core::run::{Verdict, label};
use redrive_data::process::{Answer, Context, Error, Failure, Handler, Job, Section, Sections};
use redrive_data::worker::{LeaseKeeper, Shutdown, Worker, WorkerOptions};
use redrive_store::{NewRun, Open, Options, Store, StoreUrl};

/// Handles jobs of the category `greeting`, whose payload is a name.
#[derive(Debug)]
struct Greeter;

impl Handler for Greeter {
    fn handle<'a>(&'a self, job: &'a Job, _: &'a Context) -> BoxFuture<'a, Result<Answer, Error>> {
        Box::pin(async move {
            // A payload of another form is a final failure: no retry would change it.
            let name: String = job.read_payload()?;
            if name.is_empty() {
                // Tried again after a minute, after two, and so on, eight times in all.
                return Err(Failure::retryable("there is nobody to greet yet").into());
            }
            println!("Hello, {name}! (attempt {})", job.attempt());
            let mut answer = Answer::from(Verdict::Passed);
            answer.metrics.insert("letters".to_owned(), name.chars().count().into());
            Ok(answer)
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let url = StoreUrl::Sqlite(folder.path().join("jobs.db"));
    let store = Store::open(&url, Open::Migrate, Options::default()).await?;

    let payloads = [r#""Ada""#, r#""""#, "7"].map(|payload| Some(payload.to_owned()));
    let jobs = payloads.into_iter().map(|payload| NewRun::job("greeting", payload, store.now())).collect();
    let submitted = store.control().submit(jobs).await?;

    // `drain` ends the worker when nothing is due; a service leaves it out and calls `Shutdown::request` when it is told
    // to stop.
    let options = WorkerOptions { drain: true, ..WorkerOptions::embedded("example") };
    let sections = Sections::new([Section::new("greetings", ["greeting"], Greeter)])?;
    let keeper = LeaseKeeper::start(&url, Options::default(), options.terms).await?;
    let workloads = sections.workloads(&store.data(), None);
    let counts = Worker::new(store.data(), keeper, workloads, options, Shutdown::default()).run().await?;
    println!("{} done, {} failed", counts.accepted, counts.rejected);

    for job in submitted {
        if let Some(run) = store.view().run(job.run_id).await? {
            let next = run.next_retry_at.map_or_else(String::new, |at| format!(", again at {at}"));
            println!("{}: {}{next}", label(&run), run.error_message.or(run.metrics).unwrap_or_default());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_example_runs() {
        super::main().unwrap();
    }
}
