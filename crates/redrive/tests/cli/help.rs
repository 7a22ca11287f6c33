//! `--help`, `--version`, and what is no command at all.

use insta::assert_snapshot;

use crate::home::Home;

#[test]
fn help_lists_the_commands() {
    assert_snapshot!(Home::new().run(&["--help"]), @r#"
    Retry and reprocessing control plane for data ingestion

    Usage: redrive [OPTIONS] <COMMAND>

    Commands:
      init         Write a redrive.toml and make the database
      demo         Show the main job in one command, on a made-up source in a folder of its own
      migrate      Bring the database's schema up to date
      status       Say what needs a person, and how everything stands
      doctor       Check configuration, database and raw sink, and say what is wrong
      state        Look at partitions and decide what happens to them
      ingest       Upload configuration archives, and look at what is in them
      runs         Submit jobs, look at runs of every kind, and decide what happens to them
      data         Read what succeeded: only the current run of each partition
      daemon       Requeue failures when their backoff has passed, and want what calendars expect
      worker       Do what is wanted: extract partitions, parse uploads, handle jobs
      serve        Serve the HTTP API, with a worker and a daemon in the same process
      token        Make, list and revoke the tokens that callers of the server sign in with
      notify       List notifications, and send a test to their receivers
      bench        Measure this machine
      completions  Print a completion script for a shell
      man          Write the manual pages into a directory
      help         Print this message or the help of the given subcommand(s)

    Options:
          --config <FILE>            The configuration file [default: redrive.toml if there is one]
      -o, --output <OUTPUT>          How to print what is found [default: table] [possible values:
                                     table, json, jsonl, csv]
      -q, --quiet                    Say only what is asked for
      -v, --verbose...               Say more; twice for everything
          --log-format <LOG_FORMAT>  How the log on stderr is written; json is an object a line
                                     [default: text] [possible values: text, json]
          --color <WHEN>             When to colour what people read; NO_COLOR is heeded without it
                                     [default: auto] [possible values: auto, always, never]
      -h, --help                     Print help
      -V, --version                  Print version
    --- stderr
    --- exit 0
    "#);
}

/// Every command an operator types has an example in its help.
#[test]
fn every_command_of_an_operator_has_an_example() {
    fn commands(home: &Home, words: &[&str], found: &mut Vec<String>) {
        let told = home.run(&[words, &["--help"]].concat()).done();
        let listed = told.stdout.split("Commands:\n").nth(1).map(|rest| rest.split("\n\n").next().unwrap().to_owned());
        let Some(listed) = listed else {
            return match told.stdout.contains("Examples:\n  redrive ") || told.stdout.contains(" | redrive ") {
                true => {}
                false => found.push(words.join(" ")),
            };
        };
        let names = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        for name in names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
            commands(home, &[words, &[name]].concat(), found);
        }
    }
    let (home, mut without) = (Home::new(), Vec::new());
    for group in ["state", "runs", "ingest"] {
        commands(&home, &[group], &mut without);
    }
    assert!(without.is_empty(), "no example: {without:?}");
}

#[test]
fn a_commands_help_names_its_flags_and_their_defaults() {
    let home = Home::new();
    assert_snapshot!(home.run(&["init", "--help"]), @r#"
    Write a redrive.toml and make the database

    Usage: redrive init [OPTIONS] [DIRECTORY]

    Arguments:
      [DIRECTORY]  Where to [default: here]

    Options:
          --config <FILE>            The configuration file [default: redrive.toml if there is one]
          --store <URL>              The database to use
          --force                    Replace a redrive.toml that is there
      -o, --output <OUTPUT>          How to print what is found [default: table] [possible values:
                                     table, json, jsonl, csv]
          --adopt-sink               Take the configured raw sink for this database's, whatever it is
      -q, --quiet                    Say only what is asked for
      -v, --verbose...               Say more; twice for everything
          --log-format <LOG_FORMAT>  How the log on stderr is written; json is an object a line
                                     [default: text] [possible values: text, json]
          --color <WHEN>             When to colour what people read; NO_COLOR is heeded without it
                                     [default: auto] [possible values: auto, always, never]
      -h, --help                     Print help
      -V, --version                  Print version
    --- stderr
    --- exit 0
    "#);
    assert_snapshot!(home.run(&["data", "cat", "--help"]), @r#"
    Print the records, one JSON value a line, exactly as they came

    Usage: redrive data cat [OPTIONS]

    Options:
          --all                      Everything there is, when no filter is given
          --config <FILE>            The configuration file [default: redrive.toml if there is one]
      -o, --output <OUTPUT>          How to print what is found [default: table] [possible values:
                                     table, json, jsonl, csv]
          --run <RUN>                What this attempt brought, accepted or not; the beginning of its id
                                     serves
      -q, --quiet                    Say only what is asked for
          --stderr                   With --run: what the attempt's programs wrote on stderr, as far as
                                     it was kept, instead of the records
      -v, --verbose...               Say more; twice for everything
          --log-format <LOG_FORMAT>  How the log on stderr is written; json is an object a line
                                     [default: text] [possible values: text, json]
          --color <WHEN>             When to colour what people read; NO_COLOR is heeded without it
                                     [default: auto] [possible values: auto, always, never]
      -h, --help                     Print help
      -V, --version                  Print version

    Filter:
          --source <SOURCE>            Of this source; more than once for several
          --customer-id <CUSTOMER_ID>  Of this customer; more than once for several
          --query-name <QUERY_NAME>    Of this query; more than once for several
          --logical-date <DATE>        One day: YYYY-MM-DD, `today`, `yesterday`, or days ago like `7d`
          --since <DATE>               The first day
          --until <DATE>               The last day
          --status <STATUS>            As they are now [possible values: pending, success, failed]
          --error-class <ERROR_CLASS>  What their last error was [possible values: final, retryable,
                                       rate_limited]
          --group <ID>                 Failed now, of this failure group; an unambiguous beginning of
                                       its id serves
    --- stderr
    --- exit 0
    "#);
    assert_snapshot!(home.run(&["bench", "queue", "--help"]), @r#"
    No-op runs: enqueue, drain (claim and complete, durably), and pickup when idle

    Usage: redrive bench queue [OPTIONS]

    Options:
          --config <FILE>            The configuration file [default: redrive.toml if there is one]
          --store <URL>              The database to measure; a scratch file or schema is made beside it
                                     [default: store.url]
          --baseline                 Also run a hand-written loop of the same statements, and print the
                                     ratio
      -o, --output <OUTPUT>          How to print what is found [default: table] [possible values:
                                     table, json, jsonl, csv]
          --force                    Measure a database that holds another program's tables
      -q, --quiet                    Say only what is asked for
          --jobs <JOBS>              How many runs [default: 20000]
      -v, --verbose...               Say more; twice for everything
          --batch <BATCH>            How many runs a worker claims and completes at once [default: 1000]
          --log-format <LOG_FORMAT>  How the log on stderr is written; json is an object a line
                                     [default: text] [possible values: text, json]
          --color <WHEN>             When to colour what people read; NO_COLOR is heeded without it
                                     [default: auto] [possible values: auto, always, never]
          --workers <WORKERS>        How many workers, each with its own connection [default: 2]
          --worker                   Also drain as many runs with a whole worker, whose handler is Rust
                                     code that passes every job
          --commands <N>             Also run so many short commands through a whole worker, and as many
                                     with xargs, 16 at once
          --pickups <PICKUPS>        How often to measure the pickup of a single run [default: 200]
          --singles <N>              Also have 64 callers submit so many single runs each
          --history <N>              Also measure what a claim costs beside so many finished runs
          --waiting <N>              With --history: how many runs also wait for their time [default: 0]
      -h, --help                     Print help
      -V, --version                  Print version
    --- stderr
    --- exit 0
    "#);
    assert_snapshot!(home.run(&["bench", "state", "--help"]), @r#"
    Bulk retry with audit, a page of inspect, and the selection of what is due

    Usage: redrive bench state [OPTIONS]

    Options:
          --config <FILE>            The configuration file [default: redrive.toml if there is one]
          --store <URL>              The database to measure; a scratch file or schema is made beside it
                                     [default: store.url]
          --baseline                 Also run a hand-written loop of the same statements, and print the
                                     ratio
      -o, --output <OUTPUT>          How to print what is found [default: table] [possible values:
                                     table, json, jsonl, csv]
          --force                    Measure a database that holds another program's tables
      -q, --quiet                    Say only what is asked for
          --partitions <PARTITIONS>  How many failed partitions to retry [default: 100000]
      -v, --verbose...               Say more; twice for everything
          --failed <FAILED>          How many failed partitions the table holds [default: as many as are
                                     retried]
          --log-format <LOG_FORMAT>  How the log on stderr is written; json is an object a line
                                     [default: text] [possible values: text, json]
          --color <WHEN>             When to colour what people read; NO_COLOR is heeded without it
                                     [default: auto] [possible values: auto, always, never]
          --rows <ROWS>              How many partitions the table holds in all [default: ten times the
                                     failed ones]
          --due <DUE>                How many of the failed ones are due [default: 1000]
      -h, --help                     Print help
      -V, --version                  Print version
    --- stderr
    --- exit 0
    "#);
}

#[test]
fn the_version_is_that_of_the_package() {
    let expected = format!("redrive {}\n", env!("CARGO_PKG_VERSION"));
    for arguments in [["--version"].as_slice(), &["-V"]] {
        let told = Home::new().run(arguments).done();
        assert_eq!((told.stdout.as_str(), told.stderr.as_str()), (expected.as_str(), ""));
    }
}

#[test]
fn without_a_command_the_help_is_shown_as_a_complaint() {
    let told = Home::new().run(&[]);
    assert_eq!((told.code, told.stdout.as_str()), (2, ""));
    assert!(told.stderr.contains("Usage: redrive"), "{told}");
}

#[test]
fn wrong_usage_is_exit_2_on_stderr() {
    for wrong in [
        ["frobnicate"].as_slice(),
        &["init", "--frobnicate"],
        &["bench"],
        &["bench", "queue", "--jobs", "0"],
        &["bench", "queue", "--workers", "many"],
        &["doctor", "-o", "xml"],
        &["doctor", "-q", "-v"],
        &["completions", "tcsh++"],
    ] {
        let home = Home::new();
        let told = home.run(wrong);
        assert_eq!((told.code, told.stdout.as_str()), (2, ""), "{wrong:?}\n{told}");
        assert!(!told.stderr.is_empty(), "{wrong:?}");
        assert!(home.files().is_empty(), "{wrong:?} left {:?}", home.files());
    }
}
