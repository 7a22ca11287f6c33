//! `state cooldown`: a source's "slow down" can be seen, and a person can say that it is over.

use std::time::Duration;

use redrive_store::Cooldown;

use crate::world::{HOUR, MigratedProgram};

fn hold(world: &MigratedProgram, customer: Option<&str>) {
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
    hold(&world, Some("111"));
    hold(&world, Some("222"));
    hold(&world, None);
    assert_eq!(world.run("state cooldown list -o json").done().json()["cooldowns"].as_array().unwrap().len(), 3);
    let listed = world.run("state cooldown list").done().stdout;
    assert!(listed.contains("(all)") && listed.contains("111") && listed.contains("429"), "{listed}");

    let rows = |world: &MigratedProgram| {
        world.run("state audit list -o json").done().json()["operations"].as_array().unwrap().len()
    };
    world.run("state cooldown lift --source ads --customer-id 111 --dry-run").done();
    assert_eq!(rows(&world), 0, "a dry run leaves no trace");
    let lifted = world.run("state cooldown lift --source ads --customer-id 111 --reason fixed -o json").done().json();
    assert_eq!(lifted["cooldowns"][0]["customer_id"], "111");
    assert_eq!(world.run("state cooldown list -o json").done().json()["cooldowns"].as_array().unwrap().len(), 2);
    world.run("state cooldown lift --source ads --customer-id 111").complaint(3);

    world.run("state cooldown lift --source ads").done();
    assert_eq!(world.run("state cooldown list -o json").done().json()["cooldowns"].as_array().unwrap().len(), 0);
    assert_eq!(rows(&world), 2);
    let told = world.run("state audit list -o json").done().json();
    assert_eq!(told["operations"][1]["reason"], "fixed", "{told}");
    world.run("state audit verify").done();
}

redrive_fixture::on_both!(a_cooldown_is_lifted_by_a_person_whose_name_is_kept);
