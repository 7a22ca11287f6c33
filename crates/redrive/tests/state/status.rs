//! `redrive status`: what needs a person first, with the command to type, and counts that agree with what is there.

use redrive_core::failure::ErrorClass;
use redrive_core::partition::{ControlEvent, Judgement};
use redrive_core::process::{Kind, Process, Serves};
use redrive_core::retry::RetryPolicy;
use redrive_core::run::Workload;
use redrive_fixture::{boom, rejected};
use redrive_store::clock::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::world::{DAY, HOUR, MINUTE, MigratedProgram, january, key};

const CONFIG: &str = "[sources.ads]\ncustomers = [\"111\"]\ncalendar = { start = \"2026-01-01\" }\n[sources.ads.queries.daily]\n\
                      [sources.ads.extract]\nkind = \"sample\"\n";

/// Seven successes and failures of every kind.
fn furnish(world: &MigratedProgram) {
    let of = |customer: &str, days: usize| january(customer, days);
    world.ago(DAY).failed(&of("spent", 2), 8);
    world.ago(31 * DAY).judged(&of("old", 1), boom());
    world.ago(2 * HOUR).judged(&of("due", 3), boom());
    let past = world.ago(MINUTE);
    past.judged(&of("111", 7), Judgement::Accepted { records: 7 });
    past.judged(&of("waiting", 2), rejected(ErrorClass::Retryable, "timed out after 30 s"));
    past.judged(&of("final", 4), rejected(ErrorClass::Final, "HTTP 401: token 7f3a2b1c00004000 has expired"));
    past.judged(&of("marked", 1), boom());
    past.put(&of("marked", 1), ControlEvent::MarkTerminal { by: "ada", why: None, threshold: 1 });
    past.judged(&of("paused", 1), boom());
    past.put(&of("paused", 1), ControlEvent::Pause { by: "ada", why: None });
    past.want(&of("running", 2));
    assert_eq!(past.claim().len(), 2);
    past.want(&of("queued", 5));
    past.want(&of("asleep", 1));
    past.put(&of("asleep", 1), ControlEvent::Pause { by: "ada", why: None });
}

fn source(told: &Value) -> &Value {
    &told["sources"].as_array().unwrap()[0]
}

fn whats(told: &Value) -> Vec<(&str, u64, &str)> {
    let needs = told["needs_attention"].as_array().unwrap();
    needs
        .iter()
        .map(|need| {
            (need["what"].as_str().unwrap(), need["count"].as_u64().unwrap(), need["command"].as_str().unwrap())
        })
        .collect()
}

/// OP-1
fn counts_are_by_reason_and_needs_come_with_commands(world: MigratedProgram) {
    let world = world.configured(CONFIG);
    furnish(&world);
    let told = world.json("status", 0);
    let ads = source(&told);
    assert_eq!(ads["source"], json!("ads"));
    assert_eq!(ads["success"], json!(7));
    assert_eq!(ads["pending"], json!({"queued": 5, "running": 2, "cooling_down": 0, "held": 0, "paused": 1}));
    let failed = json!({"waiting": 2, "due": 3, "final": 4, "exhausted": 3, "marked": 1, "paused": 1});
    assert_eq!(ads["failed"], failed, "{told}");
    assert_eq!(ads["newest_success"], json!("2026-01-07"));
    assert!(ads["missing"].as_u64().unwrap() > 200, "only a week of the calendar is there: {told}");
    let needs = whats(&told);
    let group = told["groups"].as_array().unwrap().iter().find(|group| group["final"] == json!(4)).unwrap();
    let retry = format!("redrive state retry --group {}", group["group"].as_str().unwrap());
    assert!(
        needs
            .iter()
            .any(|(what, count, command)| what.starts_with("final: HTTP 401") && *count == 4 && *command == retry),
        "{needs:?}"
    );
    assert!(
        needs.iter().any(|(what, count, command)| what.contains("no worker lives")
            && *count == 5
            && *command == "redrive worker"),
        "{needs:?}"
    );
    assert!(
        needs.iter().any(|(what, _, command)| what.contains("no daemon lives") && *command == "redrive daemon"),
        "{needs:?}"
    );
    assert!(
        needs.iter().any(|(what, count, command)| what.starts_with("out of attempts: boom")
            && *count == 3
            && command.ends_with(" --clear-terminal")),
        "{needs:?}"
    );
    for (command, code) in [(retry.as_str(), 0), ("redrive state groups", 0)] {
        let line = command.strip_prefix("redrive ").unwrap();
        let line = if line.contains("retry") { format!("{line} --allow-missing-raw --yes") } else { line.to_owned() };
        world.json(&line, code);
    }
    assert_eq!(source(&world.json("status", 0))["failed"]["final"], json!(0));
    let csv = world.run("status -o csv").done().stdout;
    let (header, rest) = csv.split_once('\n').unwrap();
    assert_eq!(header, "what,count,since,command");
    assert!(rest.contains("\"due or missing, and no daemon lives\",") && rest.contains(",redrive daemon\n"), "{csv}");
}

/// OP-1: what is held is not queued.
fn what_is_held_or_cools_down_is_told_apart(world: MigratedProgram) {
    let past = world.ago(MINUTE);
    for customer in ["a", "b", "c"] {
        past.want(&january(customer, 4));
    }
    past.want(&[key("a", "other", "2026-01-01")]);
    world.json("state hold set --source ads --customer-id a --query-name daily", 0);
    world.json("state hold set --source ads --customer-id b", 0);
    let told = world.json("status --source ads", 0);
    assert_eq!(
        (&source(&told)["pending"]["held"], &source(&told)["pending"]["queued"]),
        (&json!(8), &json!(5)),
        "{told}"
    );
    assert_eq!(told["holds"].as_array().unwrap().len(), 2);
    world.json("state hold set --source ads", 0);
    assert_eq!(source(&world.json("status", 0))["pending"]["held"], json!(13));
    assert_eq!(world.json("status --source crm", 0)["sources"], json!([]));
}

/// OP-1, OP-9: an error that is final when the attempts are used up is one that the policy has stopped, wherever it is counted.
fn the_last_attempt_counts_for_more_than_its_error(world: MigratedProgram) {
    let days = january("111", 2);
    let past = world.ago(HOUR);
    past.judged(&days[1..], rejected(ErrorClass::Final, "gone"));
    past.failed(&days[..1], 7);
    let policy = RetryPolicy::partitions();
    past.put(&days[..1], ControlEvent::Retry { policy: &policy, clear_terminal: false, stale: false, grant: None });
    past.claim().iter().for_each(|run| past.judge(run, rejected(ErrorClass::Final, "gone")));
    let told = world.json("status", 0);
    let failed = &source(&told)["failed"];
    assert_eq!((&failed["final"], &failed["exhausted"]), (&json!(1), &json!(1)), "{told}");
    let group = &told["groups"][0];
    assert_eq!((&group["final"], &group["exhausted"]), (&json!(1), &json!(1)), "{told}");
    let explain = "state explain --source ads --customer-id 111 --query-name daily --logical-date";
    assert_eq!(world.json(&format!("{explain} 2026-01-01"), 0)["reason"], "terminal");
    assert_eq!(world.json(&format!("{explain} 2026-01-02"), 0)["reason"], "final_error");
}

/// OP-10
fn living_processes_and_drift_are_shown(world: MigratedProgram) {
    let world = world.configured(CONFIG);
    world.ago(MINUTE).want(&january("queued", 5));
    let past = world.ago(std::time::Duration::ZERO);
    let process = |kind, config: &str, pid, ago| {
        let now = SystemClock.now().saturating_sub(ago);
        let sources = [("ads".parse().unwrap(), None)].into();
        Process {
            id: past.store.new_process_id(),
            kind,
            name: format!("ada@here pid {pid}"),
            host: "here".to_owned(),
            pid,
            version: "0.1.0".to_owned(),
            config: config.to_owned(),
            serves: Serves { workloads: vec![Workload::Extract], sources, categories: vec![] },
            started_at: now,
            last_seen: now,
            last_claim: None,
            drain: false,
        }
    };
    past.wait(past.store.beat(&process(Kind::Worker, "0ther", 7, std::time::Duration::ZERO))).unwrap();
    past.wait(past.store.beat(&process(Kind::Daemon, "0ther", 8, 2 * MINUTE))).unwrap();
    let told = world.json("status", 0);
    let processes = told["processes"].as_array().unwrap();
    assert_eq!((&processes[0]["kind"], &processes[0]["alive"]), (&json!("daemon"), &json!(false)));
    assert_eq!((&processes[1]["alive"], &processes[1]["drift"]), (&json!(true), &json!(true)));
    let needs = whats(&told);
    assert!(
        needs.iter().any(|(what, _, command)| what.contains("another configuration") && *command == "kill -HUP 7"),
        "{needs:?}"
    );
    assert!(needs.iter().any(|(what, ..)| what.contains("daemon ada@here pid 8 fell silent")), "{needs:?}");
    assert!(!needs.iter().any(|(what, ..)| what.contains("no worker lives")), "{needs:?}");
}

const SECTIONS: &str = "[process.served]\ncategories = [\"here\"]\ncommand = [\"true\"]\n\
                        [process.outside]\ncategories = [\"there\"]\n";

/// OP-1: a worker is no help for jobs whose category no section names.
fn jobs_that_nobody_serves_are_told_apart(world: MigratedProgram) {
    let world = world.configured(SECTIONS);
    for category in ["here", "here", "there", "it's new", "any%"] {
        world.home.run(&["runs", "submit", "--category", category, "-q"]).done();
    }
    let told = world.json("status", 0);
    let needs = whats(&told);
    let of = |part: &str| needs.iter().find(|(what, ..)| what.contains(part)).copied();
    let (_, count, command) = of("queued process runs, and no living worker serves them").unwrap();
    assert_eq!((count, command), (2, "redrive worker --workload process"), "{needs:?}");
    let (what, count, command) = of("category \"any%\"").unwrap();
    assert_eq!((count, command), (1, "redrive runs cancel --category any% --dry-run"));
    assert!(what.contains("nobody serves: name it in a [process.NAME] section, or cancel them"), "{what}");
    let (_, _, command) = of("category \"it's new\"").unwrap();
    assert_eq!(command, "redrive runs cancel --category 'it'\\''s new' --dry-run");
    let (what, _, command) = of("category \"there\"").unwrap();
    assert!(what.contains("[process.outside] has no command and no url, and no outside worker lives"), "{what}");
    assert_eq!(command, "redrive runs list --category there --state queued");
    let cancelled = world.json("runs cancel --category any% --dry-run", 0);
    assert_eq!(cancelled["changed"].as_array().unwrap().len(), 1, "{cancelled}");
}

/// OP-1
fn nothing_at_all_needs_no_person(world: MigratedProgram) {
    let told = world.json("status", 0);
    assert_eq!(told["needs_attention"], json!([]));
    assert_eq!(world.run("status").done().stdout, "nothing needs a person\n");
}

redrive_fixture::on_both!(
    counts_are_by_reason_and_needs_come_with_commands,
    what_is_held_or_cools_down_is_told_apart,
    the_last_attempt_counts_for_more_than_its_error,
    living_processes_and_drift_are_shown,
    jobs_that_nobody_serves_are_told_apart,
    nothing_at_all_needs_no_person,
);

/// What is different every time is named instead, as wide as it was.
macro_rules! shown {
    ($told:expr, @$expected:literal) => {
        insta::with_settings!({filters => vec![
            (r"\b[0-9a-f]{12}\b", "[-group-id-]"),
            (r"\d+ s ago", "[s] ago"),
            (r"≥? ?\d+(?P<due> +due or missing)", "[n]$due"),
            (r"(?m)(?P<row>^ ads +2026.*) +\d+$", "$row [n]"),
            (r"\d+ missing", "[n] missing"),
        ]}, { insta::assert_snapshot!($told, @$expected) })
    };
}

fn at_width(world: &MigratedProgram, line: &str, columns: &str) -> String {
    let mut command = world.home.command(&line.split(' ').collect::<Vec<_>>());
    let output = command.env("COLUMNS", columns).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// OP-1, OP-2
#[test]
fn status_and_groups_fit_eighty_and_a_hundred_and_forty_columns() {
    let world = MigratedProgram::sqlite().configured(CONFIG);
    furnish(&world);
    for columns in ["80", "140"] {
        for line in ["status", "state groups"] {
            let text = at_width(&world, line, columns);
            let width: usize = columns.parse().unwrap();
            let wide = text.lines().find(|line| line.chars().count() > width);
            assert_eq!(wide, None, "{line} at {columns} columns");
        }
    }
    shown!(at_width(&world, "status", "80"), @r#"
    needs a person
            5  queued of ads, and no worker lives
               redrive worker
         [n]  due or missing, and no daemon lives
               redrive daemon
            3  out of attempts: boom (24 h ago)
               redrive state retry --group [-group-id-] --clear-terminal
            4  final: HTTP 401: token <id> has expired (1 min ago)
               redrive state retry --group [-group-id-]

    sources
     ads, newest success 2026-01-07
       7 success, 5 queued, 2 running, 2 waiting, 3 due, 4 final, 3 spent, 1 marked,
       2 paused, [n] missing

    runs
     workload  running  done  dead
     extract         2     7    28

    failure groups
     group         count  class      sources  customers  first seen  last seen
     [-group-id-]      8  retryable  ads              5  24 h ago    1 min ago
       3 waiting, 3 spent, 2 withheld: boom
     [-group-id-]      4  final      ads          final  1 min ago   1 min ago
       4 final: HTTP 401: token <id> has expired
     [-group-id-]      2  retryable  ads        waiting  1 min ago   1 min ago
       2 waiting: timed out after <n>
    "#);
    shown!(at_width(&world, "state groups", "80"), @r#"
    group         count  class      sources  customers  first seen  last seen
    [-group-id-]      8  retryable  ads              5  24 h ago    1 min ago
      3 waiting, 3 spent, 2 withheld: boom
    [-group-id-]      4  final      ads          final  1 min ago   1 min ago
      4 final: HTTP 401: token <id> has expired
    [-group-id-]      2  retryable  ads        waiting  1 min ago   1 min ago
      2 waiting: timed out after <n>
    "#);
    shown!(at_width(&world, "status", "140"), @r#"
    needs a person
         5  queued of ads, and no worker lives                  redrive worker
      [n]  due or missing, and no daemon lives                 redrive daemon
         3  out of attempts: boom                    24 h ago   redrive state retry --group [-group-id-] --clear-terminal
         4  final: HTTP 401: token <id> has expired  1 min ago  redrive state retry --group [-group-id-]

    sources
     source  newest      success  queued  running  waiting  due  final  spent  marked  paused  missing
     ads     2026-01-07        7       5        2        2    3      4      3       1       2      [n]

    runs
     workload  running  done  dead
     extract         2     7    28

    failure groups
     group         count  class      sources  customers  first seen  last seen  what happens next               template
     [-group-id-]      8  retryable  ads              5  24 h ago    1 min ago  3 waiting, 3 spent, 2 withheld  boom
     [-group-id-]      4  final      ads          final  1 min ago   1 min ago  4 final                         HTTP 401: token <id> has expired
     [-group-id-]      2  retryable  ads        waiting  1 min ago   1 min ago  2 waiting                       timed out after <n>
    "#);
    shown!(at_width(&world, "state groups", "140"), @r#"
    group         count  class      sources  customers  first seen  last seen  what happens next               template
    [-group-id-]      8  retryable  ads              5  24 h ago    1 min ago  3 waiting, 3 spent, 2 withheld  boom
    [-group-id-]      4  final      ads          final  1 min ago   1 min ago  4 final                         HTTP 401: token <id> has expired
    [-group-id-]      2  retryable  ads        waiting  1 min ago   1 min ago  2 waiting                       timed out after <n>
    "#);
}
