//! The API keeps what its description promises, whatever it is sent: schemathesis makes the requests up, always the same ones, and
//! follows what the answers lead to.

use std::process::Stdio;

use redrive_core::role::Role;
use redrive_fixture::{TestDatabase, boom, tool};
use tokio::process::Command;

use crate::lists::keys;
use crate::served::Served;

/// How many requests are made up for each route and phase, where nobody says so. `REDRIVE_SCHEMATHESIS_EXAMPLES=200` makes more than ten
/// thousand in all; CONTRIBUTING.md has the command.
const EXAMPLES: &str = "2";

const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/api/schemathesis/schemathesis.toml");
/// Passes over what only looks like a contradiction: rules that no schema can say.
const HOOKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/api/schemathesis/hooks.py");

async fn holds(database: TestDatabase) {
    let Some(program) = tool("schemathesis/bin/schemathesis") else { return };
    let served = Served::abroad(database, |_| {}).await;
    served.store.submit(&["any%", "100%"]).await;
    served.store.judged(keys(3), boom()).await;
    let token = served.token(Role::Admin).await;
    let examples = redrive_fixture::setting("REDRIVE_SCHEMATHESIS_EXAMPLES").unwrap_or_else(|| EXAMPLES.to_owned());
    let mut command = Command::new(program);
    command.current_dir(served.store.database.path()).stdin(Stdio::null());
    command.env("SCHEMATHESIS_HOOKS", HOOKS);
    command.args(["--config-file", CONFIG, "run"]).arg(format!("http://{}/openapi.json", served.address));
    command.args(["--header", &format!("Authorization: Bearer {token}"), "--max-examples", &examples]);
    let output = command.output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    if std::env::var_os("REDRIVE_SCHEMATHESIS_EXAMPLES").is_some() {
        std::fs::write(std::env::temp_dir().join("redrive-schemathesis.txt"), said.as_bytes()).unwrap();
    }
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_that_schemathesis_makes_up_breaks_the_description() {
    holds(TestDatabase::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "as long again; CONTRIBUTING.md has the command"]
async fn nor_does_any_on_postgres() {
    holds(TestDatabase::postgres()).await;
}
