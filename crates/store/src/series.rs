//! The table of series: a source, a customer and a query, which a partition names by one integer.
//!
//! Rows are added and never changed or deleted. Their ids are this crate's own: what is given out has the three names.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use redrive_core::key::PartitionKey;

use crate::db::{Batch, Column, Effect, Kind, Lookup, Sql, Tx};
use crate::error::{Error, Result};
use crate::partitions::Period;

/// The number that stands for a source. The order keeps the search in the index.
macro_rules! source_no {
    ($source:literal) => {
        concat!(
            "(
             SELECT source_no
             FROM series
             WHERE source = ",
            $source,
            "
             ORDER BY customer_id, query_name
             LIMIT 1)"
        )
    };
}
pub(crate) use source_no;

/// "series", as the advisory lock under which new ones get their ids.
const NEW_SERIES: i64 = 0x7365_7269_6573;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Series {
    pub(crate) id: i64,
    /// Stands for the source.
    pub(crate) source_no: i64,
    /// Stands for the source and the customer.
    pub(crate) scope: Scope,
}

/// A customer of a source as one integer: the source's number in front of the id of the customer's first series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scope(i64);

impl Scope {
    const CUSTOMERS: i64 = 1 << 32;

    fn new(source_no: i64, first_series: i64) -> Self {
        Self(source_no * Self::CUSTOMERS + first_series)
    }

    /// Before the first that a customer of this source can have.
    pub(crate) fn of_source(source_no: i64) -> Self {
        Self(source_no * Self::CUSTOMERS)
    }

    pub(crate) fn from_row(value: i64) -> Self {
        Self(value)
    }

    pub(crate) fn number(self) -> i64 {
        self.0
    }

    /// The last scope that a customer of this source can have.
    pub(crate) fn end_of_source(self) -> Self {
        Self((self.0 / Self::CUSTOMERS + 1) * Self::CUSTOMERS - 1)
    }
}

/// Where a partition lies in the tables. A key whose series is not there lies nowhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) series: Option<Series>,
    pub(crate) period: Period,
}

/// A series by its names, which is the order of the table's index.
pub(crate) type Names<'a> = (&'a str, &'a str, &'a str);

const NAMES: [(&str, Kind); 3] = [("source", Kind::Text), ("customer_id", Kind::Text), ("query_name", Kind::Text)];

fn names_of(key: &PartitionKey) -> Names<'_> {
    (key.source.as_str(), key.customer_id.as_str(), key.query_name.as_str())
}

fn name_columns<'a>(names: &'a [Names<'a>]) -> [Column<'a>; 3] {
    [
        Column::texts(names, |names| Some(names.0)),
        Column::texts(names, |names| Some(names.1)),
        Column::texts(names, |names| Some(names.2)),
    ]
}

static FIND: Lookup = Lookup::new(
    "/* series::find */
     SELECT series_id, source_no, scope
     FROM series
     WHERE source = @source AND customer_id = @customer_id AND query_name = @query_name",
    &NAMES,
);

/// Finds where partitions lie, with one statement for all their series.
pub(crate) async fn find<'k>(tx: &mut Tx<'_>, keys: impl Iterator<Item = &'k PartitionKey>) -> Result<Vec<Place>> {
    let mut distinct: Vec<Names<'_>> = Vec::new();
    let mut known: HashMap<Names<'_>, usize> = HashMap::new();
    let mut asked: Vec<(usize, Period)> = Vec::with_capacity(keys.size_hint().0);
    for key in keys {
        let (names, period) = (names_of(key), Period::of(key.logical_date));
        // Keys mostly come in order, with many days of one series after another.
        let nth = match asked.last() {
            Some(&(last, _)) if distinct[last] == names => last,
            _ => *known.entry(names).or_insert_with(|| {
                distinct.push(names);
                distinct.len() - 1
            }),
        };
        asked.push((nth, period));
    }
    let mut series = vec![None; distinct.len()];
    let found = tx
        .lookup(&FIND, &name_columns(&distinct), |mut row| {
            Ok(Series { id: row.int()?, source_no: row.int()?, scope: Scope(row.int()?) })
        })
        .await?;
    for (nth, found) in found {
        series[nth] = Some(found);
    }
    Ok(asked.into_iter().map(|(nth, period)| Place { series: series[nth], period }).collect())
}

/// The ids of those of these queries that are there.
pub(crate) async fn ids_of(tx: &mut Tx<'_>, names: &[Names<'_>]) -> Result<Vec<i64>> {
    let found = tx.lookup(&FIND, &name_columns(names), |mut row| row.int()).await?;
    Ok(found.into_iter().map(|(_, id)| id).collect())
}

/// Where a cursor stands that comes after a key: the id of its series, and its period. No series has the id 0.
pub(crate) async fn stand(tx: &mut Tx<'_>, after: Option<&PartitionKey>) -> Result<(i64, i64)> {
    let place = find(tx, after.into_iter()).await?.into_iter().next();
    Ok(place.map_or((0, 0), |place| (place.series.map_or(0, |series| series.id), place.period.number())))
}

/// Finds where partitions lie, and makes the series that are not there yet. Transactions that make some take turns, so
/// that no two of them give out the same id or make the same series.
pub(crate) async fn ensure(tx: &mut Tx<'_>, keys: &[&PartitionKey]) -> Result<Vec<Place>> {
    let places = find(tx, keys.iter().copied()).await?;
    if places.iter().all(|place| place.series.is_some()) {
        return Ok(places);
    }
    tx.exclusive(NEW_SERIES).await?;
    let places = find(tx, keys.iter().copied()).await?;
    let missing = keys.iter().zip(&places).filter(|(_, place)| place.series.is_none());
    let missing: BTreeSet<Names<'_>> = missing.map(|(key, _)| names_of(key)).collect();
    insert(tx, &missing.into_iter().collect::<Vec<_>>()).await?;
    find(tx, keys.iter().copied()).await
}

static LAST: Sql = Sql::new(
    "/* series::last */
     SELECT coalesce(max(series_id), 0)
     FROM series",
);
static NUMBERS: Lookup = Lookup::new(
    concat!(
        "/* series::numbers */
         SELECT ",
        source_no!("@source"),
        ", (
             SELECT scope
             FROM series
             WHERE source = @source AND customer_id = @customer_id
             ORDER BY query_name
             LIMIT 1)"
    ),
    &[NAMES[0], NAMES[1]],
);
static INSERT: Batch = Batch::new(
    "/* series::insert */
     INSERT INTO series ({columns})
     {values}",
    &[("series_id", Kind::Int), NAMES[0], NAMES[1], NAMES[2], ("source_no", Kind::Int), ("scope", Kind::Int)],
    Effect::All,
);

/// Inserts series that are not there, in the order given. The caller holds the lock.
async fn insert(tx: &mut Tx<'_>, missing: &[Names<'_>]) -> Result<()> {
    let mut last = tx.row(&LAST, &[], |row| row.int(0)).await?.unwrap_or(0);
    let (mut sources, mut scopes) = (BTreeMap::new(), BTreeMap::new());
    let [source, customer, query] = name_columns(missing);
    let customers = [source, customer];
    let numbers = tx.lookup(&NUMBERS, &customers, |mut row| Ok((row.opt_int()?, row.opt_int()?))).await?;
    for (nth, (source_no, scope)) in numbers {
        let (source, customer, _) = missing[nth];
        source_no.map(|number| sources.insert(source, number));
        scope.map(|scope| scopes.insert((source, customer), Scope(scope)));
    }
    let mut new = Vec::with_capacity(missing.len());
    for &(source, customer, _) in missing {
        last += 1;
        let source_no = *sources.entry(source).or_insert(last);
        let scope = *scopes.entry((source, customer)).or_insert_with(|| Scope::new(source_no, last));
        new.push(Series { id: last, source_no, scope });
    }
    // Ids are 32 bits wide.
    i32::try_from(last).map_err(|error| Error::row("series", error))?;
    let [source, customer] = customers;
    let columns = [
        Column::ints(&new, |series| Some(series.id)),
        source,
        customer,
        query,
        Column::ints(&new, |series| Some(series.source_no)),
        Column::ints(&new, |series| Some(series.scope.number())),
    ];
    tx.batch(&INSERT, &columns).await.map(drop)
}

static SOURCES: Lookup = Lookup::new(
    "/* series::sources */
     SELECT source
     FROM series
     WHERE series_id = @source_no",
    &[("source_no", Kind::Int)],
);

/// The names of sources by their numbers.
pub(crate) async fn sources(tx: &mut Tx<'_>, numbers: &BTreeSet<i64>) -> Result<BTreeMap<i64, String>> {
    let numbers: Vec<i64> = numbers.iter().copied().collect();
    let columns = [Column::ints(&numbers, |&number| Some(number))];
    let names = tx.lookup(&SOURCES, &columns, |mut row| row.text()).await?;
    Ok(names.into_iter().map(|(nth, name)| (numbers[nth], name)).collect())
}

static CUSTOMERS: Lookup = Lookup::new(
    "/* series::customers */
     SELECT source, customer_id
     FROM series
     WHERE series_id = @series_id",
    &[("series_id", Kind::Int)],
);

/// The sources and customers of series, by their ids.
pub(crate) async fn names(
    tx: &mut Tx<'_>,
    asked: impl Iterator<Item = i64>,
) -> Result<BTreeMap<i64, (String, String)>> {
    let ids: Vec<i64> = asked.collect::<BTreeSet<_>>().into_iter().collect();
    let columns = [Column::ints(&ids, |&id| Some(id))];
    let names = tx.lookup(&CUSTOMERS, &columns, |mut row| Ok((row.text()?, row.text()?))).await?;
    Ok(names.into_iter().map(|(nth, names)| (ids[nth], names)).collect())
}

static SOURCE_NUMBERS: Lookup =
    Lookup::new(concat!("/* series::source_numbers */ SELECT ", source_no!("@source")), &[NAMES[0]]);

/// The numbers of sources by their names; one that has no series has none.
pub(crate) async fn source_numbers<'s>(
    tx: &mut Tx<'_>,
    asked: impl Iterator<Item = &'s str>,
) -> Result<BTreeMap<&'s str, i64>> {
    let sources: Vec<&str> = asked.collect();
    let columns = [Column::texts(&sources, |source| Some(source))];
    let numbers = tx.lookup(&SOURCE_NUMBERS, &columns, |mut row| row.opt_int()).await?;
    Ok(numbers.into_iter().filter_map(|(nth, number)| Some((sources[nth], number?))).collect())
}
