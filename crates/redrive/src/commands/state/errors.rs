//! `state inspect --group-by error`: which errors there are, and how many partitions have each.

use std::collections::BTreeMap;

use serde_json::json;

use super::inspect::{NOTHING, Search};
use crate::cli::Format;
use crate::commands::Context;
use crate::error::Result;
use crate::exit::Exit;
use crate::output;

/// What JSON and CSV call the columns.
const NAMES: [&str; 3] = ["count", "error_class", "error_message"];

pub async fn count(search: &mut Search<'_>, context: &Context) -> Result<Exit> {
    let cooldowns = search.plane.cooldowns().await?;
    let mut groups: BTreeMap<(String, String), u64> = BTreeMap::new();
    loop {
        let page = search.next(&cooldowns).await?;
        if page.is_empty() {
            break;
        }
        for (partition, _) in page {
            let Some(message) = partition.state.error_message else { continue };
            let class = partition.state.error_class.map_or("", |class| class.as_str()).to_owned();
            *groups.entry((class, message)).or_default() += 1;
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let objects = groups
        .iter()
        .map(|((class, message), count)| json!({"error_class": class, "error_message": message, "count": count}));
    match context.global.output {
        Format::Json => output::json(&json!({"groups": objects.collect::<Vec<_>>()}))?,
        Format::Jsonl => objects.into_iter().try_for_each(|group| output::json(&group))?,
        Format::Table | Format::Csv if groups.is_empty() => output::nothing(NOTHING, &NAMES, &context.global)?,
        Format::Table | Format::Csv => {
            let rows =
                groups.iter().map(|((class, message), count)| vec![count.to_string(), class.clone(), message.clone()]);
            output::rows(&["count", "class", "error"], &NAMES, rows.collect(), context.global.output)?;
        }
    }
    Ok(if groups.is_empty() { Exit::NothingFound } else { Exit::Done })
}
