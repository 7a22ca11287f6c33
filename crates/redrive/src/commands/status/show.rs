//! The overview on a terminal.

use anstyle::{AnsiColor, Style};
use redrive_control::shape::{Bounded, GroupShape, ProcessShape, RunCountsShape, SourceShape};
use redrive_core::time::Timestamp;

use super::{Overview, Todo};
use crate::commands::state::groups;
use crate::output::columns::{Align, Cell, Columns, cut};
use crate::output::terminal::relative;

/// From this width on a command stands in the line that it belongs to.
const ROOMY: usize = 130;

const GOOD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));
const BUSY: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Cyan)));
const WAITING: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow)));
const BAD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));

pub(super) fn lines(overview: &Overview, width: Option<usize>) -> Vec<String> {
    let Overview { needs_attention, status } = overview;
    let now = status.now;
    let mut lines = match needs_attention.is_empty() {
        true => vec![format!("{GOOD}nothing needs a person{GOOD:#}")],
        false => attention(needs_attention, width, now),
    };
    section(&mut lines, "sources", &sources(&status.sources), width);
    section(&mut lines, "runs", &runs(&status.runs), width);
    section(&mut lines, "processes", &processes(&status.processes, now), width);
    section(&mut lines, "holds", &holds(overview), width);
    section(&mut lines, "failure groups", &top_groups(&status.groups, now), width);
    lines
}

fn section(lines: &mut Vec<String>, name: &str, table: &Columns, width: Option<usize>) {
    let table = table.lines(width);
    // The header alone is no section.
    if table.len() > 1 {
        let bold = Style::new().bold();
        lines.push(String::new());
        lines.push(format!("{bold}{name}{bold:#}"));
        lines.extend(table);
    }
}

fn attention(needs: &[Todo], width: Option<usize>, now: Timestamp) -> Vec<String> {
    let bold = BAD.bold();
    let mut lines = vec![format!("{bold}needs a person{bold:#}")];
    if width.is_none_or(|width| width >= ROOMY) {
        let mut table = Columns::new(&[
            ("count", Align::Right),
            ("what", Align::Flexible),
            ("since", Align::Left),
            ("command", Align::Left),
        ]);
        for Todo { what, count, since, command } in needs {
            let since = since.map_or_else(String::new, |since| relative(since, now));
            table.add(vec![number(*count, BAD), Cell::new(what), Cell::new(since), Cell::styled(command, BUSY)]);
        }
        lines.extend(table.lines(width).into_iter().skip(1));
        return lines;
    }
    for Todo { what, count, since, command } in needs {
        let since = since.map_or_else(String::new, |since| format!(" ({})", relative(since, now)));
        let room = width.unwrap_or(usize::MAX).saturating_sub(since.len() + 12);
        lines.push(format!(" {BAD}{:>8}{BAD:#}  {}{since}", count.to_string(), cut(what, room)));
        lines.push(format!("           {BUSY}{command}{BUSY:#}"));
    }
    lines
}

/// A count, or nothing where there is nothing.
fn number(count: Bounded, style: Style) -> Cell {
    if count.is_zero() { Cell::new("") } else { Cell::styled(count.to_string(), style) }
}

fn sources(sources: &[SourceShape]) -> Columns {
    let mut table = Columns::new(&[
        ("source", Align::Flexible),
        ("newest", Align::Left),
        ("success", Align::Right),
        ("queued", Align::Right),
        ("running", Align::Right),
        ("cooling", Align::Right),
        ("held", Align::Right),
        ("waiting", Align::Right),
        ("due", Align::Right),
        ("final", Align::Right),
        ("spent", Align::Right),
        ("marked", Align::Right),
        ("paused", Align::Right),
        ("missing", Align::Right),
    ]);
    for source in sources {
        let SourceShape { pending, failed, .. } = source;
        let missing = source.missing.filter(|missing| !missing.is_zero()).map_or_else(String::new, |missing| {
            let cut_short = source.at_least.contains(&"missing") && !missing.is_at_least();
            format!("{}{missing}", if cut_short { "≥ " } else { "" })
        });
        table.add(vec![
            Cell::new(source.source.as_str()),
            Cell::new(source.newest_success.map_or_else(|| "never".to_owned(), |day| day.to_string())),
            number(source.success, GOOD),
            number(pending.queued, BUSY),
            number(pending.running, BUSY),
            number(pending.cooling_down, WAITING),
            number(pending.held, WAITING),
            number(failed.waiting, WAITING),
            number(failed.due, WAITING),
            number(failed.final_errors, BAD),
            number(failed.exhausted, BAD),
            number(failed.marked, BAD),
            number(pending.paused + failed.paused, WAITING),
            Cell::styled(missing, WAITING),
        ]);
    }
    table
}

fn runs(runs: &[RunCountsShape]) -> Columns {
    let mut table = Columns::new(&[
        ("workload", Align::Left),
        ("storing", Align::Right),
        ("queued", Align::Right),
        ("running", Align::Right),
        ("waiting", Align::Right),
        ("done", Align::Right),
        ("dead", Align::Right),
    ]);
    for counts in runs {
        table.add(vec![
            Cell::new(counts.workload.as_str()),
            number(counts.storing, BUSY),
            number(counts.queued, BUSY),
            number(counts.running, BUSY),
            number(counts.waiting, WAITING),
            number(counts.done, GOOD),
            number(counts.dead, BAD),
        ]);
    }
    table
}

fn processes(processes: &[ProcessShape], now: Timestamp) -> Columns {
    let mut table = Columns::new(&[
        ("kind", Align::Left),
        ("name", Align::Flexible),
        ("version", Align::Left),
        ("configuration", Align::Left),
        ("seen", Align::Left),
        ("claimed", Align::Left),
    ]);
    for process in processes {
        let config = match process.drift {
            true => Cell::styled(format!("{} differs", process.config), WAITING),
            false => Cell::new(&process.config),
        };
        let seen = relative(process.last_seen, now);
        let seen = if process.alive { Cell::styled(seen, GOOD) } else { Cell::styled(format!("silent, {seen}"), BAD) };
        table.add(vec![
            Cell::new(process.kind.as_str()),
            Cell::new(&process.name),
            Cell::new(&process.version),
            config,
            seen,
            Cell::new(process.last_claim.map_or_else(String::new, |at| relative(at, now))),
        ]);
    }
    table
}

fn holds(overview: &Overview) -> Columns {
    let mut table = Columns::new(&[
        ("source", Align::Left),
        ("customer", Align::Left),
        ("until", Align::Left),
        ("why", Align::Flexible),
    ]);
    for hold in &overview.status.holds {
        table.add(vec![
            Cell::new(hold.source.as_str()),
            Cell::new(hold.customer_id.as_ref().map_or("all", |customer| customer.as_str())),
            Cell::styled(relative(hold.until, overview.status.now), WAITING),
            Cell::new(hold.why.as_deref().unwrap_or_default()),
        ]);
    }
    table
}

/// The failure groups as a table; `state groups` shows the same.
pub fn top_groups(groups: &[GroupShape], now: Timestamp) -> Columns {
    let mut table = Columns::new(&[
        ("group", Align::Left),
        ("count", Align::Right),
        ("what happens next", Align::Left),
        ("sources", Align::Left),
        ("customers", Align::Right),
        ("last seen", Align::Left),
        ("template", Align::Flexible),
    ]);
    for group in groups {
        table.add(vec![
            Cell::new(group.group.to_string()),
            Cell::styled(Bounded::new(group.count).to_string(), BAD),
            Cell::new(groups::next(group)),
            Cell::new(some(&group.sources)),
            Cell::new(some_customers(group)),
            Cell::new(relative(group.last_seen, now)),
            Cell::new(&group.template),
        ]);
    }
    table
}

/// The first of some names, and how many more there are.
fn some(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [one, rest @ ..] => format!("{one} +{}", rest.len()),
    }
}

fn some_customers(group: &GroupShape) -> String {
    match (&group.customers[..], group.customer_count) {
        ([one, ..], 1) => one.clone(),
        (_, count) => count.to_string(),
    }
}
