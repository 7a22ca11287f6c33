//! The overview on a terminal.

use anstyle::{AnsiColor, Style};
use redrive_control::shape::{
    Bounded, GroupShape, OverviewShape, ProcessShape, RunCountsShape, SourceShape, TodoShape,
};
use redrive_core::text::one_line;
use redrive_core::time::Timestamp;

use crate::commands::state::groups::next;
use crate::output::columns::{self, Align, Cell, Columns, cut};
use crate::output::terminal::relative;

/// From this width on a command stands in the line that it belongs to.
const ROOMY: usize = 130;

const GOOD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)));
const BUSY: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Cyan)));
const WAITING: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow)));
const BAD: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));

pub(super) fn lines(overview: &OverviewShape, width: Option<usize>) -> Vec<String> {
    let OverviewShape { needs_attention, status } = overview;
    let now = status.now;
    let mut lines = match needs_attention.is_empty() {
        true => vec![format!("{GOOD}nothing needs a person{GOOD:#}")],
        false => attention(needs_attention, width, now),
    };
    section(&mut lines, "sources", sources(&status.sources, width));
    section(&mut lines, "runs", runs(&status.runs).lines(width));
    section(&mut lines, "processes", processes(&status.processes, now).lines(width));
    section(&mut lines, "holds", holds(overview).lines(width));
    section(&mut lines, "failure groups", groups(&status.groups, now, width));
    lines
}

fn section(lines: &mut Vec<String>, name: &str, table: Vec<String>) {
    // The header alone is no section.
    if table.len() > 1 {
        let bold = Style::new().bold();
        lines.push(String::new());
        lines.push(format!("{bold}{name}{bold:#}"));
        lines.extend(table);
    }
}

fn attention(needs: &[TodoShape], width: Option<usize>, now: Timestamp) -> Vec<String> {
    let bold = BAD.bold();
    let mut lines = vec![format!("{bold}needs a person{bold:#}")];
    if width.is_none_or(|width| width >= ROOMY) {
        let mut table = Columns::new(&[
            ("count", Align::Right),
            ("what", Align::Flexible),
            ("since", Align::Left),
            ("command", Align::Left),
        ]);
        for TodoShape { what, count, since, command } in needs {
            let since = since.map_or_else(String::new, |since| relative(since, now));
            table.add(vec![number(*count, BAD), Cell::new(what), Cell::new(since), Cell::styled(command, BUSY)]);
        }
        lines.extend(table.lines(width).into_iter().skip(1));
        return lines;
    }
    for TodoShape { what, count, since, command } in needs {
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

/// The counts of a source, each with its word.
fn counts(source: &SourceShape) -> [(&'static str, Cell); 12] {
    let SourceShape { pending, failed, .. } = source;
    let missing = source.missing.filter(|missing| !missing.is_zero()).map_or_else(String::new, |missing| {
        let cut_short = source.at_least.contains(&"missing") && !missing.is_at_least();
        format!("{}{missing}", if cut_short { "≥ " } else { "" })
    });
    [
        ("success", number(source.success, GOOD)),
        ("queued", number(pending.queued, BUSY)),
        ("running", number(pending.running, BUSY)),
        ("cooling", number(pending.cooling_down, WAITING)),
        ("held", number(pending.held, WAITING)),
        ("waiting", number(failed.waiting, WAITING)),
        ("due", number(failed.due, WAITING)),
        ("final", number(failed.final_errors, BAD)),
        ("spent", number(failed.exhausted, BAD)),
        ("marked", number(failed.marked, BAD)),
        ("paused", number(pending.paused + failed.paused, WAITING)),
        ("missing", Cell::styled(missing, WAITING)),
    ]
}

/// A table where it fits, otherwise what each source has in words.
fn sources(sources: &[SourceShape], width: Option<usize>) -> Vec<String> {
    let words = sources.first().map_or_else(Vec::new, |first| counts(first).map(|(word, _)| word).to_vec());
    let right = words.into_iter().map(|word| (word, Align::Right));
    let header: Vec<_> = [("source", Align::Left), ("newest", Align::Left)].into_iter().chain(right).collect();
    let mut table = Columns::new(&header);
    for source in sources {
        let first = [Cell::new(source.source.as_str()), Cell::new(newest(source))];
        table.add(first.into_iter().chain(counts(source).map(|(_, count)| count)).collect());
    }
    let lines = table.lines(width);
    match width {
        Some(width) if lines.iter().any(|line| columns::width(line) > width) => {
            sources.iter().flat_map(|source| in_words(source, width)).collect()
        }
        _ => lines,
    }
}

fn newest(source: &SourceShape) -> String {
    source.newest_success.map_or_else(|| "never".to_owned(), |day| day.to_string())
}

fn in_words(source: &SourceShape, width: usize) -> Vec<String> {
    let mut lines = vec![cut(&format!(" {}, newest success {}", source.source, newest(source)), width)];
    let mut line = String::new();
    for (word, count) in counts(source).into_iter().filter(|(_, count)| !count.is_empty()) {
        let part = format!("{count} {word}");
        if !line.is_empty() && columns::width(&line) + columns::width(&part) + 5 > width {
            lines.push(format!("   {},", std::mem::take(&mut line)));
        }
        line += &if line.is_empty() { part } else { format!(", {part}") };
    }
    if !line.is_empty() {
        lines.push(format!("   {line}"));
    }
    lines
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
        ("config", Align::Left),
        ("seen", Align::Left),
        ("claimed", Align::Left),
    ]);
    for process in processes {
        let config = match process.drift {
            true => Cell::styled(format!("≠ {}", process.config), WAITING),
            false => Cell::new(&process.config),
        };
        let seen = relative(process.last_seen, now);
        let seen = if process.alive { Cell::styled(seen, GOOD) } else { Cell::styled(format!("silent {seen}"), BAD) };
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

fn holds(overview: &OverviewShape) -> Columns {
    let mut table = Columns::new(&[
        ("kind", Align::Left),
        ("source", Align::Left),
        ("customer", Align::Left),
        ("query", Align::Left),
        ("since", Align::Left),
        ("until", Align::Left),
        ("by", Align::Left),
        ("why", Align::Flexible),
    ]);
    let now = overview.status.now;
    for hold in &overview.status.holds {
        table.add(vec![
            Cell::styled(hold.kind.as_str(), WAITING),
            Cell::new(hold.source.as_str()),
            Cell::new(hold.customer_id.as_ref().map_or("", |customer| customer.as_str())),
            Cell::new(hold.query_name.as_ref().map_or("", |query| query.as_str())),
            Cell::new(relative(hold.since, now)),
            Cell::new(hold.until.map_or_else(|| "lifted".to_owned(), |until| relative(until, now))),
            Cell::new(&hold.by),
            Cell::new(hold.why.as_deref().unwrap_or_default()),
        ]);
    }
    table
}

/// The failure groups; `state groups` shows the same. On a narrow terminal what happens next and the template have a line of
/// their own.
pub fn groups(groups: &[GroupShape], now: Timestamp, width: Option<usize>) -> Vec<String> {
    let is_roomy = width.is_none_or(|width| width >= ROOMY);
    let mut header = vec![
        ("group", Align::Left),
        ("count", Align::Right),
        ("sources", Align::Left),
        ("customers", Align::Right),
        ("last seen", Align::Left),
    ];
    if is_roomy {
        header.extend([("what happens next", Align::Left), ("template", Align::Flexible)]);
    }
    let mut table = Columns::new(&header);
    for group in groups {
        let mut row = vec![
            Cell::new(group.group.to_string()),
            Cell::styled(Bounded::new(group.count).to_string(), BAD),
            Cell::new(some(&group.sources)),
            Cell::new(some_customers(group)),
            Cell::new(relative(group.last_seen, now)),
        ];
        if is_roomy {
            row.extend([Cell::new(next(group)), Cell::new(&group.template)]);
        }
        table.add(row);
    }
    let lines = table.lines(width);
    if is_roomy {
        return lines;
    }
    let room = width.unwrap_or(usize::MAX).saturating_sub(3);
    let told = |group: &GroupShape| cut(&format!("{}: {}", next(group), one_line(&group.template)), room);
    let templates = groups.iter().map(|group| format!("   {}", told(group)));
    // The header has none.
    let mut templates = std::iter::once(None).chain(templates.map(Some));
    lines.into_iter().flat_map(|line| [Some(line), templates.next().flatten()]).flatten().collect()
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
