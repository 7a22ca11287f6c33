//! Pages of partitions in key order, and how many a filter means.
//!
//! A page is read series by series: their names come once, and each series gives its days in the order of its index.

use std::cmp::Ordering;
use std::sync::Arc;

use redrive_core::filter::Filter;
use redrive_core::key::{CustomerId, LogicalDate, PartitionKey, QueryName, Source};
use redrive_core::partition::{Partition, Status};

use super::Period;
use super::conditions::{Conditions, IN_A_GROUP, names_one_series, of_status};
use super::row::{read, read_in};
use crate::db::{Column, Kind, Row, Tx};
use crate::error::{Error, Result};
use crate::handles::{View, read};
use crate::series;

impl View {
    /// A page of partitions in key order.
    pub async fn partitions(&self, asked: Page) -> Result<Vec<Partition>> {
        read!(self.read_by_index, "partitions", |tx, asked| page(tx, &asked))
    }

    pub async fn count(&self, filter: &Filter) -> Result<u64> {
        let filter = filter.clone();
        read!(self, "count", |tx, filter| count(tx, &filter))
    }
}

/// A page of what a filter means, in key order, after `after`.
#[derive(Debug, Clone, Default)]
pub struct Page {
    pub filter: Filter,
    pub after: Option<PartitionKey>,
    pub limit: u32,
    /// Only what is not a success.
    pub open: bool,
    /// Only what holds a terminal mark, only what is paused, or only successes that were asked for again.
    pub marked_terminal: bool,
    pub paused: bool,
    pub reprocess: bool,
}

/// A filter of several values is read part by part, each by its own range of the series' index.
pub(crate) async fn page(tx: &mut Tx<'_>, page: &Page) -> Result<Vec<Partition>> {
    let (mut found, limit) = (Vec::new(), usize::try_from(page.limit).unwrap_or(usize::MAX));
    for filter in page.filter.in_key_order() {
        let after = match page.after.as_ref().map(|after| (after, filter.stands_to(after))) {
            Some((_, Ordering::Less)) => continue,
            Some((after, Ordering::Equal)) => Some(after.clone()),
            Some((_, Ordering::Greater)) | None => None,
        };
        let left = u32::try_from(limit - found.len()).unwrap_or(page.limit);
        found.extend(part(tx, &Page { filter, after, limit: left, ..*page }).await?);
        if found.len() >= limit {
            break;
        }
    }
    Ok(found)
}

async fn part(tx: &mut Tx<'_>, page: &Page) -> Result<Vec<Partition>> {
    // Marks and requests live in the small table: starting there keeps the large one out of it.
    let remembered = page.marked_terminal || page.paused || page.reprocess;
    if remembered { marked(tx, page).await } else { by_series(tx, page).await }
}

/// How many series are read at once at most.
const SERIES_AT_ONCE: usize = 1000;

/// A series of a page, and the period after which its days are wanted.
pub(super) struct SeriesSpan {
    pub(super) series_id: i64,
    /// Any key of the series.
    pub(super) key: PartitionKey,
    after: i64,
}

async fn by_series(tx: &mut Tx<'_>, page: &Page) -> Result<Vec<Partition>> {
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let first = page.filter.since.map_or(i64::MIN, |since| Period::of(since).number() - 1);
    let mut found = match &page.after {
        Some(after) => rest_of_series(tx, page, after, first).await?,
        None => vec![],
    };
    let only_one = names_one_series(&page.filter);
    if page.after.is_some() && only_one {
        return Ok(found);
    }
    let (mut beyond, mut read, mut at_once) = (page.after.clone(), 0, 1);
    while found.len() < limit {
        let series = next_series(tx, &page.filter, beyond.as_ref(), at_once, first).await?;
        let Some(last) = series.last() else { break };
        beyond = Some(last.key.clone());
        let (is_last, before) = (only_one || series.len() < at_once, found.len());
        found.extend(days(tx, page, &series, limit - before).await?);
        if is_last {
            break;
        }
        // As many series as the page should still need, by what the ones before it gave.
        read += series.len();
        at_once = match found.len() {
            0 => at_once * 2,
            rows => (limit.saturating_sub(rows) * read).div_ceil(rows),
        };
        at_once = at_once.clamp(1, SERIES_AT_ONCE);
    }
    found.truncate(limit);
    Ok(found)
}

/// What comes after a key in its own series.
async fn rest_of_series(tx: &mut Tx<'_>, page: &Page, key: &PartitionKey, first: i64) -> Result<Vec<Partition>> {
    let places = series::find(tx, std::iter::once(key)).await?;
    let Some((series, period)) = places.first().and_then(|place| Some((place.series?, place.period))) else {
        return Ok(vec![]);
    };
    let rest = SeriesSpan { series_id: series.id, key: key.clone(), after: first.max(period.number()) };
    days(tx, page, &[rest], usize::try_from(page.limit).unwrap_or(usize::MAX)).await
}

/// The next series that a filter means, in the order of their names.
pub(super) async fn next_series(
    tx: &mut Tx<'_>,
    filter: &Filter,
    beyond: Option<&PartitionKey>,
    limit: usize,
    first: i64,
) -> Result<Vec<SeriesSpan>> {
    let mut conditions = Conditions::of_series(filter);
    if let Some(key) = beyond {
        conditions.beyond(filter, key);
    }
    let limit = conditions.param(i64::try_from(limit).unwrap_or(i64::MAX).into());
    let sql = format!(
        "/* partitions::next_series */
         SELECT s.series_id, s.source, s.customer_id, s.query_name
         FROM series s
         WHERE true
             {conditions}
         ORDER BY s.source, s.customer_id, s.query_name
         LIMIT CAST({limit} AS BIGINT)",
        conditions = conditions.text,
    );
    tx.built_rows(&sql, &conditions.params, |row| SeriesSpan::read(row, first)).await
}

impl SeriesSpan {
    fn read(row: &Row<'_>, after: i64) -> Result<Self> {
        let bad = |error| Error::row("series", error);
        let mut row = row.cursor();
        let series_id = row.int()?;
        let key = PartitionKey {
            source: Source::new(row.str()?).map_err(bad)?,
            customer_id: CustomerId::new(row.str()?).map_err(bad)?,
            query_name: QueryName::new(row.str()?).map_err(bad)?,
            logical_date: LogicalDate::FIRST,
        };
        Ok(Self { series_id, key, after })
    }
}

const STRETCH: [(&str, Kind); 4] =
    [("series_id", Kind::Int), ("after", Kind::Int), ("until", Kind::Int), ("limit", Kind::Int)];

/// The days of some series that a page means; at most `limit`.
async fn days(tx: &mut Tx<'_>, page: &Page, series: &[SeriesSpan], limit: usize) -> Result<Vec<Partition>> {
    let filter = &page.filter;
    let mut conditions = String::new();
    let mut and = |text: &str| conditions += &format!(" AND {text}");
    if page.open {
        and("p.status <> 'success'");
    }
    if let Some(status) = filter.status {
        and(of_status(status));
    }
    let (mut names, until) = (STRETCH.to_vec(), filter.until.map_or(i64::MAX, |until| Period::of(until).number()));
    let every = |value: i64| Column::ints(series, move |_| Some(value));
    let mut columns = vec![
        Column::ints(series, |stretch| Some(stretch.series_id)),
        Column::ints(series, |stretch| Some(stretch.after)),
        every(until),
        every(i64::try_from(limit).unwrap_or(i64::MAX)),
    ];
    if let Some(class) = filter.error_class {
        and("p.error_class = @error_class");
        names.push(("error_class", Kind::Text));
        columns.push(Column::texts(series, |_| Some(class.as_str())));
    }
    if let Some(group) = filter.group {
        and(IN_A_GROUP);
        and("p.error_group = @error_group");
        names.push(("error_group", Kind::Int));
        columns.push(every(group.number()));
    }
    let open = page.open || matches!(filter.status, Some(Status::Pending | Status::Failed));
    let from = match (filter.group, open) {
        (Some(_), _) => "{group_with_control}",
        (None, true) => "{open_with_control}",
        (None, false) => "{with_control}",
    };
    let sql = format!(
        "/* partitions::page */
         SELECT {{in_series}}
         {from}
         WHERE p.series_id = @series_id AND p.period > @after AND p.period <= @until
             {conditions}
         ORDER BY p.period
         LIMIT @limit"
    );
    let read = |nth: usize, mut row: crate::db::Cursor<'_>| Ok((nth, read_in(&mut row, &series[nth].key)?));
    let mut found = tx.built_lookup(&sql, &names, &columns, read).await?;
    // Nothing but habit makes a join on PostgreSQL keep the order of its first table.
    found.sort_by_key(|(nth, _)| *nth);
    found.truncate(limit);
    Ok(found.into_iter().map(|(_, partition)| partition).collect())
}

/// Where in the order of keys a page of marked partitions begins.
#[derive(Clone, Copy)]
enum Begin<'a> {
    /// At the first key.
    Start,
    /// After a key, within its series.
    Within(&'a PartitionKey),
    /// At the series after a key's.
    Beyond(&'a PartitionKey),
}

/// Two statements where a page begins after a key, so that each steps down an index from there: the rest of the key's own
/// series, and the series after it.
async fn marked(tx: &mut Tx<'_>, page: &Page) -> Result<Vec<Partition>> {
    let Some(after) = &page.after else { return select_marked(tx, page, Begin::Start, page.limit).await };
    let mut found = select_marked(tx, page, Begin::Within(after), page.limit).await?;
    let left = page.limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
    if left > 0 && !names_one_series(&page.filter) {
        found.extend(select_marked(tx, page, Begin::Beyond(after), left).await?);
    }
    Ok(found)
}

async fn select_marked(tx: &mut Tx<'_>, page: &Page, begin: Begin<'_>, limit: u32) -> Result<Vec<Partition>> {
    let mut conditions = Conditions::new(&page.filter);
    match begin {
        Begin::Start => {}
        Begin::Within(key) => conditions.within(key),
        Begin::Beyond(key) => conditions.beyond(&page.filter, key),
    }
    if page.open {
        conditions.plain("p.status <> 'success'");
    }
    if page.marked_terminal {
        conditions.plain("c.terminal_at IS NOT NULL");
    }
    if page.paused {
        conditions.plain("c.paused_at IS NOT NULL");
    }
    if page.reprocess {
        conditions.plain("c.reprocess = 1");
    }
    let limit = conditions.param(i64::from(limit).into());
    let sql = format!(
        "/* partitions::marked */
         SELECT {{partition}}
         {{from_control_of_series}}
             {conditions}
         ORDER BY s.source, s.customer_id, s.query_name, p.period
         LIMIT CAST({limit} AS BIGINT)",
        conditions = conditions.text,
    );
    tx.built_rows(&sql, &conditions.params, read).await
}

async fn count(tx: &mut Tx<'_>, filter: &Filter) -> Result<u64> {
    let conditions = Conditions::new(filter);
    let sql = format!(
        "/* partitions::count */
         SELECT count(*)
         FROM series s CROSS JOIN partitions p
         WHERE p.series_id = s.series_id
             {}",
        conditions.text,
    );
    let rows = tx.built_rows(&sql, &conditions.params, |row| row.int(0)).await?;
    Ok(rows.first().map_or(0, |&count| u64::try_from(count).unwrap_or(0)))
}
