//! Mistakes in `redrive.toml` one by one: each is told with the file, the line and the key, or with the variable.

use insta::assert_snapshot;

use crate::home::Home;

fn told(text: &str) -> String {
    Home::with_config(text).run(&["worker", "--drain"]).complaint(2)
}

/// A key of this section is on line 5 at the earliest.
fn extract(rest: &str) -> String {
    told(&format!("[sources.ads]\nmax_in_flight = 2\n\n[sources.ads.extract]\n{rest}"))
}

/// So it is here.
fn validate(rest: &str) -> String {
    told(&format!("[sources.ads.extract]\nkind = 'sample'\n\n[sources.ads.validate]\n{rest}"))
}

/// Here it is on line 2.
fn source(rest: &str) -> String {
    told(&format!("[sources.ads]\n{rest}"))
}

#[test]
fn what_is_wrong_in_an_extract_section_is_named_with_its_own_line() {
    assert_snapshot!(extract("kind = 'command'\ncommand = ['x']\ntimout = '5m'"), @"error: redrive.toml:7: sources.ads.extract.timout: unknown field `timout`, expected one of `command`, `timeout`, `directory`, `env`");
    assert_snapshot!(extract("kind = 'command'\ncommand = ['x']\ntimeout = 'soon'"), @r#"error: redrive.toml:7: sources.ads.extract.timeout: "soon" is not a duration; write it like "90s", "5m", "1h30m" or "30d""#);
    assert_snapshot!(extract("kind = 'command'\ncommand = 'x'"), @r#"error: redrive.toml:6: sources.ads.extract.command: invalid type: string "x", expected a sequence"#);
    assert_snapshot!(extract("kind = 'command'\ncommand = [\n  'x',\n  7,\n]"), @"error: redrive.toml:8: sources.ads.extract.command[1]: invalid type: integer `7`, expected a string");
    assert_snapshot!(extract("kind = 'command'"), @"error: redrive.toml:4: sources.ads.extract: missing field `command`");
    assert_snapshot!(extract("command = ['x']"), @r#"error: redrive.toml:4: sources.ads.extract.kind: kind is missing; it names the extractor, like "command""#);
    assert_snapshot!(extract("command = ['x']\nkind = 'comand'"), @"error: redrive.toml:6: sources.ads.extract.kind: unknown variant `comand`, expected one of `command`, `http`, `google-ads`, `singer`, `airbyte`, `sample`");
    assert_snapshot!(extract("command = ['x']\nkind = 7"), @r#"error: redrive.toml:6: sources.ads.extract.kind: kind is no text; it names the extractor, like "command""#);
    assert_snapshot!(extract("kind = 'command'\ncommand = ['x']\nenv.A = 'b'\nenv.B = { vault = 'c' }"), @"error: redrive.toml:8: sources.ads.extract.env.B.vault: unknown field `vault`, expected one of `env`, `file`, `command`, `prefix`, `ttl`, `timeout`");
    assert_snapshot!(extract("kind = 'command'\ncommand = ['x']\nenv = { A = 7 }"), @r#"error: redrive.toml:7: sources.ads.extract.env.A: invalid type: integer `7`, expected a text, { env = "NAME" }, { file = "PATH" } or { command = ["PROGRAM"] }"#);
    assert_snapshot!(extract("kind = 'http'\nurl = 'https://a.example/'\nmethod = 'BREW'"), @"error: redrive.toml:7: sources.ads.extract.method: unknown variant `BREW`, expected one of `GET`, `POST`, `PUT`");
    assert_snapshot!(extract("kind = 'singer'\ncommand = ['x']\n[[sources.ads.extract.stderr]]\nclass = 'final'"), @"error: redrive.toml:7: sources.ads.extract.stderr[0]: missing field `pattern`");
    assert_snapshot!(extract("kind = 'singer'\ncommand = ['x']\nexit_codes = { 3 = 'meh' }"), @r#"error: redrive.toml:7: sources.ads.extract.exit_codes.3: error class "meh" is unknown; it is one of final, retryable, rate_limited"#);
    assert_snapshot!(extract("kind = 'google-ads'\nclient_id = { env = 'A' }\nclient_secret = 'hunter2'"), @r#"error: redrive.toml:7: sources.ads.extract.client_secret: a secret is not written but named; write { env = "NAME" }, { file = "PATH" } or { command = ["PROGRAM"] }"#);
    assert_snapshot!(extract("kind = 'google-ads'\nclient_id = { env = 'A', file = 'b' }"), @"error: redrive.toml:6: sources.ads.extract.client_id: a secret has one of env, file and command; keep one of them");
}

#[test]
fn what_stands_in_the_place_of_a_secret_is_not_repeated() {
    for value in ["12345678", "18446744073709551615", "123456789012345678901234", "-5", "0.25", "true"] {
        let line = extract(&format!("kind = 'google-ads'\nclient_secret = {value}"));
        let rest = "a secret is not written but named; write { env = \"NAME\" }, { file = \"PATH\" } or { command = [\"PROGRAM\"] }";
        assert_eq!(line, format!("error: redrive.toml:6: sources.ads.extract.client_secret: {rest}"), "{value}");
    }
    assert_snapshot!(extract("kind = 'http'\nurl = 'https://a.example/'\nheaders = 'Bearer hunter2'"), @r#"error: redrive.toml:7: sources.ads.extract.headers: is no section; write it like { Name = "value" }"#);
    assert_snapshot!(extract("kind = 'command'\ncommand = ['x']\nenv = 'KEY=hunter2'"), @r#"error: redrive.toml:7: sources.ads.extract.env: is no section; write it like { NAME = "value" }"#);
}

#[test]
fn what_an_extractor_cannot_use_is_named_with_its_line() {
    assert_snapshot!(extract("kind = 'command'\ncommand = []"), @r#"error: redrive.toml:6: sources.ads.extract.command: names no program; write it and its arguments, like ["python3", "x.py"]"#);
    assert_snapshot!(extract("kind = 'command'\ncommand = [\n  'x',\n  '{day}',\n]"), @"error: redrive.toml:8: sources.ads.extract.command[1]: {day} is no placeholder; there are source, customer_id, query_name, logical_date, next_date, run_id, query");
    assert_snapshot!(extract("kind = 'command'\ncommand = ['x']\nenv = { 'A=B' = 'x' }"), @r#"error: redrive.toml:7: sources.ads.extract.env."A=B": cannot be the name of a variable; correct it"#);
    assert_snapshot!(extract("kind = 'http'\nurl = 'ftp://u:hunter2@a.example/'"), @r#"error: redrive.toml:6: sources.ads.extract.url: "ftp://u:***@a.example/" must begin with https:// or http://"#);
    assert_snapshot!(extract("kind = 'http'\nurl = 'https://a.example/'\nbody = '{day}'"), @"error: redrive.toml:7: sources.ads.extract.body: {day} is no placeholder; there are source, customer_id, query_name, logical_date, next_date, run_id, query");
    assert_snapshot!(extract("kind = 'http'\nurl = 'https://a.example/'\nbody = 'x'\nmethod = 'GET'"), @r#"error: redrive.toml:7: sources.ads.extract.body: a GET has no body; set method = "POST", or leave body out"#);
    assert_snapshot!(extract("kind = 'http'\nurl = 'https://a.example/'\nrecords = 'a..b'"), @r#"error: redrive.toml:7: sources.ads.extract.records: "a..b" is no path; write names with dots between them, like "data.items""#);
    assert_snapshot!(extract("kind = 'http'\nurl = 'https://a.example/'\nrecords = 'a'\nlink_header = true\ncursor = 'b'"), @"error: redrive.toml:9: sources.ads.extract.cursor: next_link, cursor and link_header exclude each other; keep one");
    assert_snapshot!(extract("kind = 'http'\nurl = 'https://a.example/'\nrecords = 'a'\ncursor = 'b'"), @"error: redrive.toml:8: sources.ads.extract.cursor: needs cursor_param, the query parameter that it is sent as");
    assert_snapshot!(extract("kind = 'http'\nurl = 'https://a.example/'\n[sources.ads.extract.headers]\nA = 'b'\n'bad name' = 'c'"), @r#"error: redrive.toml:9: sources.ads.extract.headers."bad name": cannot be the name of a header; correct it"#);
    assert_snapshot!(extract("kind = 'http'\nurl = 'https://a.example/'\nheaders = { Host = 'b' }"), @"error: redrive.toml:7: sources.ads.extract.headers.Host: is set by redrive itself; leave it out");
    assert_snapshot!(extract("kind = 'google-ads'\nclient_id = { file = 'a' }\nclient_secret = { file = 'b' }\nrefresh_token = { file = 'c' }\nversion = '26'"), @r#"error: redrive.toml:9: sources.ads.extract.version: "26" must be like "v26""#);
    assert_snapshot!(extract("kind = 'singer'\ncommand = ['x']\n[[sources.ads.extract.stderr]]\nclass = 'final'\npattern = ''"), @"error: redrive.toml:9: sources.ads.extract.stderr[0].pattern: is empty, and so in every line; write a part of the line");
    assert_snapshot!(extract("kind = 'singer'\ncommand = ['x']\nexit_codes = { 300 = 'final' }"), @"error: redrive.toml:7: sources.ads.extract.exit_codes.300: is no exit code of a failure; write 1 to 255");
    assert_snapshot!(extract("kind = 'singer'\ncommand = ['x']\nconfig_file = 'a'\nconfig = { b = 1 }"), @"error: redrive.toml:7: sources.ads.extract.config_file: config and config_file are both there; keep one of them");
    assert_snapshot!(extract("kind = 'singer'\ncommand = ['x']\nconfig.a = [\n  1,\n  { b = '{day}' },\n]"), @"error: redrive.toml:9: sources.ads.extract.config.a[1].b: {day} is no placeholder; there are source, customer_id, query_name, logical_date, next_date, run_id, query");
    assert_snapshot!(extract("kind = 'sample'\nrate_limit = 0.7\ntruncation = 0.7"), @"error: redrive.toml:6: sources.ads.extract.rate_limit: failure, rate_limit and truncation are more than 1 together");
    assert_snapshot!(extract("kind = 'sample'\nfailure = 2.0"), @"error: redrive.toml:6: sources.ads.extract.failure: 2 is not between 0 and 1");
}

#[test]
fn what_no_validator_can_ask_is_named_with_its_line() {
    assert_snapshot!(validate("min_records = 5\nmax_records = 1"), @"error: redrive.toml:5: sources.ads.validate.min_records: min_records 5 is more than max_records 1; no attempt could be accepted");
    assert_snapshot!(validate("max_shrink = 1.5"), @"error: redrive.toml:5: sources.ads.validate.max_shrink: 1.5 is not between 0 and 1; 0.5 refuses a rerun with less than half of what it would replace");
    assert_snapshot!(validate("required_fields = [\n  'a',\n  'b..c',\n]"), @r#"error: redrive.toml:7: sources.ads.validate.required_fields[1]: field "b..c" has an empty name in it; join names with single dots"#);
    assert_snapshot!(validate("unique = ['a', 'a']"), @r#"error: redrive.toml:5: sources.ads.validate.unique[1]: "a" is named twice; remove one"#);
    assert_snapshot!(validate("types = { a = 'string', b = 'int' }"), @r#"error: redrive.toml:5: sources.ads.validate.types.b: field type "int" is unknown; it is one of string, integer, int64, number, boolean, array, object, date, timestamp"#);
    assert_snapshot!(validate("types = { a = 'string', 'b..c' = 'int64' }"), @r#"error: redrive.toml:5: sources.ads.validate.types."b..c": field "b..c" has an empty name in it; join names with single dots"#);
    assert_snapshot!(validate("date_field = ''"), @r#"error: redrive.toml:5: sources.ads.validate.date_field: field "" has an empty name in it; join names with single dots"#);
}

#[test]
fn what_makes_no_sense_in_a_source_is_named_with_its_line() {
    assert_snapshot!(source("max_in_flight = 0\nextract.kind = 'sample'"), @"error: redrive.toml:2: sources.ads.max_in_flight: 0 is too little; nothing would ever run");
    assert_snapshot!(source("calendar = { start = '2026-01-01', timezone = 'Mars/Olympus' }"), @r#"error: redrive.toml:2: sources.ads.calendar.timezone: "Mars/Olympus" is unknown; name one like "Europe/Berlin""#);
    assert_snapshot!(source("calendar = { timezone = 'UTC' }"), @"error: redrive.toml:2: sources.ads.calendar: missing field `start`");
    assert_snapshot!(source("customers = ['1', '']"), @"error: redrive.toml:2: sources.ads.customers: customer_id is empty; give 1 to 256 bytes");
    assert_snapshot!(source("extract.kind = 'sample'\nqueries.daily.query = '{day}'"), @"error: redrive.toml:3: sources.ads.queries.daily.query: {day} is no placeholder; there are source, customer_id, query_name, logical_date, next_date, run_id, query");
    assert_snapshot!(source("retry.multiplier = 0.5"), @"error: redrive.toml:2: sources.ads.retry.multiplier: 0.5 is less than 1; delays must not shrink");
    assert_snapshot!(source("retry.max_attempts = 0"), @"error: redrive.toml:2: sources.ads.retry.max_attempts: 0 is too little; at least one attempt must be allowed");
    assert_snapshot!(source("retry.delays = ['1m']\nretry.cap = '1h'"), @"error: redrive.toml:2: sources.ads.retry.delays: delays stand instead of base, multiplier and cap; give one or the other");
    assert_snapshot!(source("retry.delays = ['1m', 'soon']"), @r#"error: redrive.toml:2: sources.ads.retry.delays: "soon" is not a duration; write it like "90s", "5m", "1h30m" or "30d""#);
    assert_snapshot!(source("[sources.'']"), @r#"error: redrive.toml:2: sources."": source is empty; give 1 to 256 bytes"#);
}

#[test]
fn what_a_variable_has_set_is_named_with_the_variable() {
    let http = "[sources.ads.extract]\nkind = 'http'\nurl = 'https://a.example/'\n";
    let told = |text: &str, name: &str, value: &str| {
        Home::with_config(text).env(name, value).run(&["worker", "--drain"]).complaint(2)
    };
    assert_snapshot!(told("", "REDRIVE_WORKER__HEARTBEAT", "90s"), @"error: REDRIVE_WORKER__HEARTBEAT: heartbeat is more than half of lease; one late heartbeat would lose it");
    assert_snapshot!(told("[worker]\nheartbeat = '30s'\n", "REDRIVE_WORKER__LEASE", "40s"), @"error: REDRIVE_WORKER__LEASE: heartbeat is more than half of lease; one late heartbeat would lose it");
    assert_snapshot!(told("", "REDRIVE_DAEMON__INTERVAL", "0s"), @"error: REDRIVE_DAEMON__INTERVAL: 0 is too little; the daemon would never rest");
    assert_snapshot!(told(http, "REDRIVE_SOURCES__ADS__EXTRACT__TIMEOUT", "soon"), @r#"error: REDRIVE_SOURCES__ADS__EXTRACT__TIMEOUT: "soon" is not a duration; write it like "90s", "5m", "1h30m" or "30d""#);
    assert_snapshot!(told(http, "REDRIVE_SOURCES__ADS__EXTRACT__KIND", "htpp"), @"error: REDRIVE_SOURCES__ADS__EXTRACT__KIND: unknown variant `htpp`, expected one of `command`, `http`, `google-ads`, `singer`, `airbyte`, `sample`");
    assert_snapshot!(told(http, "REDRIVE_SOURCES__ADS__EXTRACT__TIMOUT", "5m"), @"error: REDRIVE_SOURCES__ADS__EXTRACT__TIMOUT: unknown field `timout`, expected one of `url`, `method`, `headers`, `body`, `format`, `unframed`, `records`, `next_link`, `cursor`, `cursor_param`, `link_header`, `next_hosts`, `max_pages`, `max_ratio`, `timeout`, `idle_timeout`, `connect_timeout`, `proxy`, `proxy_password`, `redirects`, `allow_private`, `rate_limit_scope`, `ca_file`");
    assert_snapshot!(told(http, "REDRIVE_SOURCES__ADS__EXTRACT__RECORDS", "a..b"), @r#"error: REDRIVE_SOURCES__ADS__EXTRACT__RECORDS: "a..b" is no path; write names with dots between them, like "data.items""#);
    assert_snapshot!(told(http, "REDRIVE_SOURCES__ADS__EXTRACT__HEADERS__A__ENV", "{day}"), @"error: REDRIVE_SOURCES__ADS__EXTRACT__HEADERS__A__ENV: {day} is no placeholder; there are source, customer_id, query_name, logical_date, next_date, run_id, query");
    assert_snapshot!(told(&format!("{http}headers.A.env = 'HOME'\n"), "REDRIVE_SOURCES__ADS__EXTRACT__HEADERS__A__ENV", "{day}"), @"error: REDRIVE_SOURCES__ADS__EXTRACT__HEADERS__A__ENV: {day} is no placeholder; there are source, customer_id, query_name, logical_date, next_date, run_id, query");
    assert_snapshot!(told(http, "REDRIVE_SOURCES__NEW__EXTRACT__COMMAND", "['x']"), @r#"error: REDRIVE_SOURCES__NEW__EXTRACT__COMMAND: kind is missing; it names the extractor, like "command""#);
    assert_snapshot!(told(http, "REDRIVE_SOURCES__NEW__EXTRACT__KIND", "command"), @"error: REDRIVE_SOURCES__NEW__EXTRACT__KIND: missing field `command`");
    assert_snapshot!(told(http, "REDRIVE_SOURCES__ADS__RETRY__MULTIPLIER", "0.5"), @"error: REDRIVE_SOURCES__ADS__RETRY__MULTIPLIER: 0.5 is less than 1; delays must not shrink");
    assert_snapshot!(told(http, "REDRIVE_SOURCES__ADS__VALIDATE__UNIQUE", "['a', 'a']"), @r#"error: REDRIVE_SOURCES__ADS__VALIDATE__UNIQUE: "a" is named twice; remove one"#);
    assert_snapshot!(told(http, "REDRIVE_SOURCES__ADS__CALENDAR__START", "2026-02-30"), @r#"error: REDRIVE_SOURCES__ADS__CALENDAR__START: logical date "2026-02-30" is not a calendar day; write it as YYYY-MM-DD"#);
    // The variable is right, and the file has what does not go with it.
    assert_snapshot!(told(http, "REDRIVE_SOURCES__ADS__EXTRACT__KIND", "command"), @"error: redrive.toml:3: sources.ads.extract.url: unknown field `url`, expected one of `command`, `timeout`, `directory`, `env`");
}

#[test]
fn an_address_to_listen_at_that_cannot_be_used_is_named_with_its_line() {
    let store = |rest: &str| told(&format!("[store]\nurl = 'sqlite:redrive.db'\n{rest}"));
    assert_snapshot!(store("listen_url = 'sqlite:x.db'"), @"error: redrive.toml:3: store.listen_url: a SQLite file cannot wake other processes; write postgres://user@host/database, or leave it out");
    assert_snapshot!(store("listen_url = 'postgres://u:hunter2@h/db?sslmode=verify'"), @r#"error: redrive.toml:3: store.listen_url: sslmode "verify" is not known; write disable, prefer, require, verify-ca or verify-full"#);
    assert_snapshot!(store("listen_url = 'postgres://h/db'\nlisten = false"), @"error: redrive.toml:3: store.listen_url: listen is false, so nothing is listened to; leave one of them out");
}
