//! SV-5: plans that bind, and operations in steps that go on when whoever did them is gone. On both databases.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use redrive_control::shape::BulkOperationShape;
use redrive_control::{
    Audit, CarriedOn, ControlPlane, Error, PlanAsk, Request, RunRequest, RunSelection, RunVerb, Sink, SourceRules,
    Sources, Verb, Watch,
};
use redrive_core::any_of::AnyOf;
use redrive_core::filter::Filter;
use redrive_core::id::OpId;
use redrive_core::key::PartitionKey;
use redrive_core::lane::Lane;
use redrive_core::partition::{ControlEvent, Judgement, Partition, Status};
use redrive_core::refusal::Reason;
use redrive_fixture::{OnDatabase, TestDatabase, TestStore, boom};
use redrive_store::raw::S3Options;
use redrive_store::{BulkState, CancelOutcome, ItemOutcome, Store};

/// A control plane over a store whose clock the test holds.
struct Desk {
    on: TestStore,
    raw: String,
    plane: ControlPlane,
}

fn plane(store: &Store, raw: &str) -> ControlPlane {
    let ads = SourceRules {
        customers: vec!["1".parse().unwrap()],
        queries: vec!["daily".parse().unwrap()],
        ..SourceRules::default()
    };
    let known = BTreeMap::from([("ads".parse().unwrap(), ads)]);
    let sink = Sink::new(raw.parse().unwrap(), S3Options::default());
    ControlPlane::new(store.control(), sink, Sources::new(known), "2015-01-01".parse().unwrap())
}

impl OnDatabase for Desk {
    async fn on(database: TestDatabase) -> Self {
        let raw = format!("file:{}", database.path().join("raw").display());
        let on = TestStore::on(database).await;
        let plane = plane(&on.store, &raw);
        Self { on, raw, plane }
    }
}

/// No one has asked to stop.
fn go() -> AtomicBool {
    AtomicBool::new(false)
}

/// So many partitions, ten years of each customer.
fn days(count: usize) -> Vec<PartitionKey> {
    let first = jiff::civil::date(2016, 1, 1);
    let day = |nth: i64| first.checked_add(jiff::Span::new().days(nth % 3650)).unwrap().to_string();
    let key = |nth: i64| PartitionKey::new("ads", &(1 + nth / 3650).to_string(), "daily", &day(nth)).unwrap();
    (0..i64::try_from(count).unwrap()).map(key).collect()
}

fn retry() -> PlanAsk {
    let verb = Verb::Retry { clear_terminal: false, allow_missing_raw: true, stale: false, grant: None };
    let filter = Filter { source: AnyOf::one("ads".parse().unwrap()), ..Filter::default() };
    let audit = Audit { reason: Some("the API is back".to_owned()), ..Audit::new("token:ada", "POST /v1/plans") };
    PlanAsk::Partitions(Request { verb, filter, audit, limit: None })
}

impl Desk {
    async fn plan(&self, ask: &PlanAsk) -> uuid::Uuid {
        let go = go();
        let watch = Watch { cancelled: &go, progress: &|_| {}, stop_after: None };
        self.plane.keep_plan(ask, watch).await.unwrap().plan_id
    }

    /// These partitions, and that a person pauses them.
    async fn paused(&self, keys: &[PartitionKey]) -> Vec<(Partition, ControlEvent<'static>)> {
        let found = self.on.store.view().partitions_of(keys.to_vec()).await.unwrap();
        found.into_iter().flatten().map(|partition| (partition, ControlEvent::Pause { by: "ada", why: None })).collect()
    }

    async fn shape(&self, op_id: OpId) -> BulkOperationShape {
        self.plane.insight().bulk_operation(op_id).await.unwrap()
    }

    async fn statuses(&self) -> (usize, usize) {
        let all = self
            .on
            .store
            .view()
            .partitions(redrive_store::Page { limit: 100_000, ..Default::default() })
            .await
            .unwrap();
        let count = |status| all.iter().filter(|partition| partition.state.status == status).count();
        (count(Status::Pending), count(Status::Failed))
    }

    fn audit(&self) -> Audit {
        Audit::new("token:ada", "POST /v1/plans/apply")
    }
}

/// SV-5, OP-8: a plan writes nothing to the audit trail, and what is applied is what it counted.
async fn a_plan_binds(desk: Desk) {
    desk.on.judged(days(5), boom()).await;
    let head = desk.on.store.view().audit_head().await.unwrap();
    let plan = desk.plan(&retry()).await;
    assert_eq!(desk.on.store.view().audit_head().await.unwrap(), head);
    let shape = desk.plane.insight().kept_plan(plan).await.unwrap();
    assert_eq!((shape.matched, shape.would_change, shape.sample.as_array().unwrap().len()), (5, 5, 5));
    // One is retried by somebody else, and one more fails: neither is touched.
    let verb = Verb::Retry { clear_terminal: false, allow_missing_raw: true, stale: false, grant: None };
    let request = Request { verb, filter: Filter::key(&days(1)[0]), audit: desk.audit(), limit: None };
    let go = go();
    desk.plane.operate(&request, Watch { cancelled: &go, progress: &|_| {}, stop_after: None }).await.unwrap();
    let op = desk.plane.begin_plan(plan, &desk.audit()).await.unwrap();
    assert_eq!(desk.plane.begin_plan(plan, &desk.audit()).await.unwrap(), op, "a plan makes one operation");
    assert_eq!(desk.plane.carry_on(None, &go).await.unwrap(), CarriedOn::Ended(op));
    assert_eq!(desk.plane.carry_on(None, &go).await.unwrap(), CarriedOn::Nothing);
    let done = desk.shape(op).await;
    assert_eq!((done.state, done.matched, done.changed, done.skipped), ("done", 5, 4, 1));
    assert_eq!(
        (done.by_reason["changed_since_plan"].as_u64(), done.reason.as_deref()),
        (Some(1), Some("the API is back"))
    );
    let (items, _) = desk.plane.insight().bulk_items(op, 0, None, 99).await.unwrap();
    assert_eq!(
        items.iter().map(|item| item.outcome.unwrap()).collect::<Vec<_>>(),
        ["skipped", "changed", "changed", "changed", "changed"]
    );
    assert_eq!((items[1].from.as_deref(), items[1].to.as_deref()), (Some("failed"), Some("pending")));
    let (skipped, _) = desk.plane.insight().bulk_items(op, 0, Some(ItemOutcome::Skipped), 99).await.unwrap();
    assert_eq!((skipped.len(), skipped[0].reason.as_deref()), (1, Some("changed_since_plan")));
    let listed = desk.plane.insight().bulk_operations(None, 99).await.unwrap();
    assert_eq!(listed[0].op_id, op);
    // A plan is kept for a day.
    let plan = desk.plan(&retry()).await;
    desk.on.clock.advance(Duration::from_secs(86_400));
    assert!(matches!(desk.plane.begin_plan(plan, &desk.audit()).await, Err(Error::NoPlan(_))));
    assert_eq!(desk.on.store.control().prune_plans().await.unwrap(), 1);
    assert_eq!(desk.plane.insight().bulk_items(op, 0, None, 99).await.unwrap().0.len(), 5, "an operation's items stay");
}

/// SV-5: the process that does an operation is killed at any moment; another goes on, and no item is changed or counted twice; undo puts
/// back everything that nothing has touched since.
async fn an_operation_survives_whoever_does_it(desk: Desk) {
    survive(desk, 6_000).await;
}

async fn survive(desk: Desk, count: usize) {
    let all = u64::try_from(count).unwrap();
    for some in days(count).chunks(10_000) {
        desk.on.judged(some.to_vec(), boom()).await;
    }
    let plan = desk.plan(&retry()).await;
    let op = desk.plane.begin_plan(plan, &desk.audit()).await.unwrap();
    let (mut kills, go) = (0_u32, go());
    loop {
        // Killed: the future is dropped wherever it is, the first time at its first await, then ever later.
        let other = plane(&desk.on.again().await, &desk.raw);
        let patience = Duration::from_millis(u64::from(kills) * 37);
        let ended = tokio::time::timeout(patience, other.carry_on(Some(op), &go)).await;
        kills += 1;
        match ended {
            Ok(Ok(CarriedOn::Ended(_))) => break,
            // The one before was killed between its last commit and its answer.
            Ok(Ok(CarriedOn::Nothing)) if desk.shape(op).await.state == "done" => break,
            Ok(_) | Err(_) => {}
        }
        desk.on.clock.advance(Duration::from_secs(31));
        assert!(kills < 1_000, "it never ends");
    }
    assert!(kills > 1, "nothing was killed");
    let done = desk.shape(op).await;
    assert_eq!((done.state, done.matched, done.changed, done.skipped, done.failed), ("done", all, all, 0, 0));
    assert_eq!(desk.on.store.view().count_changes(op).await.unwrap(), all, "one row of the audit trail for each");
    let told = desk.on.store.view().notifications(10).await.unwrap();
    assert_eq!(told.iter().map(|one| one.notice.count).collect::<Vec<_>>(), [all], "people are told once");
    assert_eq!(desk.statuses().await, (count, 0));
    assert!(desk.on.store.view().verify_audit().await.is_ok());
    let (left, _) = desk.plane.insight().bulk_items(op, 0, None, 100_000).await.unwrap();
    assert!(left.iter().all(|item| item.outcome == Some("changed")));
    // Three are claimed since; the others are put back, by an operation that is killed too.
    assert_eq!(desk.on.claim(3).await.len(), 3);
    let undo = desk.plane.begin_undo(op, &desk.audit()).await.unwrap();
    let killed = tokio::time::timeout(Duration::from_millis(20), desk.plane.carry_on(Some(undo), &go)).await;
    if !matches!(killed, Ok(Ok(CarriedOn::Ended(_)))) {
        desk.on.clock.advance(Duration::from_secs(31));
        assert_eq!(desk.plane.carry_on(None, &go).await.unwrap(), CarriedOn::Ended(undo));
    }
    let undone = desk.shape(undo).await;
    assert_eq!((undone.changed, undone.skipped, undone.undo_of), (all - 3, 3, Some(op)));
    assert_eq!(desk.statuses().await, (3, count - 3));
}

/// SV-5: cancelled between two steps; one that nobody is at ends at once. Memory: what is not done stays undone.
async fn an_operation_can_be_cancelled(desk: Desk) {
    desk.on.judged(days(3), boom()).await;
    let plan = desk.plan(&retry()).await;
    let op = desk.plane.begin_plan(plan, &desk.audit()).await.unwrap();
    assert!(matches!(desk.plane.begin_undo(op, &desk.audit()).await, Err(Error::StillRunning(_))));
    let control = desk.on.store.control();
    let (_, _) = control.take_bulk(Some(op), Duration::from_secs(30)).await.unwrap().unwrap();
    assert_eq!(control.cancel_bulk(op).await.unwrap(), CancelOutcome::Asked);
    desk.on.clock.advance(Duration::from_secs(31));
    let go = go();
    assert_eq!(desk.plane.carry_on(None, &go).await.unwrap(), CarriedOn::Ended(op));
    assert_eq!((desk.shape(op).await.state, desk.statuses().await), ("cancelled", (0, 3)));
    assert_eq!(control.cancel_bulk(op).await.unwrap(), CancelOutcome::Over(BulkState::Cancelled));
    let plan = desk.plan(&retry()).await;
    let op = desk.plane.begin_plan(plan, &desk.audit()).await.unwrap();
    let told = desk.on.store.view().notifications(99).await.unwrap().len();
    assert_eq!(control.cancel_bulk(op).await.unwrap(), CancelOutcome::Over(BulkState::Cancelled), "nobody was at it");
    let now = desk.on.store.view().notifications(99).await.unwrap();
    assert_eq!((now.len(), now[0].notice.what.contains("cancelled")), (told + 1, true), "people are told: {now:?}");
    // Told to stop, it is let go at once.
    let plan = desk.plan(&retry()).await;
    let op = desk.plane.begin_plan(plan, &desk.audit()).await.unwrap();
    assert_eq!(desk.plane.carry_on(None, &AtomicBool::new(true)).await.unwrap(), CarriedOn::Left(op));
    assert_eq!(desk.plane.carry_on_all(&go).await.unwrap(), 1);
    assert_eq!(desk.statuses().await, (3, 0));
}

/// A kept plan is acted on at once, by whoever comes first, and what is stopped half-way is cancelled.
async fn a_kept_plan_is_acted_on_at_once(desk: Desk) {
    desk.on.judged(days(3), boom()).await;
    let plan = desk.plan(&retry()).await;
    desk.on.store.control().commit(&desk.on.operation("pause"), desk.paused(&days(1)).await).await.unwrap();
    let go = go();
    let watch = || Watch { cancelled: &go, progress: &|_| {}, stop_after: None };
    let foreseen = desk.plane.insight().foresee_kept(plan, &desk.audit(), watch()).await.unwrap();
    assert_eq!((foreseen.count_changed(), foreseen.count_skipped()), (2, 1));
    let report = desk.plane.apply_kept(plan, &desk.audit(), watch()).await.unwrap();
    assert_eq!((report.count_changed(), report.count_skipped(), report.matched), (2, 1, 3));
    let op = report.op_id.unwrap();
    let shape = desk.shape(op).await;
    assert_eq!((shape.state, shape.changed, shape.skipped), ("done", 2, 1));
    assert_eq!(shape.reason.as_deref(), Some("the API is back"), "the plan's own reason");
    let again = desk.plane.apply_kept(plan, &desk.audit(), watch()).await;
    assert!(matches!(again, Err(Error::Applied { .. })), "{again:?}");
    assert_eq!(desk.plane.begin_plan(plan, &desk.audit()).await.unwrap(), op, "the server gives the same operation");
    desk.on.judge_each(|_| boom()).await;
    let plan = desk.plan(&retry()).await;
    let stop = AtomicBool::new(true);
    let stopped = Watch { cancelled: &stop, progress: &|_| {}, stop_after: None };
    let report = desk.plane.apply_kept(plan, &desk.audit(), stopped).await.unwrap();
    assert!(report.halt.is_some(), "{report:?}");
    assert_eq!(desk.shape(report.op_id.unwrap()).await.state, "cancelled");
    assert_eq!(desk.plane.carry_on_all(&go).await.unwrap(), 0, "nobody goes on with it");
}

/// An operation that changed holds is undone in steps as any other.
async fn an_operation_on_holds_is_undone(desk: Desk) {
    let scope = redrive_core::hold::HoldScope::new("ads".parse().unwrap(), Some("1".parse().unwrap()));
    let (op, hold) = desk.plane.hold(scope.clone(), None, &desk.audit()).await.unwrap();
    let go = go();
    let undo = desk.plane.begin_undo(op, &desk.audit()).await.unwrap();
    assert_eq!(desk.plane.carry_on_all(&go).await.unwrap(), 1);
    let shape = desk.shape(undo).await;
    assert_eq!((shape.state, shape.changed, shape.undo_of), ("done", 1, Some(op)));
    assert_eq!(desk.plane.insight().holds().await.unwrap(), []);
    let redo = desk.plane.begin_undo(undo, &desk.audit()).await.unwrap();
    desk.plane.carry_on_all(&go).await.unwrap();
    assert_eq!(desk.shape(redo).await.changed, 1);
    assert_eq!(desk.plane.insight().holds().await.unwrap()[0].scope, hold.scope);
    let twice = desk.plane.begin_undo(op, &desk.audit()).await.unwrap();
    desk.plane.carry_on_all(&go).await.unwrap();
    let shape = desk.shape(twice).await;
    assert_eq!((shape.changed + shape.skipped, shape.failed), (1, 0));
    let absent: OpId = "019a0000-0000-7000-8000-000000000000".parse().unwrap();
    assert!(matches!(desk.plane.begin_undo(absent, &desk.audit()).await, Err(Error::NoOperation(_))));
}

/// Runs and days to come are planned and done in the same way.
async fn runs_and_backfills_are_done_in_steps_too(desk: Desk) {
    let ids = desk.on.submit(&["a", "a"]).await;
    let request =
        RunRequest { verb: RunVerb::Cancel, runs: RunSelection::Ids { runs: ids.clone() }, audit: desk.audit() };
    let plan = desk.plan(&PlanAsk::Runs(request)).await;
    let op = desk.plane.begin_plan(plan, &desk.audit()).await.unwrap();
    let go = go();
    desk.plane.carry_on_all(&go).await.unwrap();
    assert_eq!((desk.shape(op).await.changed, desk.shape(op).await.operation.as_str()), (2, "cancel"));
    assert_eq!(desk.on.run(ids[0]).await.state.as_str(), "dead");
    let filter = Filter {
        source: AnyOf::one("ads".parse().unwrap()),
        since: Some("2025-12-01".parse().unwrap()),
        until: Some("2025-12-03".parse().unwrap()),
        ..Filter::default()
    };
    let plan = desk.plan(&PlanAsk::Backfill { filter, force_pending: false, audit: desk.audit() }).await;
    let shape = desk.plane.insight().kept_plan(plan).await.unwrap();
    assert_eq!((shape.would_change, shape.operation.as_str()), (3, Some("backfill")));
    let op = desk.plane.begin_plan(plan, &desk.audit()).await.unwrap();
    desk.plane.carry_on_all(&go).await.unwrap();
    assert_eq!((desk.shape(op).await.changed, desk.statuses().await), (3, (3, 0)));
}

/// Six days: done, failed, queued, not there, queued, not there; and a backfill that forces them.
async fn six_days(desk: &Desk) -> (Vec<PartitionKey>, PlanAsk) {
    let days = days(6);
    desk.on.judged(vec![days[0].clone()], Judgement::Accepted { records: 7 }).await;
    desk.on.judged(vec![days[1].clone()], boom()).await;
    desk.on.want(Lane::Fresh, vec![days[2].clone(), days[4].clone()]).await;
    let filter = Filter {
        source: AnyOf::one("ads".parse().unwrap()),
        since: Some(days[0].logical_date),
        until: Some(days[5].logical_date),
        ..Filter::default()
    };
    (days, PlanAsk::Backfill { filter, force_pending: true, audit: desk.audit() })
}

impl Desk {
    /// Has what is queued done, and the last of six days made and done by others.
    async fn finish(&self, days: &[PartitionKey]) {
        self.on.want(Lane::Fresh, vec![days[5].clone()]).await;
        assert_eq!(self.on.judge_each(|_| Judgement::Accepted { records: 7 }).await, 3);
    }

    async fn statuses_of(&self, days: &[PartitionKey]) -> Vec<&'static str> {
        let found = self.on.store.view().partitions_of(days.to_vec()).await.unwrap();
        found.into_iter().map(|found| found.map_or("absent", |partition| partition.state.status.as_str())).collect()
    }
}

const FORCED: [&str; 6] = ["pending", "pending", "success", "pending", "success", "success"];

/// OP-11: days that finish after the count are not set to pending.
async fn a_forced_backfill_changes_only_what_was_counted(desk: Desk) {
    let (days, ask) = six_days(&desk).await;
    let go = go();
    let watch = Watch { cancelled: &go, progress: &|_| {}, stop_after: None };
    let (counted, plan) = desk.plane.insight().plan(&ask, watch).await.unwrap();
    assert_eq!((counted.count_changed(), counted.count_by_reason()), (4, vec![(Reason::AlreadyPending, 2)]));
    desk.finish(&days).await;
    let report = desk.plane.operate_as_counted(&ask, counted, plan, watch).await.unwrap();
    assert_eq!((report.matched, report.count_changed()), (6, 3));
    assert_eq!(report.count_by_reason(), [(Reason::AlreadyPending, 2), (Reason::Exists, 1)]);
    assert_eq!(desk.statuses_of(&days).await, FORCED);
}

/// OP-11: nor those that finish while the plan is kept.
async fn a_kept_plan_of_a_forced_backfill_binds(desk: Desk) {
    let (days, ask) = six_days(&desk).await;
    let plan = desk.plan(&ask).await;
    assert_eq!(desk.plane.insight().kept_plan(plan).await.unwrap().would_change, 4);
    desk.finish(&days).await;
    let go = go();
    let watch = Watch { cancelled: &go, progress: &|_| {}, stop_after: None };
    let foreseen = desk.plane.insight().foresee_kept(plan, &desk.audit(), watch).await.unwrap();
    assert_eq!((foreseen.count_changed(), foreseen.count_by_reason()), (3, vec![(Reason::Exists, 1)]));
    let op = desk.plane.begin_plan(plan, &desk.audit()).await.unwrap();
    desk.plane.carry_on_all(&go).await.unwrap();
    let shape = desk.shape(op).await;
    assert_eq!((shape.matched, shape.changed, shape.skipped), (6, 3, 3));
    assert_eq!(shape.by_reason, serde_json::json!({"already_pending": 2, "exists": 1}));
    assert_eq!(desk.statuses_of(&days).await, FORCED);
    let trail = desk.plane.insight().view().operation(op).await.unwrap().unwrap();
    assert!(trail.flags.contains(r#""force_pending":true"#), "{}", trail.flags);
}

/// What no version was seen of is made by a backfill, and by nothing else.
async fn a_plan_makes_partitions_for_a_backfill_alone(desk: Desk) {
    let plan = r#"{"format":1,"operation":"pause","command":"x","partitions":[{"source":"ads","customer_id":"1",
        "query_name":"daily","logical_date":"2016-01-01"}]}"#;
    let go = go();
    let watch = Watch { cancelled: &go, progress: &|_| {}, stop_after: None };
    let plan = redrive_control::Plan::parse(plan).unwrap();
    let refused = desk.plane.apply_plan(plan, &desk.audit(), watch).await;
    assert!(matches!(refused, Err(Error::Plan(_))), "{refused:?}");
    assert_eq!(desk.statuses().await, (0, 0));
}

redrive_fixture::on_both_databases!(
    a_forced_backfill_changes_only_what_was_counted,
    a_kept_plan_of_a_forced_backfill_binds,
    a_plan_makes_partitions_for_a_backfill_alone,
    a_plan_binds,
    an_operation_survives_whoever_does_it,
    an_operation_can_be_cancelled,
    a_kept_plan_is_acted_on_at_once,
    an_operation_on_holds_is_undone,
    runs_and_backfills_are_done_in_steps_too,
);

/// SV-5: the same with a hundred thousand. Run by ./chaos.
mod large {
    use redrive_fixture::{OnDatabase as _, TestDatabase};

    use super::{Desk, survive};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "takes minutes; ./chaos runs it"]
    async fn a_hundred_thousand_items_survive_whoever_does_them() {
        survive(Desk::on(TestDatabase::sqlite()).await, 100_000).await;
        survive(Desk::on(TestDatabase::postgres()).await, 100_000).await;
    }
}
