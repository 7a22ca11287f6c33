//! The overview on a terminal.

use anstyle::Style;
use redrive_control::shape::{Bounded, OverviewShape, ProcessShape, RunCountsShape, SourceShape, TodoShape};
use redrive_core::time::Timestamp;

use crate::commands::state::{GROUPS, HOLDS};
use crate::output::columns::{self, Cell, Column, Columns, cut};
use crate::output::listing::{Layout, Row};
use crate::output::terminal::{Times, relative};
use crate::output::tone::{BAD, BUSY, GOOD, WAITING};

/// From this width on a command stands in the line that it belongs to.
const ROOMY: usize = 130;

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
    section(&mut lines, "holds", listed(&HOLDS, &status.holds, now).lines(width));
    section(&mut lines, "failure groups", listed(&GROUPS, &status.groups, now).lines(width));
    lines
}

/// What a listing of its own shows, as a section.
fn listed(layout: &Layout, rows: &[impl Row], now: Timestamp) -> Columns {
    let mut table = Columns::new(layout.header);
    rows.iter().flat_map(|row| row.lines(Times::seen_from(now))).for_each(|line| table.add(line));
    table
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
            Column::number("count"),
            Column::text("what"),
            Column::new("since"),
            Column::new("command"),
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
    let numbers = words.into_iter().map(Column::number);
    let header: Vec<_> = [Column::new("source"), Column::new("newest")].into_iter().chain(numbers).collect();
    let mut table = Columns::new(&header);
    for source in sources {
        let first = [Cell::new(source.source.as_str()), Cell::new(newest(source))];
        table.add(first.into_iter().chain(counts(source).map(|(_, count)| count)).collect());
    }
    let whole = table.lines(None);
    match width {
        Some(width) if whole.iter().any(|line| columns::width(line) > width) => {
            sources.iter().flat_map(|source| in_words(source, width)).collect()
        }
        _ => whole,
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
        Column::new("workload"),
        Column::number("storing"),
        Column::number("queued"),
        Column::number("running"),
        Column::number("waiting"),
        Column::number("done"),
        Column::number("dead"),
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
        Column::new("kind"),
        Column::text("name"),
        Column::new("version").spared(1),
        Column::new("config"),
        Column::new("seen"),
        Column::new("claimed"),
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
