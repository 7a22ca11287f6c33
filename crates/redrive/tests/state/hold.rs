//! `state hold` and `state cooldown`: what workers leave alone can be seen, set, lifted and taken back.

use std::time::Duration;

use redrive_store::Cooldown;

use crate::world::{HOUR, MigratedProgram, january};

fn cool(world: &MigratedProgram, customer: Option<&str>) {
    let now = world.ago(Duration::ZERO);
    let cooldown = Cooldown {
        source: "ads".parse().unwrap(),
        customer_id: customer.map(|customer| customer.parse().unwrap()),
        until: now.store.now().saturating_add(HOUR),
        why: Some("429".to_owned()),
    };
    world.runtime.block_on(now.store.data().cool_down(cooldown)).unwrap();
}

/// RP-8.5
fn a_cooldown_is_lifted_by_a_person_whose_name_is_kept(world: MigratedProgram) {
    cool(&world, Some("111"));
    cool(&world, Some("222"));
    cool(&world, None);
    assert_eq!(world.run("state cooldown list -o json").done().json()["holds"].as_array().unwrap().len(), 3);
    let listed = world.run("state cooldown list").done().stdout;
    assert!(listed.contains("(all)") && listed.contains("111") && listed.contains("429"), "{listed}");

    let rows =
        |world: &MigratedProgram| world.run("state audit list -o json").json()["operations"].as_array().unwrap().len();
    world.run("state cooldown lift --source ads --customer-id 111 --dry-run").done();
    assert_eq!(rows(&world), 0, "a dry run leaves no trace");
    let lifted = world.run("state cooldown lift --source ads --customer-id 111 --reason fixed -o json").done().json();
    assert_eq!(lifted["holds"][0]["customer_id"], "111");
    assert_eq!(world.run("state cooldown list -o json").done().json()["holds"].as_array().unwrap().len(), 2);
    world.run("state cooldown lift --source ads --customer-id 111").complaint(3);

    world.run("state cooldown lift --source ads").done();
    assert_eq!(world.json("state cooldown list", 3)["holds"].as_array().unwrap().len(), 0, "nothing found is 3");
    assert_eq!(rows(&world), 2);
    let told = world.run("state audit list -o json").done().json();
    assert_eq!(told["operations"][1]["reason"], "fixed", "{told}");
    world.run("state audit verify").done();
}

/// OP-3
fn a_person_holds_a_customer_and_takes_it_back(world: MigratedProgram) {
    let now = world.ago(Duration::ZERO);
    now.want(&january("111", 2));
    world.run("state hold set --source ads --customer-id 111 --for 2h --dry-run").done();
    assert_eq!(world.operations(), 0, "a dry run leaves no trace");
    let set = "state hold set --source ads --customer-id 111 --for 2h --reason moving --yes";
    let held = world.json(set, 0)["holds"][0].clone();
    for (field, value) in [("source", "ads"), ("customer_id", "111"), ("kind", "operator"), ("why", "moving")] {
        assert_eq!(held[field], value, "{held}");
    }
    assert!(held["query_name"].is_null() && held["until"].is_string() && held["by"].is_string(), "{held}");
    assert_eq!(world.json("state hold list", 0)["holds"][0], held);
    assert_eq!(world.json("state cooldown list", 3)["holds"].as_array().unwrap().len(), 0);
    let explain = "state explain --source ads --customer-id 111 --query-name daily --logical-date 2026-01-01";
    let why = world.json(explain, 0);
    assert_eq!((why["reason"].as_str(), why["next_retry_at"].clone()), (Some("held"), held["until"].clone()), "{why}");
    assert!(why["because"].as_str().unwrap().contains("moving"), "{why}");
    assert!(now.claim().is_empty());

    let operations = world.json("state audit list", 0);
    let op = operations["operations"][0]["op_id"].as_str().unwrap().to_owned();
    assert_eq!(operations["operations"][0]["reason"], "moving", "{operations}");
    let shown = world.json(&format!("state audit show {op}"), 0);
    assert_eq!(shown["changes"][0]["after"]["id"], held["id"], "{shown}");
    assert_eq!(world.json(&format!("state undo {op} --dry-run"), 0)["changed"].as_array().unwrap().len(), 1);
    let undone = world.json(&format!("state undo {op} -y"), 0);
    assert_eq!(
        (&undone["changed"][0]["from"], &undone["changed"][0]["to"]),
        (&"held".into(), &"lifted".into()),
        "{undone}"
    );
    assert_eq!(now.claim().len(), 2);
    assert_eq!(world.run(&format!("state undo {op} -y")).code, 4, "it was taken back already");
    world.run("state audit verify").done();
}

/// OP-3
fn a_hold_that_means_nothing_is_refused(world: MigratedProgram) {
    for flags in ["--query-name daily", "--until 2030-01-01T00:00:00Z --for 2h"] {
        assert_eq!(world.run(&format!("state hold set --source ads {flags}")).code, 2, "{flags}");
    }
    world.run("state hold set --source ads --until 2020-01-01T00:00:00Z").complaint(2);
    world.run("state hold lift --source ads").complaint(3);
    assert_eq!(world.operations(), 0);
}

/// OP-3: several values of an option are as many holds, set, lifted and taken back together.
fn several_scopes_are_held_by_one_operation(world: MigratedProgram) {
    let set = "state hold set --source ads --source crm --customer-id 111 --customer-id 222 --reason moving";
    let told = world.run(&format!("{set} --dry-run")).done();
    let wide = ["ads/111", "ads/222", "crm/111", "crm/222"];
    assert!(wide.iter().all(|scope| told.stderr.contains(&format!("would hold {scope} until it is lifted"))), "{told}");
    assert_eq!(world.json(set, 0)["holds"].as_array().unwrap().len(), 4);
    assert_eq!(world.operations(), 1, "one operation");
    let lifted = world.json("state hold lift --source ads --source crm --customer-id 111", 0);
    let of = |hold: &serde_json::Value| (hold["source"].to_string(), hold["customer_id"].to_string());
    let lifted: Vec<_> = lifted["holds"].as_array().unwrap().iter().map(of).collect();
    assert_eq!(lifted, [("\"ads\"".into(), "\"111\"".into()), ("\"crm\"".into(), "\"111\"".into())]);
    assert_eq!(world.json("state undo last -y", 0)["changed"].as_array().unwrap().len(), 2);
    assert_eq!(world.json("state hold list", 0)["holds"].as_array().unwrap().len(), 4);
    let queries = "state hold set --source ads --customer-id 111 --query-name a --query-name b -q";
    assert_eq!(world.json(queries, 0)["holds"].as_array().unwrap().len(), 2);
    world.run("state audit verify").done();
}

redrive_fixture::on_both!(
    several_scopes_are_held_by_one_operation,
    a_cooldown_is_lifted_by_a_person_whose_name_is_kept,
    a_person_holds_a_customer_and_takes_it_back,
    a_hold_that_means_nothing_is_refused,
);
