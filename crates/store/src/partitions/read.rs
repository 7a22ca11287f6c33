//! Reading partitions: by their keys, a page in key order, and the days that are missing.

use std::sync::Arc;

use redrive_core::calendar;
use redrive_core::filter::Filter;
use redrive_core::key::{CustomerId, LogicalDate, PartitionKey, QueryName, Source};
use redrive_core::partition::{Partition, Status};

use super::Period;
use super::row::{read, read_from};
use crate::db::{Column, Kind, Lookup, Param, Sql, Tx};
use crate::error::Result;
use crate::handles::{View, read};

impl View {
    pub async fn partition(&self, key: &PartitionKey) -> Result<Option<Partition>> {
        Ok(self.partitions_of(vec![key.clone()]).await?.into_iter().next().flatten())
    }

    /// Partitions by their keys, in the same order; none where there is none.
    pub async fn partitions_of(&self, keys: Vec<PartitionKey>) -> Result<Vec<Option<Partition>>> {
        read!(self.read_by_index, "partitions of", |tx, keys| get_many(tx, &keys))
    }

    /// A page of partitions in key order.
    pub async fn partitions(&self, asked: Page) -> Result<Vec<Partition>> {
        read!(self.read_by_index, "partitions", |tx, asked| page(tx, &asked))
    }

    pub async fn count(&self, filter: &Filter) -> Result<u64> {
        let filter = filter.clone();
        read!(self, "count", |tx, filter| count(tx, &filter))
    }

    /// The days in a span that have no partition, in order.
    pub async fn missing(&self, span: QuerySpan) -> Result<Vec<LogicalDate>> {
        let (since, until) = (span.since, span.until);
        let present = read!(self.read_by_index, "missing", |tx, span| days(tx, &span))?;
        let Some(present) = present else { return Ok(vec![]) };
        let mut present = present.into_iter().peekable();
        Ok(calendar::days(since, until).filter(|day| present.next_if_eq(day).is_none()).collect())
    }
}

const KEY: [(&str, Kind); 4] =
    [("source", Kind::Text), ("customer_id", Kind::Text), ("query_name", Kind::Text), ("period", Kind::Int)];

fn key_columns<'a>(keys: &[&'a PartitionKey]) -> [Column<'a>; 4] {
    let texts = |text: fn(&PartitionKey) -> &str| Column::Text(keys.iter().map(|key| Some(text(key))).collect());
    [
        texts(|key| key.source.as_str()),
        texts(|key| key.customer_id.as_str()),
        texts(|key| key.query_name.as_str()),
        Column::Int(keys.iter().map(|key| Some(Period::of(key.logical_date).number())).collect()),
    ]
}

static GET: Lookup = Lookup::new(
    "/* partitions::get */
     SELECT {partition}
     {from_series}
         AND s.source = @source AND s.customer_id = @customer_id AND s.query_name = @query_name
         AND p.period = @period",
    &KEY,
);

/// Partitions by their keys, in the same order.
pub(crate) async fn get_many(tx: &mut Tx<'_>, keys: &[PartitionKey]) -> Result<Vec<Option<Partition>>> {
    let asked: Vec<&PartitionKey> = keys.iter().collect();
    let mut all = vec![None; keys.len()];
    for (nth, partition) in tx.lookup(&GET, &key_columns(&asked), |mut row| read_from(&mut row)).await? {
        all[nth] = Some(partition);
    }
    Ok(all)
}

static LOCK: Lookup = Lookup::new(
    "/* partitions::lock */
     SELECT p.version
     FROM partitions p
     WHERE p.series_id = (
             SELECT series_id
             FROM series
             WHERE source = @source AND customer_id = @customer_id AND query_name = @query_name)
         AND p.period = @period
     {lock}",
    &KEY,
);

/// The same, and no other transaction changes them until this one ends. They are locked first, in key order so that no
/// two transactions wait for each other, and read afterwards: a join that waited for its lock would give the partition as
/// it is now with its control row as it was before.
pub(crate) async fn get_many_locked(tx: &mut Tx<'_>, keys: &[PartitionKey]) -> Result<Vec<Option<Partition>>> {
    let mut ordered: Vec<&PartitionKey> = keys.iter().collect();
    ordered.sort_unstable();
    ordered.dedup();
    tx.lookup(&LOCK, &key_columns(&ordered), |mut row| row.int()).await?;
    get_many(tx, keys).await
}

/// A page of what a filter means, in key order, after `after`.
#[derive(Debug, Clone, Default)]
pub struct Page {
    pub filter: Filter,
    pub after: Option<PartitionKey>,
    pub limit: u32,
    /// Only what is not a success.
    pub open: bool,
    /// Only what holds a terminal mark, or only what is paused.
    pub marked_terminal: bool,
    pub paused: bool,
}

/// Where in the order of keys a page begins.
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
pub(crate) async fn page(tx: &mut Tx<'_>, page: &Page) -> Result<Vec<Partition>> {
    let Some(after) = &page.after else { return select(tx, page, Begin::Start, page.limit).await };
    let mut found = select(tx, page, Begin::Within(after), page.limit).await?;
    let left = page.limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
    if left > 0 && !names_one_series(&page.filter) {
        found.extend(select(tx, page, Begin::Beyond(after), left).await?);
    }
    Ok(found)
}

fn names_one_series(filter: &Filter) -> bool {
    filter.source.is_some() && filter.customer_id.is_some() && filter.query_name.is_some()
}

async fn select(tx: &mut Tx<'_>, page: &Page, begin: Begin<'_>, limit: u32) -> Result<Vec<Partition>> {
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
    let open = page.open || matches!(page.filter.status, Some(Status::Pending | Status::Failed));
    let from = match (page.marked_terminal || page.paused, open) {
        // Marks live in the small table: starting there keeps the large one out of it.
        (true, _) => "{from_control_of_series}",
        (false, true) => "{from_open_series}",
        (false, false) => "{from_series}",
    };
    let sql = format!(
        "/* partitions::page */
         SELECT {{partition}}
         {from}
             {conditions}
         ORDER BY s.source, s.customer_id, s.query_name, p.period
         LIMIT {limit}",
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

/// The conditions of a filter. Only those that are given are written, so that each shape has its own plan.
struct Conditions<'a> {
    text: String,
    params: Vec<Param<'a>>,
}

impl<'a> Conditions<'a> {
    fn new(filter: &'a Filter) -> Self {
        let mut all = Self { text: String::new(), params: vec![] };
        if let Some(source) = &filter.source {
            all.value("s.source =", source.as_str().into());
        }
        if let Some(customer) = &filter.customer_id {
            all.value("s.customer_id =", customer.as_str().into());
        }
        if let Some(query) = &filter.query_name {
            all.value("s.query_name =", query.as_str().into());
        }
        if let Some(since) = filter.since {
            all.value("p.period >=", Period::of(since).into());
        }
        if let Some(until) = filter.until {
            all.value("p.period <=", Period::of(until).into());
        }
        match filter.status {
            // Written out, so that the planner sees that the partial index of open partitions serves.
            Some(Status::Pending) => all.plain("p.status = 'pending' AND p.status <> 'success'"),
            Some(Status::Failed) => all.plain("p.status = 'failed' AND p.status <> 'success'"),
            Some(Status::Success) => all.plain("p.status = 'success'"),
            None => {}
        }
        if let Some(class) = filter.error_class {
            all.value("p.error_class =", class.as_str().into());
        }
        all
    }

    fn plain(&mut self, text: &str) {
        self.text += &format!(" AND {text}");
    }

    fn value(&mut self, text: &str, value: Param<'a>) {
        self.params.push(value);
        self.text += &format!(" AND {text} ?{}", self.params.len());
    }

    /// What comes after a key in its series.
    fn within(&mut self, key: &'a PartitionKey) {
        self.value("s.source =", key.source.as_str().into());
        self.value("s.customer_id =", key.customer_id.as_str().into());
        self.value("s.query_name =", key.query_name.as_str().into());
        self.value("p.period >", Period::of(key.logical_date).into());
    }

    /// The series after a key's. Columns that the filter fixes from the left are left out of the comparison, so that the
    /// index is entered at the key and not at the beginning of what is fixed.
    fn beyond(&mut self, filter: &Filter, key: &'a PartitionKey) {
        let columns = [
            ("s.source", key.source.as_str(), filter.source.is_some()),
            ("s.customer_id", key.customer_id.as_str(), filter.customer_id.is_some()),
            ("s.query_name", key.query_name.as_str(), filter.query_name.is_some()),
        ];
        let open: Vec<_> = columns.into_iter().skip_while(|(.., fixed)| *fixed).collect();
        let first = self.params.len() + 1;
        let names: Vec<_> = open.iter().map(|(name, ..)| *name).collect();
        let marks: Vec<_> = (first..first + open.len()).map(|nth| format!("?{nth}")).collect();
        self.params.extend(open.iter().map(|&(_, value, _)| Param::from(value)));
        self.text += &format!(" AND ({}) > ({})", names.join(", "), marks.join(", "));
    }
}

macro_rules! of_span {
    () => {
        "FROM partitions
         WHERE series_id = (
                 SELECT series_id
                 FROM series
                 WHERE source = ?1 AND customer_id = ?2 AND query_name = ?3)
             AND period >= ?4 AND period <= ?5"
    };
}

static DAYS: Sql = Sql::new(concat!(
    "/* partitions::days */
     SELECT period
     ",
    of_span!(),
    "
     ORDER BY period"
));
static COUNT_DAYS: Sql = Sql::new(concat!(
    "/* partitions::count_days */
     SELECT count(*)
     ",
    of_span!()
));

/// The days of one query of one customer, from `since` to `until`.
#[derive(Debug, Clone)]
pub struct QuerySpan {
    pub source: Source,
    pub customer_id: CustomerId,
    pub query_name: QueryName,
    pub since: LogicalDate,
    pub until: LogicalDate,
}

/// The days in a span that have a partition, in order; none are read when all of them have.
async fn days(tx: &mut Tx<'_>, span: &QuerySpan) -> Result<Option<Vec<LogicalDate>>> {
    let params = [
        span.source.as_str().into(),
        span.customer_id.as_str().into(),
        span.query_name.as_str().into(),
        Period::of(span.since).into(),
        Period::of(span.until).into(),
    ];
    let count = tx.row(&COUNT_DAYS, &params, |row| row.int(0)).await?.unwrap_or(0);
    if u64::try_from(count).is_ok_and(|count| count == calendar::count(span.since, span.until)) {
        return Ok(None);
    }
    tx.rows(&DAYS, &params, |row| Period::from_row(row.int(0)?).date()).await.map(Some)
}
