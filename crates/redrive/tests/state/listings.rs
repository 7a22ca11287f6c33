//! Listings as people see them: as wide as the terminal, numbers to the right, times as seen from now, states in colour.

use insta::assert_snapshot;
use redrive_core::failure::ErrorClass;
use redrive_core::hold::HoldScope;
use redrive_core::partition::{ControlEvent, Judgement};
use redrive_fixture::rejected;

use crate::world::{HOUR, MINUTE, MigratedProgram, january, key};

const CONFIG: &str = r#"
[sources.ads]
customers = ["111-222-3333"]
queries = { daily = {} }
[process.replays]
categories = ["replays"]
command = ["sh", "-c", "echo 'the replay 4711 has no frames after the first minute, which no verdict can be given for' >&2; exit 65"]
"#;

const LISTINGS: [&str; 11] = [
    "state inspect",
    "state inspect --history",
    "state inspect --group-by error",
    "state groups",
    "state terminal",
    "state audit list",
    "state hold list",
    "runs list",
    "runs groups",
    "ingest list",
    "token list",
];

fn scene() -> MigratedProgram {
    let world = MigratedProgram::sqlite().configured(CONFIG);
    let days = january("111-222-3333", 4);
    let past = world.ago(2 * MINUTE);
    past.judged(&days[..1], Judgement::Accepted { records: 1_234_567 });
    let unavailable = "HTTP 503: the upstream of the reporting service did not answer in time, ask its operators";
    past.judged(&days[1..2], rejected(ErrorClass::Retryable, unavailable));
    past.judged(&days[2..3], rejected(ErrorClass::Final, "HTTP 401: the token has expired"));
    past.put(&days[2..3], ControlEvent::MarkTerminal { by: "ada", why: Some("closed"), threshold: 1 });
    past.want(&days[3..]);
    let long_ago = world.ago(HOUR);
    let scope = HoldScope::new("ads".parse().unwrap(), Some("444".parse().unwrap()));
    let mut operation = long_ago.operation("hold");
    operation.reason = Some("the contract of this customer is being checked by the people who sell it".to_owned());
    long_ago.wait(long_ago.store.control().set_hold(&operation, scope, None)).unwrap();
    past.want(&[key("444", "daily", "2026-01-01")]);
    world.home.write("props.conf", "[a]\nb = c\n");
    for line in [
        "runs submit --category replays --external-id 4711",
        "runs submit --category unheard-of",
        "ingest upload props.conf",
        "worker --drain --workload ingest,process",
        "token create --name nightly --role operator --expires 30d",
        "state pause --source ads --customer-id 444 --reason holiday",
    ] {
        let mut command = world.home.command(&line.split(' ').collect::<Vec<_>>());
        let output = command.env("REDRIVE_ACTOR", "ada@desk").env("PATH", "/usr/bin:/bin").output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
    }
    world
}

fn shown(world: &MigratedProgram, line: &str, variables: &[(&str, &str)]) -> String {
    let mut command = world.home.command(&line.split(' ').collect::<Vec<_>>());
    let output = command.env("REDRIVE_ACTOR", "ada@desk").envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// All listings, one below the other.
fn all(world: &MigratedProgram, columns: &str) -> String {
    let one = |line: &&str| format!("> {line}\n{}\n", shown(world, line, &[("COLUMNS", columns)]));
    LISTINGS.iter().map(one).collect()
}

/// What is different every time is named instead, as wide as it was where its column is.
macro_rules! snapshot {
    ($told:expr, @$expected:literal) => {
        insta::with_settings!({filters => vec![
            (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "[--------------- id ---------------]"),
            (r"\b[0-9a-f]{12}\b", "[-group-id-]"),
            (r"…[0-9A-Za-z_-]{4}\b", "…[l4]"),
            (r"20\d\d-\d\d-\d\dT[0-9:.]+Z", "[time]"),
            (r"in \d min", "in [n] min"),
            // As wide as the seconds that it stands for.
            (r"now {4}( {2,})", "[s] ago$1"),
            (r"(?m)(now|\d+ s ago)( {2,}|$)", "[s] ago$2"),
        ]}, { assert_snapshot!($told, @$expected) })
    };
}

#[test]
fn every_listing_fits_the_terminal() {
    let world = scene();
    for columns in ["40", "80", "140"] {
        let text = all(&world, columns);
        let width: usize = columns.parse().unwrap();
        let wide = text.lines().find(|line| line.chars().count() > width && !line.starts_with("> "));
        assert_eq!(wide, None, "at {columns} columns");
    }
    snapshot!(all(&world, "80"), @r#"
    > state inspect
     source  customer      query  date        status   attempts  records
     ads     111-222-3333  daily  2026-01-01  success         1  1234567
     ads     111-222-3333  daily  2026-01-02  failed          1
       retry in [n] min: HTTP 503: the upstream of the reporting service did not answ…
     ads     111-222-3333  daily  2026-01-03  failed          1
       terminal: [terminal] HTTP 401: the token has expired
     ads     111-222-3333  daily  2026-01-04  pending         0
       queued, fresh
     ads     444           daily  2026-01-01  pending         0
       paused

    > state inspect --history
     source  customer      query  date        status   attempts  records
     ads     111-222-3333  daily  2026-01-01  success         1  1234567
                                              success         1
       2 min ago
     ads     111-222-3333  daily  2026-01-02  failed          1
       retry in [n] min: HTTP 503: the upstream of the reporting service did not answ…
                                              failed          1
       2 min ago: HTTP 503: the upstream of the reporting service did not answer in…
     ads     111-222-3333  daily  2026-01-03  failed          1
       terminal: [terminal] HTTP 401: the token has expired
                                              failed          1
       2 min ago: HTTP 401: the token has expired
     ads     111-222-3333  daily  2026-01-04  pending         0
       queued, fresh
     ads     444           daily  2026-01-01  pending         0
       paused

    > state inspect --group-by error
     count  class      error
         1  final      [terminal] HTTP 401: the token has expired
         1  retryable  HTTP 503: the upstream of the reporting service did not answ…

    > state groups
     group         count  class      sources     customers  first seen  last seen
     [-group-id-]      1  retryable  ads      111-222-3333  2 min ago   2 min ago
       1 waiting: HTTP 503: the upstream of the reporting service did not answer in…
     [-group-id-]      1  final      ads      111-222-3333  2 min ago   2 min ago
       1 withheld: HTTP 401: the token has expired

    > state terminal
     source  customer      query  date        status  attempts
     ads     111-222-3333  daily  2026-01-03  failed         1
       terminal: [terminal] HTTP 401: the token has expired

    > state audit list
     at         operation                             actor        changes
     [s] ago    [--------------- id ---------------]  ada@desk           1
       redrive state pause --source ads --customer-id 444 --reason holiday: holiday
     [s] ago    [--------------- id ---------------]  ada@desk           0
       redrive token create --name nightly --role operator --expires 30d
     2 min ago  [--------------- id ---------------]  tester@here        1
       want
     1 h ago    [--------------- id ---------------]  tester@here        1
       hold: the contract of this customer is being checked by the people who sell…
     2 min ago  [--------------- id ---------------]  tester@here        1
       want
     2 min ago  [--------------- id ---------------]  tester@here        1
       test
     2 min ago  [--------------- id ---------------]  tester@here        1
       want
     2 min ago  [--------------- id ---------------]  tester@here        1
       want
     2 min ago  [--------------- id ---------------]  tester@here        1
       want

    > state hold list
     source  customer  query  kind      since    until   by
     ads     444       (all)  operator  1 h ago  lifted  tester@here
       the contract of this customer is being checked by the people who sell it

    > runs list
     id                                    category    status      submitted
     [--------------- id ---------------]              COMPLETE    [s] ago
     [--------------- id ---------------]  unheard-of  discovered  [s] ago
     [--------------- id ---------------]  replays     error       [s] ago
       sh ended with exit code 65: the replay 4711 has no frames after the first mi…
     [--------------- id ---------------]              failed      2 min ago
       HTTP 401: the token has expired
     [--------------- id ---------------]              failed      2 min ago
       HTTP 503: the upstream of the reporting service did not answer in time, ask…
     [--------------- id ---------------]              success     2 min ago

    > runs groups
     group         count  class  final  categories  last seen
     [-group-id-]      1  final      1  replays     [s] ago
       sh ended with exit code 65: the replay <key> has no frames after the first m…

    > ingest list
     id                                    file        status    retries  submitted
     [--------------- id ---------------]  props.conf  COMPLETE        0  [s] ago

    > token list
     name     role      state  ends in  expires     made by
     nightly  operator  valid  …[l4]    in 29 days  ada@desk
    "#);
    snapshot!(all(&world, "140"), @r#"
    > state inspect
     source  customer      query  date        status   attempts  records  next            error
     ads     111-222-3333  daily  2026-01-01  success         1  1234567
     ads     111-222-3333  daily  2026-01-02  failed          1           retry in [n] min  HTTP 503: the upstream of the reporting service did n…
     ads     111-222-3333  daily  2026-01-03  failed          1           terminal        [terminal] HTTP 401: the token has expired
     ads     111-222-3333  daily  2026-01-04  pending         0           queued, fresh
     ads     444           daily  2026-01-01  pending         0           paused

    > state inspect --history
     source  customer      query  date        status   attempts  records  next            error
     ads     111-222-3333  daily  2026-01-01  success         1  1234567
                                              success         1           2 min ago
     ads     111-222-3333  daily  2026-01-02  failed          1           retry in [n] min  HTTP 503: the upstream of the reporting service did n…
                                              failed          1           2 min ago       HTTP 503: the upstream of the reporting service did n…
     ads     111-222-3333  daily  2026-01-03  failed          1           terminal        [terminal] HTTP 401: the token has expired
                                              failed          1           2 min ago       HTTP 401: the token has expired
     ads     111-222-3333  daily  2026-01-04  pending         0           queued, fresh
     ads     444           daily  2026-01-01  pending         0           paused

    > state inspect --group-by error
     count  class      error
         1  final      [terminal] HTTP 401: the token has expired
         1  retryable  HTTP 503: the upstream of the reporting service did not answer in time, ask its operators

    > state groups
     group         count  class      sources     customers  first seen  last seen  what happens next  template
     [-group-id-]      1  retryable  ads      111-222-3333  2 min ago   2 min ago  1 waiting          HTTP 503: the upstream of the reporting s…
     [-group-id-]      1  final      ads      111-222-3333  2 min ago   2 min ago  1 withheld         HTTP 401: the token has expired

    > state terminal
     source  customer      query  date        status  attempts  next      error
     ads     111-222-3333  daily  2026-01-03  failed         1  terminal  [terminal] HTTP 401: the token has expired

    > state audit list
     at         operation                             actor        changes  command                            reason
     [s] ago    [--------------- id ---------------]  ada@desk           1  redrive state pause --source ads…  holiday
     [s] ago    [--------------- id ---------------]  ada@desk           0  redrive token create --name nigh…
     2 min ago  [--------------- id ---------------]  tester@here        1  want
     1 h ago    [--------------- id ---------------]  tester@here        1  hold                               the contract of this customer is…
     2 min ago  [--------------- id ---------------]  tester@here        1  want
     2 min ago  [--------------- id ---------------]  tester@here        1  test
     2 min ago  [--------------- id ---------------]  tester@here        1  want
     2 min ago  [--------------- id ---------------]  tester@here        1  want
     2 min ago  [--------------- id ---------------]  tester@here        1  want

    > state hold list
     source  customer  query  kind      since    until   by           why
     ads     444       (all)  operator  1 h ago  lifted  tester@here  the contract of this customer is being checked by the people who sell it

    > runs list
     id                                    workload  category    status      retries  submitted  error
     [--------------- id ---------------]  ingest                COMPLETE          0  [s] ago
     [--------------- id ---------------]  process   unheard-of  discovered        0  [s] ago
     [--------------- id ---------------]  process   replays     error             0  [s] ago    sh ended with exit code 65: the replay 4711 ha…
     [--------------- id ---------------]  extract               failed            0  2 min ago  HTTP 401: the token has expired
     [--------------- id ---------------]  extract               failed            0  2 min ago  HTTP 503: the upstream of the reporting servic…
     [--------------- id ---------------]  extract               success           0  2 min ago

    > runs groups
     group         count  class  final  categories  last seen  template
     [-group-id-]      1  final      1  replays     [s] ago    sh ended with exit code 65: the replay <key> has no frames after the first minut…

    > ingest list
     id                                    file        status    retries  submitted
     [--------------- id ---------------]  props.conf  COMPLETE        0  [s] ago

    > token list
     name     role      state  ends in  expires     made by
     nightly  operator  valid  …[l4]    in 29 days  ada@desk
    "#);
}

/// What goes into a file or a pipe has every column, whole, and times to the microsecond.
#[test]
fn what_is_piped_is_not_cut() {
    let world = scene();
    let text = shown(&world, "runs list", &[]);
    assert!(text.contains("which no verdict can be given for") && !text.contains('…'), "{text}");
    let header: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["id", "workload", "category", "status", "retries", "submitted", "next", "error"]);
    assert!(text.lines().skip(1).all(|line| line.contains("Z  ") || line.ends_with('Z')), "{text}");
    let text = shown(&world, "state inspect", &[]);
    assert!(text.contains("retry at 20") && text.contains("ask its operators"), "{text}");
}

/// `--color` is heeded, and without it `NO_COLOR` and what stdout is.
#[test]
fn colours_are_for_who_wants_them() {
    let world = scene();
    let (red, green) = ("\u{1b}[31m", "\u{1b}[32m");
    for line in LISTINGS {
        for plain in [line.to_owned(), format!("{line} --color auto"), format!("{line} --color never")] {
            assert!(!shown(&world, &plain, &[]).contains('\u{1b}'), "{plain}");
        }
    }
    let text = shown(&world, "state inspect --color always", &[]);
    assert!(text.contains(&format!("{green}success")) && text.contains(&format!("{red}failed")), "{text}");
    assert!(shown(&world, "runs list --color always", &[]).contains(&format!("{red}error")));
    assert!(shown(&world, "status --color always", &[]).contains('\u{1b}'));
    assert!(!shown(&world, "status", &[]).contains('\u{1b}'));
    for format in ["json", "jsonl", "csv"] {
        let text = shown(&world, &format!("state inspect --color always -o {format}"), &[]);
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
