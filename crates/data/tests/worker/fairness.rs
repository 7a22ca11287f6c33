//! Sections take turns for permits, whatever lies in the queue of one of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use redrive_data::process::{Section, Sections, Unserved};
use redrive_fixture::eventually;
use tokio::sync::Semaphore;

use crate::house::{TestDataPlane, Work};
use crate::told::{Act, Told, section, work};

/// One permit, three sections, a long backlog in one: a job of another starts with the next permit.
async fn a_backlog_never_starves_another_section(house: TestDataPlane) {
    house.submit_jobs("busy", 1000).await;
    let gate = Arc::new(Semaphore::new(0));
    let busy = {
        let gate = Arc::clone(&gate);
        Told::to(move |_| Act::Wait(Arc::clone(&gate)))
    };
    let started_after = Arc::new(AtomicU32::new(0));
    let quiet = {
        let (busy, started_after) = (Arc::clone(&busy), Arc::clone(&started_after));
        Told::to(move |_| {
            started_after.store(busy.asked(), Ordering::SeqCst);
            Act::Pass
        })
    };
    let sections = ["first", "busy", "quiet"].map(|name| match name {
        "busy" => section(name, Arc::clone(&busy) as _),
        "quiet" => section(name, Arc::clone(&quiet) as _),
        _ => section(name, Told::to(|_| Act::Pass)),
    });
    let (worker, shutdown) = house.serve(sections.to_vec(), Work { concurrency: 1, drain: false, ..work() }).await;
    let mut counts = worker.counts();
    let working = tokio::spawn(worker.run());
    // Each permit of the gate ends one busy job; the job after it waits at the gate, so the counts are exact.
    let mut started = 1;
    eventually("a busy job waits at the gate", async || busy.asked() == started).await;
    for round in 1..=3 {
        house.submit_jobs("quiet", 1).await;
        // Two, because the worker may hear of the quiet job only after it has claimed the next busy one.
        gate.add_permits(2);
        eventually("the quiet one has had its turn", async || quiet.asked() == round).await;
        assert!(started_after.load(Ordering::SeqCst) <= started + 1, "it waited for more than one job of the other");
        started += 2;
        eventually("a busy job waits at the gate again", async || busy.asked() == started).await;
    }
    gate.add_permits(10_000);
    counts.wait_for(|counts| counts.accepted == 1003).await.unwrap();
    shutdown.request();
    working.await.unwrap().unwrap();
}

/// Whatever is queued, each section has its share of many permits.
async fn sections_share_the_permits_evenly(house: TestDataPlane) {
    for name in ["a", "b"] {
        house.submit_jobs(name, 50).await;
    }
    let gate = Arc::new(Semaphore::new(0));
    let [a, b] = [(); 2].map(|()| {
        let gate = Arc::clone(&gate);
        Told::to(move |_| Act::Wait(Arc::clone(&gate)))
    });
    let sections = vec![section("a", Arc::clone(&a) as _), section("b", Arc::clone(&b) as _)];
    let worker = house.serve(sections, work()).await.0;
    let working = tokio::spawn(worker.run());
    eventually("all permits are in use", async || a.running() + b.running() == 8).await;
    assert_eq!((a.running(), b.running()), (4, 4));
    gate.add_permits(100);
    assert_eq!(working.await.unwrap().unwrap().accepted, 100);
}

/// A section's limit holds on all machines together; the other sections have the permits that it leaves.
async fn a_sections_limit_holds_for_all_workers_together(house: TestDataPlane) {
    for name in ["a", "b"] {
        house.submit_jobs(name, 30).await;
    }
    let gate = Arc::new(Semaphore::new(0));
    let [a, b] = [(); 2].map(|()| {
        let gate = Arc::clone(&gate);
        Told::to(move |_| Act::Wait(Arc::clone(&gate)))
    });
    let limited = Section { max_in_flight: Some(3), ..section("a", Arc::clone(&a) as _) };
    let sections = || vec![limited.clone(), section("b", Arc::clone(&b) as _)];
    let workers = [house.serve(sections(), work()).await.0, house.serve(sections(), work()).await.0];
    let [first, second] = workers.map(|worker| tokio::spawn(worker.run()));
    eventually("all permits are in use", async || a.running() + b.running() == 16).await;
    assert_eq!((a.running(), b.running()), (3, 13));
    gate.add_permits(100);
    assert_eq!(first.await.unwrap().unwrap().accepted + second.await.unwrap().unwrap().accepted, 60);
}

/// What nobody serves is said once, and again when it changes.
async fn categories_that_no_section_names_are_said_once(house: TestDataPlane) {
    let outside = Section { handler: None, ..section("outside", Told::to(|_| Act::Pass)) };
    let sections = Sections::new([section("a", Told::to(|_| Act::Pass)), outside]).unwrap();
    let mut unserved = Unserved::new(house.store.view(), sections);
    assert_eq!(unserved.look().await.unwrap(), None);
    for name in ["a", "outside", "unnamed"] {
        house.submit_jobs(name, 2).await;
    }
    assert_eq!(unserved.look().await.unwrap(), Some(vec!["unnamed".to_owned()]));
    assert_eq!(unserved.look().await.unwrap(), None, "it was said");
    house.submit_jobs("misspelt", 1).await;
    assert_eq!(unserved.look().await.unwrap(), Some(vec!["misspelt".to_owned(), "unnamed".to_owned()]));
}

redrive_fixture::on_both_databases!(
    a_sections_limit_holds_for_all_workers_together,
    categories_that_no_section_names_are_said_once,
    a_backlog_never_starves_another_section,
    sections_share_the_permits_evenly
);
