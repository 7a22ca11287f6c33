//! What operators see, word for word.

use insta::assert_snapshot;
use redrive_core::partition::{ControlEvent, Judgement};
use redrive_fixture::boom;

use crate::world::{HOUR, MINUTE, MigratedProgram, january};

fn scene() -> MigratedProgram {
    let world = MigratedProgram::sqlite();
    let days = january("111", 4);
    let past = world.ago(2 * MINUTE);
    past.judged(&days[..1], Judgement::Accepted { records: 7 });
    past.judged(&days[1..3], boom());
    past.put(&days[2..3], ControlEvent::Pause { by: "ada", why: Some("audit") });
    world.ago(HOUR).judged_without_raw(&days[3..], boom());
    world
}

/// What is different every time is named instead, and columns lose the width that it gave them.
macro_rules! shown {
    ($told:expr, @$expected:literal) => {
        insta::with_settings!({filters => vec![
            (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "[id]"),
            (r"20\d\d-\d\d-\d\dT[0-9:.]+Z", "[time]"),
            (r"[\w.-]+@[\w.-]+", "[actor]"),
            (r"5 min( \d+ s)?, until|4 min \d+ s, until", "[span], until"),
            (r"  +", "  "),
        ]}, { assert_snapshot!($told, @$expected) })
    };
}

/// CP-3d.1, RP-8.2
#[test]
fn inspect_as_a_table_and_as_json() {
    let world = scene();
    shown!(world.run("state inspect --source ads"), @r#"
     source  customer  query  date  status  attempts  records  run  next  error
     ads  111  daily  2026-01-01  success  1  7  [id]
     ads  111  daily  2026-01-02  failed  1  retry at [time]  boom
     ads  111  daily  2026-01-03  failed  1  paused  boom
     ads  111  daily  2026-01-04  failed  1  due  boom
    --- stderr
    --- exit 0
    "#);
    shown!(world.run("state inspect --source ads --until 2026-01-01 --history"), @r#"
     source  customer  query  date  status  attempts  records  run  next  error
     ads  111  daily  2026-01-01  success  1  7  [id]
      success  1  [id]  [time]
    --- stderr
    --- exit 0
    "#);
    shown!(world.run("state inspect --source ads --logical-date 2026-01-03 --history -o json"), @r#"
    {"partitions":[{"source":"ads","customer_id":"111","query_name":"daily","logical_date":"2026-01-03","status":"failed","current_run_id":null,"record_count":null,"attempt_count":1,"error_class":"retryable","error_message":"boom","terminal":null,"paused":{"why":"audit","by":"ada","at":"[time]"},"lane":null,"next_retry_at":null,"active_run_id":null,"created_at":"[time]","updated_at":"[time]","history":[{"run_id":"[id]","attempt":1,"outcome":"failed","error_class":"retryable","error_message":"boom","record_count":7,"started_at":"[time]","finished_at":"[time]"}]}]}
    --- stderr
    --- exit 0
    "#);
}

/// CP-5.3, CP-4.3
#[test]
fn retry_as_a_table_and_as_json() {
    let world = scene();
    shown!(world.run("state retry --source ads --dry-run"), @r#"
     source  customer  query  date
     ads  111  daily  2026-01-02  would change  failed → pending
     ads  111  daily  2026-01-03  skipped  paused
     ads  111  daily  2026-01-04  refused  no_raw_partition
    1 no_raw_partition: no attempt has left anything in the raw sink; --allow-missing-raw retries all the same
    1 paused: `redrive state resume` lets them go on
    retry: 3 matched, 1 would change, 2 skipped, 0 failed
    --- stderr
    --- exit 4
    "#);
    shown!(world.run("state retry --source ads"), @r#"
     source  customer  query  date
     ads  111  daily  2026-01-02  changed  failed → pending
     ads  111  daily  2026-01-03  skipped  paused
     ads  111  daily  2026-01-04  refused  no_raw_partition
    1 no_raw_partition: no attempt has left anything in the raw sink; --allow-missing-raw retries all the same
    1 paused: `redrive state resume` lets them go on
    retry: 3 matched, 1 changed, 2 skipped, 0 failed; operation [id]
    --- stderr
    --- exit 4
    "#);
    shown!(world.run("state retry --source ads -o json"), @r#"
    {"operation":"retry","op_id":null,"dry_run":false,"matched":3,"changed":[],"skipped":[{"source":"ads","customer_id":"111","query_name":"daily","logical_date":"2026-01-02","reason":"already_pending"},{"source":"ads","customer_id":"111","query_name":"daily","logical_date":"2026-01-03","reason":"paused"},{"source":"ads","customer_id":"111","query_name":"daily","logical_date":"2026-01-04","reason":"no_raw_partition"}],"failed":[]}
    --- stderr
    --- exit 4
    "#);
}

/// CP-5.4
#[test]
fn audit_list_as_a_table_and_as_json() {
    let world = scene();
    world.run("state pause --source ads --logical-date 2026-01-01 --reason holiday").done();
    shown!(world.run("state audit list"), @r#"
     at  operation  actor  changes  command  reason
     [time]  [id]  [actor]  1  redrive state pause --source ads --logical-date 2026-01-01 --reason holiday  holiday
     [time]  [id]  [actor]  1  want
     [time]  [id]  [actor]  1  test
     [time]  [id]  [actor]  2  want
     [time]  [id]  [actor]  1  want
    --- stderr
    --- exit 0
    "#);
    shown!(world.run("state audit list --limit 1 -o json"), @r#"
    {"operations":[{"op_id":"[id]","seq":10,"at":"[time]","actor":"[actor]","command":"redrive state pause --source ads --logical-date 2026-01-01 --reason holiday","filters":{"since":"2026-01-01","source":"ads","until":"2026-01-01"},"flags":{"dry_run":false,"force":false,"yes":false},"reason":"holiday","changes":1}]}
    --- stderr
    --- exit 0
    "#);
}

/// RP-8.2
#[test]
fn explain_as_text_and_as_json() {
    let world = scene();
    let line = "state explain --source ads --customer-id 111 --query-name daily --logical-date 2026-01-02";
    shown!(world.run(line), @r#"
    ads/111/daily/2026-01-02 is failed
    waiting: failed at [time]; attempt 1 waits 5 min ± 30 s: [span], until [time]
    last error: retryable: boom
    --- stderr
    --- exit 0
    "#);
    shown!(world.run(&format!("{line} -o json")), @r#"
    {"source":"ads","customer_id":"111","query_name":"daily","logical_date":"2026-01-02","status":"failed","reason":"waiting","because":"failed at [time]; attempt 1 waits 5 min ± 30 s: [span], until [time]","next_retry_at":"[time]","attempt_count":1,"max_attempts":8,"granted":0,"error_class":"retryable","error_message":"boom","now":"[time]"}
    --- stderr
    --- exit 0
    "#);
}
