//! What is not there: every command that looks or changes ends with 3, also for one exact key.

use crate::world::MigratedProgram;

const KEY: &str = "--source nope --customer-id 1 --query-name q --logical-date 2026-01-01";

/// Commands that take a filter, and so an exact key.
const OF_A_KEY: [&str; 11] = [
    "state inspect",
    "state explain",
    "state retry",
    "state reprocess",
    "state reprocess --withdraw",
    "state mark-terminal",
    "state clear-terminal",
    "state pause",
    "state resume",
    "data ls",
    "data cat",
];

const OTHERS: [&str; 26] = [
    "state inspect --missing",
    "state groups",
    "state terminal",
    "state hold list",
    "state hold lift --source nope",
    "state cooldown list",
    "state cooldown lift --source nope",
    "state audit list",
    "state audit show last",
    "state undo last",
    "state undo 019a8f00",
    "state retry --group ffffffffffff",
    "state retry --source nope --limit 3",
    "data ls --source nope --source never",
    "runs list",
    "runs show 019a8f00",
    "runs explain 019a8f00",
    "runs groups",
    "runs retry 019a8f00",
    "runs cancel --category nope",
    "ingest list",
    "ingest show 019a8f00",
    "ingest search --word nope",
    "ingest stanzas 019a8f00",
    "ingest effective 019a8f00",
    "ingest diff 019a8f00 019a8f01",
];

fn nothing_found_is_three_everywhere(world: MigratedProgram) {
    let lines = OF_A_KEY.map(|command| format!("{command} {KEY}")).into_iter();
    for line in lines.chain(OTHERS.map(str::to_owned)) {
        let told = world.run(&line);
        assert_eq!(told.code, 3, "{line}\n{told}");
        assert_eq!(world.run(&format!("{line} -o json")).code, 3, "{line} -o json");
    }
    assert_eq!(world.operations(), 0);
}

redrive_fixture::on_both!(nothing_found_is_three_everywhere);
