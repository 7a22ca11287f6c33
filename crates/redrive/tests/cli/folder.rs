//! Relative paths begin in the folder of the configuration file, wherever the program is run.

use std::fs;

use crate::home::Home;

const SETTINGS: &str = r#"
[store]
url = "sqlite:data.db"
[raw]
url = "file:sink"
[sources.ads.extract]
kind = "command"
command = ["/bin/sh", "extract.sh"]
env = { TOKEN = { file = "secrets/{customer_id}" } }
[sources.ads.validate]
schema = "record.schema.json"
"#;

fn home_with_a_folder() -> Home {
    let home = Home::new();
    fs::create_dir_all(home.file("conf/secrets")).unwrap();
    home.write("conf/redrive.toml", SETTINGS);
    home.write("conf/extract.sh", "printf '{\"of\":\"%s\"}\\n' \"$TOKEN\"");
    home.write("conf/record.schema.json", r#"{"required":["of"]}"#);
    home.write("conf/secrets/a", "token-of-a\n");
    home.write("conf/secrets/b%2Fc", "token-of-bc\n");
    home
}

#[test]
fn everything_lies_beside_the_configuration() {
    let home = home_with_a_folder();
    let redrive = |arguments: &str| {
        let arguments: Vec<&str> = ["--config", "conf/redrive.toml"].into_iter().chain(arguments.split(' ')).collect();
        home.run(&arguments)
    };
    redrive("migrate").done();
    for customer in ["a", "b/c", "missing"] {
        let filter = format!("--source ads --customer-id {customer} --query-name q");
        let day = "--since 2026-01-01 --until 2026-01-01";
        redrive(&format!("state backfill enqueue {filter} {day} --yes")).done();
    }
    let drained = redrive("worker --drain -o json");
    assert_eq!((drained.code, &drained.json()["left"]), (1, &1.into()), "one customer has no secret: {drained}");
    assert_eq!(redrive("data cat --source ads").done().stdout, "{\"of\":\"token-of-a\"}\n{\"of\":\"token-of-bc\"}\n");
    let held = redrive("state hold list -o json").done().json();
    let hold = &held["holds"][0];
    assert_eq!((hold["customer_id"].as_str(), held["holds"].as_array().unwrap().len()), (Some("missing"), 1), "{held}");
    assert!(hold["why"].as_str().unwrap().contains("conf/secrets/missing"), "{hold}");
    assert_eq!(home.files(), ["conf"], "nothing was made where the program was run");
    assert!(home.file("conf/data.db").exists() && home.file("conf/sink").is_dir());
    assert!(redrive("doctor").done().stdout.contains("conf/data.db"), "messages show where it lies");
}

#[test]
fn a_variable_names_the_same_file_from_any_folder() {
    let home =
        home_with_a_folder().env("REDRIVE_CONFIG", "conf/redrive.toml").env("REDRIVE_STORE__URL", "sqlite:other.db");
    home.run(&["migrate"]).done();
    assert!(home.file("conf/other.db").exists(), "{:?}", home.files());
    let absolute = home.file("elsewhere.db").display().to_string();
    let home = home.env("REDRIVE_STORE__URL", &format!("sqlite:{absolute}"));
    home.run(&["migrate"]).done();
    assert!(home.file("elsewhere.db").exists());
}
