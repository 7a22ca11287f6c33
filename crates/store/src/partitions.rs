//! Reading partitions: one, a page in key order, and those that may be due.

use redrive_core::calendar;
use redrive_core::filter::Filter;
use redrive_core::key::{CustomerId, LogicalDate, PartitionKey, QueryName, Source};
use redrive_core::partition::{Partition, Status};
use redrive_core::time::Timestamp;

use crate::db::{Param, Row, Sql, Tx};
use crate::error::{Error, Result};
use crate::partition_row::{self, partition_columns, partition_tables};

static GET: Sql = Sql::new(concat!(
    "/* partitions::get */ SELECT ",
    partition_columns!(),
    " FROM ",
    partition_tables!(),
    " WHERE p.source = ?1 AND p.customer_id = ?2 AND p.query_name = ?3 AND p.logical_date = ?4"
));

static LOCK: Sql = Sql::new(
    "/* partitions::lock */ SELECT version FROM partitions WHERE source = ?1 AND customer_id = ?2 AND query_name = ?3 \
     AND logical_date = ?4 {lock}",
);

pub(crate) async fn get(tx: &mut Tx<'_>, key: &PartitionKey) -> Result<Option<Partition>> {
    let date = key.logical_date.to_string();
    tx.row(&GET, &params_of(key, &date), partition_row::read).await
}

/// The same, and nobody else changes it until this transaction ends. Locked first and read afterwards: a join that waited
/// for its lock would give the partition as it is now with its control row as it was before.
pub(crate) async fn get_locked(tx: &mut Tx<'_>, key: &PartitionKey) -> Result<Option<Partition>> {
    let date = key.logical_date.to_string();
    match tx.row(&LOCK, &params_of(key, &date), |row| row.int(0)).await? {
        Some(_) => get(tx, key).await,
        None => Ok(None),
    }
}

fn params_of<'a>(key: &'a PartitionKey, date: &'a str) -> [Param<'a>; 4] {
    [key.source.as_str().into(), key.customer_id.as_str().into(), key.query_name.as_str().into(), date.into()]
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

pub(crate) async fn page(tx: &mut Tx<'_>, page: &Page) -> Result<Vec<Partition>> {
    let mut conditions = Conditions::new(&page.filter);
    let after_date;
    if let Some(after) = &page.after {
        after_date = after.logical_date.to_string();
        conditions.after(&page.filter, after, &after_date);
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
    // Marks live in the small table: starting there keeps the large one out of it.
    let tables = match page.marked_terminal || page.paused {
        true => {
            "partition_control c JOIN partitions p ON p.source = c.source AND p.customer_id = c.customer_id \
             AND p.query_name = c.query_name AND p.logical_date = c.logical_date"
        }
        false => partition_tables!(),
    };
    let sql = format!(
        concat!(
            "/* partitions::page */ SELECT ",
            partition_columns!(),
            " FROM {} {} ORDER BY p.source, p.customer_id, p.query_name, p.logical_date LIMIT {}"
        ),
        tables,
        conditions.sql(),
        page.limit,
    );
    tx.built_rows(&sql, &conditions.params(), partition_row::read).await
}

pub(crate) async fn count(tx: &mut Tx<'_>, filter: &Filter) -> Result<u64> {
    tx.sweep().await?;
    let conditions = Conditions::new(filter);
    let sql = format!("/* partitions::count */ SELECT count(*) FROM partitions p {}", conditions.sql());
    let rows = tx.built_rows(&sql, &conditions.params(), |row| row.int(0)).await?;
    Ok(rows.first().map_or(0, |&count| u64::try_from(count).unwrap_or(0)))
}

static DAYS: Sql = Sql::new(
    "/* partitions::days */ SELECT logical_date FROM partitions WHERE source = ?1 AND customer_id = ?2 AND query_name = ?3 \
     AND logical_date >= ?4 AND logical_date <= ?5 ORDER BY logical_date",
);
static COUNT_DAYS: Sql = Sql::new(
    "/* partitions::count_days */ SELECT count(*) FROM partitions WHERE source = ?1 AND customer_id = ?2 \
     AND query_name = ?3 AND logical_date >= ?4 AND logical_date <= ?5",
);

/// The days of one query of one customer, from `since` to `until`.
#[derive(Debug, Clone)]
pub struct Stretch {
    pub source: Source,
    pub customer_id: CustomerId,
    pub query_name: QueryName,
    pub since: LogicalDate,
    pub until: LogicalDate,
}

/// The days in a stretch that have a partition, in order; none are read when all of them have.
pub(crate) async fn days(tx: &mut Tx<'_>, stretch: &Stretch) -> Result<Option<Vec<LogicalDate>>> {
    let (since, until) = (stretch.since.to_string(), stretch.until.to_string());
    let params = [
        stretch.source.as_str().into(),
        stretch.customer_id.as_str().into(),
        stretch.query_name.as_str().into(),
        since.as_str().into(),
        until.as_str().into(),
    ];
    let count = tx.row(&COUNT_DAYS, &params, |row| row.int(0)).await?.unwrap_or(0);
    if u64::try_from(count).is_ok_and(|count| count == calendar::count(stretch.since, stretch.until)) {
        return Ok(None);
    }
    tx.rows(&DAYS, &params, |row| row.word(0)).await.map(Some)
}

/// The conditions of a filter. Only those that are given are written, so that each shape has its own plan.
struct Conditions<'a> {
    texts: Vec<String>,
    values: Vec<Value<'a>>,
}

enum Value<'a> {
    Borrowed(&'a str),
    Owned(String),
}

impl<'a> Conditions<'a> {
    fn new(filter: &'a Filter) -> Self {
        let mut all = Self { texts: vec![], values: vec![] };
        if let Some(source) = &filter.source {
            all.value("p.source =", Value::Borrowed(source.as_str()));
        }
        if let Some(customer) = &filter.customer_id {
            all.value("p.customer_id =", Value::Borrowed(customer.as_str()));
        }
        if let Some(query) = &filter.query_name {
            all.value("p.query_name =", Value::Borrowed(query.as_str()));
        }
        if let Some(since) = filter.since {
            all.value("p.logical_date >=", Value::Owned(since.to_string()));
        }
        if let Some(until) = filter.until {
            all.value("p.logical_date <=", Value::Owned(until.to_string()));
        }
        match filter.status {
            // Written out, so that the planner sees that the partial index of open partitions serves.
            Some(Status::Pending) => all.plain("p.status = 'pending' AND p.status <> 'success'"),
            Some(Status::Failed) => all.plain("p.status = 'failed' AND p.status <> 'success'"),
            Some(Status::Success) => all.plain("p.status = 'success'"),
            None => {}
        }
        if let Some(class) = filter.error_class {
            all.value("p.error_class =", Value::Borrowed(class.as_str()));
        }
        all
    }

    fn plain(&mut self, text: &str) {
        self.texts.push(text.to_owned());
    }

    fn value(&mut self, text: &str, value: Value<'a>) {
        self.values.push(value);
        self.texts.push(format!("{text} ?{}", self.values.len()));
    }

    /// What comes after a key. Columns that the filter fixes from the left are left out of the comparison, so that the
    /// index is entered at the key and not at the beginning of what is fixed.
    fn after(&mut self, filter: &Filter, key: &'a PartitionKey, date: &'a str) {
        let columns = [
            ("p.source", key.source.as_str(), filter.source.is_some()),
            ("p.customer_id", key.customer_id.as_str(), filter.customer_id.is_some()),
            ("p.query_name", key.query_name.as_str(), filter.query_name.is_some()),
            ("p.logical_date", date, false),
        ];
        let open: Vec<_> = columns.into_iter().skip_while(|(.., fixed)| *fixed).collect();
        let first = self.values.len() + 1;
        let names: Vec<_> = open.iter().map(|(name, ..)| *name).collect();
        let marks: Vec<_> = (first..first + open.len()).map(|nth| format!("?{nth}")).collect();
        self.values.extend(open.iter().map(|(_, value, _)| Value::Borrowed(value)));
        self.texts.push(format!("({}) > ({})", names.join(", "), marks.join(", ")));
    }

    fn sql(&self) -> String {
        if self.texts.is_empty() { String::new() } else { format!("WHERE {}", self.texts.join(" AND ")) }
    }

    fn params(&self) -> Vec<Param<'_>> {
        self.values
            .iter()
            .map(|value| match value {
                Value::Borrowed(text) => Param::Text(text),
                Value::Owned(text) => Param::Text(text),
            })
            .collect()
    }
}

/// One stretch of an index of what may be due: those of a source that have been tried equally often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Band {
    pub source: Source,
    pub attempt_count: u32,
}

impl Band {
    pub(crate) fn new(source: String, attempts: i64) -> Result<Self> {
        Ok(Self {
            source: source.try_into().map_err(|error| Error::row("partitions", error))?,
            attempt_count: attempts.try_into().map_err(|error| Error::row("partitions", error))?,
        })
    }
}

/// The next band of a source, and the first of the next source: each one step down the index, however many rows a band
/// has. A comparison of both columns at once would read the band.
static NEXT_BAND: Sql = Sql::new(
    "/* partitions::next_band */ SELECT source, attempt_count FROM partitions WHERE status = 'failed' AND held = 0 \
     AND error_class <> 'final' AND source = ?1 AND attempt_count > ?2 ORDER BY source, attempt_count LIMIT 1",
);
static NEXT_SOURCE: Sql = Sql::new(
    "/* partitions::next_source */ SELECT source, attempt_count FROM partitions WHERE status = 'failed' AND held = 0 \
     AND error_class <> 'final' AND source > ?1 ORDER BY source, attempt_count LIMIT 1",
);

pub(crate) async fn bands(tx: &mut Tx<'_>) -> Result<Vec<Band>> {
    let mut found: Vec<(String, i64)> = Vec::new();
    loop {
        let (source, attempt) = found.last().map_or(("", -1), |(source, attempt)| (source.as_str(), *attempt));
        let band = |row: &Row<'_>| Ok((row.text(0)?, row.int(1)?));
        let mut next = tx.row(&NEXT_BAND, &[source.into(), attempt.into()], band).await?;
        if next.is_none() {
            next = tx.row(&NEXT_SOURCE, &[source.into()], band).await?;
        }
        match next {
            Some(band) => found.push(band),
            None => break,
        }
    }
    found.into_iter().map(|(source, attempts)| Band::new(source, attempts)).collect()
}

/// Where in a band to look: failures that were decided by `decided_by` and whose partition is younger than the limit.
#[derive(Debug, Clone)]
pub struct Reach {
    pub band: Band,
    pub decided_by: Timestamp,
    pub created_after: Timestamp,
    pub after: Option<(Timestamp, PartitionKey)>,
    pub limit: u32,
}

pub(crate) const REACH: &str = concat!(
    "/* partitions::reach */ SELECT ",
    partition_columns!(),
    " FROM ",
    partition_tables!(),
    " WHERE p.status = 'failed' AND p.held = 0 AND p.error_class <> 'final' AND p.source = ?1 \
      AND p.attempt_count = CAST(?2 AS BIGINT) AND p.updated_at <= CAST(?3 AS BIGINT) AND p.created_at > CAST(?4 AS BIGINT) \
      AND (p.updated_at > CAST(?5 AS BIGINT) OR (p.updated_at = CAST(?5 AS BIGINT) \
           AND (p.customer_id, p.query_name, p.logical_date) > (?6, ?7, ?8))) AND p.updated_at >= CAST(?5 AS BIGINT) \
      ORDER BY p.updated_at, p.customer_id, p.query_name, p.logical_date LIMIT CAST(?9 AS BIGINT)"
);
static REACH_SQL: Sql = Sql::new(REACH);

pub(crate) async fn reach(tx: &mut Tx<'_>, reach: &Reach) -> Result<Vec<Partition>> {
    let (from, customer, query, date) = match &reach.after {
        Some((at, key)) => {
            (at.micros(), key.customer_id.as_str(), key.query_name.as_str(), key.logical_date.to_string())
        }
        None => (i64::MIN, "", "", String::new()),
    };
    let params = [
        reach.band.source.as_str().into(),
        i64::from(reach.band.attempt_count).into(),
        reach.decided_by.micros().into(),
        reach.created_after.micros().into(),
        from.into(),
        customer.into(),
        query.into(),
        date.as_str().into(),
        i64::from(reach.limit).into(),
    ];
    tx.rows(&REACH_SQL, &params, partition_row::read).await
}
