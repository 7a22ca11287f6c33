//! `redrive.toml`, the environment over it, and what is wrong with either.

use insta::assert_snapshot;

use crate::home::Home;

#[test]
fn an_unknown_key_is_named_with_file_and_line() {
    let home = Home::with_config("[store]\nurl = \"sqlite:redrive.db\"\n\n[worker]\nconcurency = 4\n");
    assert_snapshot!(home.run(&["doctor"]).complaint(2), @"error: redrive.toml:5: worker.concurency: unknown field `concurency`, expected one of `concurrency`, `lease`, `heartbeat`, `poll`, `grace`");
    let home = Home::with_config("[wroker]\nconcurrency = 4\n");
    assert_snapshot!(home.run(&["migrate"]).complaint(2), @"error: redrive.toml:1: wroker: unknown field `wroker`, expected one of `store`, `raw`, `worker`, `daemon`, `safety`, `server`, `sources`, `process`, `ingest`, `notify`, `telemetry`");
    assert_eq!(home.files(), ["redrive.toml"]);
}

#[test]
fn a_bad_value_is_named_with_file_and_line() {
    let told = |text: &str| Home::with_config(text).run(&["doctor"]).complaint(2);
    assert_snapshot!(told("[worker]\nlease = \"five minutes\"\n"), @r#"error: redrive.toml:2: worker.lease: "five minutes" is not a duration; write it like "90s", "5m", "1h30m" or "30d""#);
    assert_snapshot!(told("[daemon]\ninterval = 60\n"), @"error: redrive.toml:2: daemon.interval: invalid type: integer `60`, expected a string");
    assert_snapshot!(told("[worker]\nconcurrency = -1\n"), @"error: redrive.toml:2: worker.concurrency: invalid value: integer `-1`, expected u32");
    assert_snapshot!(told("[safety]\nearliest_date = \"2026-02-30\"\n"), @r#"error: redrive.toml:2: safety.earliest_date: logical date "2026-02-30" is not a calendar day; write it as YYYY-MM-DD"#);
    assert_snapshot!(told("[worker]\nlease = '2m'\nlease = '2m'\n"), @"error: redrive.toml:3: lease: duplicate key");
    assert_snapshot!(told("[store\n"), @"error: redrive.toml:1: store: unclosed table, expected `]`");
}

#[test]
fn values_that_cannot_go_together_are_refused() {
    let told = |text: &str| Home::with_config(text).run(&["doctor"]).complaint(2);
    assert_snapshot!(told("[worker]\nlease = \"30s\"\n"), @"error: redrive.toml:2: worker.lease: heartbeat is more than half of lease; one late heartbeat would lose it");
    assert_snapshot!(told("[worker]\nlease = \"2m\"\nheartbeat = \"61s\"\n"), @"error: redrive.toml:3: worker.heartbeat: heartbeat is more than half of lease; one late heartbeat would lose it");
    assert_snapshot!(told("[worker]\nheartbeat = \"0s\"\n"), @"error: redrive.toml:2: worker.heartbeat: 0 is too little; a worker would do nothing else");
    assert_snapshot!(told("[worker]\npoll = \"0s\"\n"), @"error: redrive.toml:2: worker.poll: 0 is too little; an idle worker would never rest");
    assert_snapshot!(told("[daemon]\ninterval = \"0s\"\n"), @"error: redrive.toml:2: daemon.interval: 0 is too little; the daemon would never rest");
    assert_snapshot!(told("[worker]\nconcurrency = 0\n"), @"error: redrive.toml:2: worker.concurrency: 0 is too little; a worker needs at least 1");
}

#[test]
fn a_malformed_url_is_a_configuration_mistake() {
    let told = |text: &str| Home::with_config(text).run(&["migrate"]).complaint(2);
    assert_snapshot!(told("[store]\nurl = \"mysql://u:hunter2@h/db\"\n"), @r#"error: redrive.toml:2: store.url: store url "mysql://u:***@h/db" is not understood: it starts with neither sqlite: nor postgres://; write sqlite:FILE or postgres://user@host/database"#);
    assert_snapshot!(told("[raw]\nurl = \"gs://lake\"\n"), @r#"error: redrive.toml:2: raw.url: raw url "gs://lake" has a scheme this build does not know; write file:DIRECTORY or s3://BUCKET/PREFIX"#);
    let told = Home::new().env("REDRIVE_STORE__URL", "mysql://u:hunter2@h/db").run(&["migrate"]).complaint(2);
    assert_snapshot!(told, @r#"error: REDRIVE_STORE__URL: store url "mysql://u:***@h/db" is not understood: it starts with neither sqlite: nor postgres://; write sqlite:FILE or postgres://user@host/database"#);
}

#[test]
fn a_variable_overrides_its_key() {
    let home =
        Home::with_config("[store]\nurl = \"sqlite:from_file.db\"\n").env("REDRIVE_STORE__URL", "sqlite:mine.db");
    assert_snapshot!(home.run(&["migrate"]), @r"
    mine.db went from version 0 to 1
    --- stderr
    --- exit 0
    ");
    assert_eq!(home.files(), ["mine.db", "redrive.toml"]);
}

#[test]
fn variables_serve_without_a_file() {
    let home = Home::new().env("REDRIVE_STORE__URL", "sqlite:mine.db").env("REDRIVE_WORKER__CONCURRENCY", "2");
    home.run(&["migrate"]).done();
    assert_eq!(home.files(), ["mine.db"]);
}

#[test]
fn a_bad_variable_is_named() {
    let told = |name: &str, value: &str| Home::new().env(name, value).run(&["doctor"]).complaint(2);
    assert_snapshot!(told("REDRIVE_WORKER__LEASE", "soon"), @r#"error: REDRIVE_WORKER__LEASE: "soon" is not a duration; write it like "90s", "5m", "1h30m" or "30d""#);
    assert_snapshot!(told("REDRIVE_WORKER__CONCURRENCY", "many"), @r#"error: REDRIVE_WORKER__CONCURRENCY: invalid type: string "many", expected u32"#);
    assert_snapshot!(told("REDRIVE_WORKER__LEASES", "2m"), @"error: REDRIVE_WORKER__LEASES: unknown field `leases`, expected one of `concurrency`, `lease`, `heartbeat`, `poll`, `grace`");
    assert_snapshot!(told("REDRIVE_STORE__URL__HOST", "h"), @"error: REDRIVE_STORE__URL__HOST: invalid type: map, expected a string");
}

#[test]
fn a_variable_that_makes_values_clash_is_no_fault_of_a_file() {
    let line = Home::new().env("REDRIVE_WORKER__CONCURRENCY", "0").run(&["doctor"]).complaint(2);
    assert_snapshot!(line, @"error: REDRIVE_WORKER__CONCURRENCY: 0 is too little; a worker needs at least 1");
}

#[test]
fn other_variables_of_ours_are_no_keys() {
    Home::new().env("REDRIVE_TEST_POSTGRES", "x").env("REDRIVE_CONFIG_", "y").run(&["migrate"]).done();
}

#[test]
fn the_flag_goes_before_the_variable_and_the_variable_before_the_folder() {
    let home = Home::with_config("[store]\nurl = \"sqlite:folder.db\"\n").env("REDRIVE_CONFIG", "variable.toml");
    home.write("variable.toml", "[store]\nurl = \"sqlite:variable.db\"\n");
    home.write("flag.toml", "[store]\nurl = \"sqlite:flag.db\"\n");
    home.run(&["migrate"]).done();
    assert!(home.file("variable.db").exists() && !home.file("folder.db").exists());
    home.run(&["migrate", "--config", "flag.toml"]).done();
    assert!(home.file("flag.db").exists() && !home.file("folder.db").exists());
}

#[test]
fn a_file_that_was_named_must_be_there() {
    let told = Home::new().run(&["doctor", "--config", "mine.toml"]);
    assert_snapshot!(told.complaint(2), @"error: cannot read mine.toml: No such file or directory (os error 2)");
    let told = Home::new().env("REDRIVE_CONFIG", "mine.toml").run(&["doctor"]);
    assert_snapshot!(told.complaint(2), @"error: cannot read mine.toml: No such file or directory (os error 2)");
}

/// Every piece of configuration in the documents is understood, and the one that begins with the store is what `init`
/// writes, but for its comments.
#[test]
fn the_documents_show_the_defaults_and_keys_that_exist() {
    let documents = [
        include_str!("../../../../README.md"),
        include_str!("../../../../docs/configuration.md"),
        include_str!("../../../../docs/extractors.md"),
        include_str!("../../../../docs/jobs.md"),
    ];
    let shown: Vec<_> = documents
        .iter()
        .flat_map(|text| text.split("```toml\n").skip(1))
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(shown.len() > 6, "{shown:?}");
    for text in &shown {
        let told = Home::with_config(text).run(&["doctor", "-o", "json"]).json();
        assert_eq!(told["checks"][0]["ok"], true, "{text}\n{told}");
    }
    let home = Home::new();
    home.run(&["init"]).done();
    let read = |text: &str| text.parse::<toml::Table>().unwrap();
    let defaults = shown.iter().find(|text| text.starts_with("[store]")).unwrap();
    assert_eq!(read(defaults), read(&home.read("redrive.toml")));
}

/// Whatever is wrong with a line that holds a password, the password is not repeated.
#[test]
fn a_password_in_a_wrong_line_is_not_repeated() {
    for text in [
        "[store]\nulr = \"postgres://u:hunter2@h/db\"\n",
        "[store]\nurl = \"postgres://u:hunter2@h/db\n",
        "[store]\nurl = [\"postgres://u:hunter2@h/db\"]\n",
        "[store]\nurl = \"postgres://u:hunter2@h/db\" x\n",
        "store = \"postgres://u:hunter2@h/db\"\n",
        "[store]\nurl = \"\"\"\npostgres://u:hunter2@h/db",
        "[sources.a.extract]\nkind = \"google-ads\"\nclient_id = \"hunter2\"\n",
    ] {
        Home::with_config(text).run(&["doctor"]).complaint(2);
    }
}

#[test]
fn a_password_in_a_wrong_variable_is_not_repeated() {
    for name in ["REDRIVE_STORE__ULR", "REDRIVE_STORE__URL__X", "REDRIVE_WORKER__LEASE", "REDRIVE_WORKER__CONCURRENCY"]
    {
        Home::new().env(name, "postgres://u:hunter2@h/db").run(&["doctor"]).complaint(2);
    }
    let ads = Home::with_config("[sources.a.extract]\nkind = \"google-ads\"\n");
    ads.env("REDRIVE_SOURCES__A__EXTRACT__CLIENT_ID", "hunter2").run(&["doctor"]).complaint(2);
}

/// Variables are written in capitals; the file's names may have some.
#[test]
fn a_variable_finds_a_name_with_capitals() {
    let text = "[sources.Slow-One]\nmax_in_flight = 3\n[sources.Slow-One.extract]\nkind = \"sample\"\n";
    let home = Home::with_config(text).env("REDRIVE_SOURCES__SLOW-ONE__MAX_IN_FLIGHT", "0");
    let told = home.run(&["worker", "--drain"]).complaint(2);
    assert_snapshot!(told, @"error: REDRIVE_SOURCES__SLOW-ONE__MAX_IN_FLIGHT: 0 is too little; nothing would ever run");
}

const ADS: &str = "[sources.ads.extract]\nkind = 'google-ads'\nclient_id = { env = 'A' }\nclient_secret = { env = 'A' }\nrefresh_token = { env = 'A' }\n";

#[test]
fn a_variable_can_give_a_text_that_looks_like_something_else() {
    for value in ["\"1234567890\"", "'1234567890'", "123-456-7890"] {
        let home = Home::with_config(ADS).env("REDRIVE_SOURCES__ADS__EXTRACT__LOGIN_CUSTOMER_ID", value);
        let told = home.run(&["doctor", "-o", "json"]).json();
        assert_eq!((&told["checks"][0]["ok"], &told["checks"][1]["ok"]), (&true.into(), &true.into()), "{told}");
    }
    // Without quotes it is what TOML takes it for. It may be a secret, and is not repeated.
    for value in ["1234567890", "0.25", "true"] {
        let name = "REDRIVE_SOURCES__ADS__EXTRACT__LOGIN_CUSTOMER_ID";
        let told = Home::with_config(ADS).env(name, value).run(&["doctor"]).complaint(2);
        assert!(told.starts_with(&format!("error: {name}: this key holds a text")), "{told}");
        assert!(told.contains("write it in quotes") && !told.contains(value), "{told}");
    }
    let told = |value: &str| Home::new().env("REDRIVE_WORKER__CONCURRENCY", value).run(&["doctor"]).complaint(2);
    assert_snapshot!(told("true"), @"error: REDRIVE_WORKER__CONCURRENCY: invalid type: boolean `true`, expected u32");
    assert_snapshot!(told("\"4\""), @r#"error: REDRIVE_WORKER__CONCURRENCY: invalid type: string "4", expected u32"#);
    assert_snapshot!(told("-1"), @"error: REDRIVE_WORKER__CONCURRENCY: invalid value: integer `-1`, expected u32");
}

#[test]
fn a_variable_that_may_mean_either_of_two_keys_is_refused() {
    let text = "[sources.Ads.extract]\nkind = 'sample'\n[sources.ads.extract]\nkind = 'sample'\n";
    let told = |name: &str| Home::with_config(text).env(name, "0").run(&["worker", "--drain"]).complaint(2);
    assert_snapshot!(told("REDRIVE_SOURCES__ADS__MAX_IN_FLIGHT"), @"error: REDRIVE_SOURCES__ADS__MAX_IN_FLIGHT: ADS may be Ads or ads; spell it as the file does, capitals included");
    assert_snapshot!(told("REDRIVE_SOURCES__ads__MAX_IN_FLIGHT"), @"error: REDRIVE_SOURCES__ads__MAX_IN_FLIGHT: 0 is too little; nothing would ever run");
    assert_snapshot!(told("REDRIVE_SOURCES__Ads__MAX_IN_FLIGHT"), @"error: REDRIVE_SOURCES__Ads__MAX_IN_FLIGHT: 0 is too little; nothing would ever run");
}

/// What would keep every worker from starting is wrong; a secret that is not here is only told.
#[test]
fn doctor_tells_what_keeps_workers_from_starting() {
    let wrong = "[sources.a.extract]\nkind = \"sample\"\n[sources.a.validate]\nmin_records = 5\nmax_records = 1\n";
    let home = Home::with_config(wrong);
    home.run(&["migrate"]).done();
    let told = home.run(&["doctor"]);
    assert_eq!(told.code, 1, "{told}");
    assert!(told.stdout.contains("fail  sources") && told.stdout.contains("min_records"), "{told}");
    let elsewhere =
        "[sources.a.extract]\nkind = \"command\"\ncommand = [\"true\"]\nenv = { KEY = { env = \"NOT_HERE\" } }\n";
    let home = Home::with_config(elsewhere);
    home.run(&["migrate"]).done();
    let told = home.run(&["doctor"]).done();
    assert!(told.stdout.contains(" warn  sources        a cannot be used here"), "{told}");
    assert!(told.stdout.contains("NOT_HERE"), "{told}");
    let told = home.run(&["doctor", "-o", "json"]).done().json();
    assert_eq!((&told["checks"][1]["ok"], &told["checks"][1]["note"]), (&true.into(), &true.into()), "{told}");
    assert_eq!(told["checks"][0].get("note"), None, "{told}");
}

/// Reading it in quadratic time took minutes in a build like this one.
#[test]
fn thousands_of_sources_are_read_soon_and_mistakes_named_with_their_line() {
    let source = |nth| {
        format!("[sources.s{nth}]\nmax_in_flight = 4\n[sources.s{nth}.extract]\nkind = 'command'\ncommand = ['x']\n")
    };
    let mut text: String = (0..8000).map(source).collect();
    text.push_str("[worker]\nlease = 'soon'\n");
    let begun = std::time::Instant::now();
    let told = Home::with_config(&text).run(&["migrate"]).complaint(2);
    assert!(told.starts_with("error: redrive.toml:40002: worker.lease: "), "{told}");
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
}
