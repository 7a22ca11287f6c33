//! What was found so far: of ranges what fits the conditions, with the names of its upload, file and stanza.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use redrive_core::id::RunId;

use super::{Found, Hit, Match, RANGES, Terms, read_found};
use crate::db::{Column, Cursor, Kind, Lookup, Tx};
use crate::error::{Error, Result};
use crate::stanzas::id::UploadNo;
use crate::stanzas::read::{BareStanza, files_by_id, read_stanza, stanza_columns};
use crate::stanzas::words;

pub(super) static IN_RANGES: Lookup = Lookup::new(
    "/* search::in_ranges */
     SELECT setting_id, stanza_id, key, value, line
     FROM settings
     WHERE setting_id >= @first
       AND setting_id < @last
       AND (@conf IS NULL OR conf_id = @conf)
       AND (@key IS NULL OR key = @key)
       AND (@value IS NULL OR value = @value)
       AND (@prefix IS NULL OR {place_in}(value, @prefix) = 1)
       AND (@part IS NULL OR {place_in}(value, @part) > 0)
     ORDER BY setting_id",
    &[
        ("first", Kind::Int),
        ("last", Kind::Int),
        ("conf", Kind::Int),
        ("key", Kind::Text),
        ("value", Kind::Text),
        ("prefix", Kind::Text),
        ("part", Kind::Text),
    ],
);

/// What was found so far, and what is known of uploads.
#[derive(Default)]
pub(super) struct Results {
    pub(super) hits: Vec<Hit>,
    /// Which run an upload belongs to, and its name; none where it is not to be shown.
    known: HashMap<i64, Option<(RunId, String)>>,
}

impl Results {
    /// Reads ranges in turn; tells whether enough is found.
    pub(super) async fn read(&mut self, tx: &mut Tx<'_>, terms: &Terms<'_>, ranges: Vec<Range<i64>>) -> Result<bool> {
        let asked = terms.asked;
        let (value, prefix) = match &asked.value {
            Some(Match::Exact(value)) => (Some(value.as_str()), None),
            Some(Match::Prefix(prefix)) => (None, Some(prefix.as_str())),
            None => (None, None),
        };
        for ranges in ranges.chunks(RANGES) {
            let columns = [
                Column::ints(ranges, |range| Some(range.start)),
                Column::ints(ranges, |range| Some(range.end)),
                Column::ints(ranges, |_| terms.conf),
                Column::texts(ranges, |_| asked.key.as_deref()),
                Column::texts(ranges, |_| value),
                Column::texts(ranges, |_| prefix),
                Column::texts(ranges, |_| asked.word.as_deref()),
            ];
            let found = tx.lookup(&IN_RANGES, &columns, |mut row| read_found(&mut row)).await?;
            let found = found.into_iter().map(|(_, found)| found);
            let found = found.filter(|found| asked.word.as_ref().is_none_or(|word| words::holds(&found.value, word)));
            if self.add(tx, terms, found.collect()).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds what may be shown of what was found; tells whether it is enough.
    pub(super) async fn add(&mut self, tx: &mut Tx<'_>, terms: &Terms<'_>, found: Vec<Found>) -> Result<bool> {
        let limit = usize::try_from(terms.asked.limit).unwrap_or(usize::MAX);
        self.know(tx, terms, &found).await?;
        let mut shown = Vec::new();
        for found in found {
            let Some((run_id, upload)) = self.known.get(&UploadNo::of(found.id).0).cloned().flatten() else { continue };
            shown.push((run_id, upload, found));
        }
        shown.truncate(limit.saturating_sub(self.hits.len()));
        let stanzas = stanzas_by_id(tx, &shown.iter().map(|(_, _, found)| found.stanza).collect()).await?;
        let files = files_by_id(tx, &stanzas.values().map(|stanza| stanza.file_id).collect()).await?;
        for (run_id, upload, Found { stanza, key, value, line, .. }) in shown {
            // The settings of a long stanza may be there before it.
            let Some(stanza) = stanzas.get(&stanza) else { continue };
            let lost = || Error::row("stanzas", format!("the file of stanza {} is not there", stanza.id));
            let file = files.get(&stanza.file_id).cloned().ok_or_else(lost)?;
            self.hits.push(Hit { run_id, upload, file, stanza: stanza.name.clone(), key, value, line });
        }
        Ok(self.hits.len() >= limit)
    }

    /// Looks up the uploads that are not known yet.
    async fn know(&mut self, tx: &mut Tx<'_>, terms: &Terms<'_>, found: &[Found]) -> Result<()> {
        let numbers = found.iter().map(|found| UploadNo::of(found.id).0);
        let new: BTreeSet<i64> = numbers.filter(|number| !self.known.contains_key(number)).collect();
        let new: Vec<i64> = new.into_iter().collect();
        self.known.extend(new.iter().map(|number| (*number, None)));
        let columns = [Column::ints(&new, |number| Some(*number))];
        let made = |mut row: Cursor<'_>| Ok((RunId::from_uuid(row.id()?), row.opt_text()?, row.opt_text()?));
        for (nth, (run_id, name, state)) in tx.lookup(&RUNS, &columns, made).await? {
            if terms.asked.run.is_some() || state.as_deref() == Some("done") {
                self.known.insert(new[nth], Some((run_id, name.unwrap_or_default())));
            }
        }
        Ok(())
    }
}

static RUNS: Lookup = Lookup::new(
    "/* search::runs */
     SELECT s.run_id, s.subject, e.state
     FROM uploads u
     JOIN run_specs s ON s.run_id = u.run_id
     LEFT JOIN run_ends e ON e.workload = 'ingest' AND e.category = '' AND e.run_id = u.run_id
     WHERE u.upload_no = @upload_no",
    &[("upload_no", Kind::Int)],
);

static STANZAS_BY_ID: Lookup = Lookup::new(
    concat!(
        "/* search::stanzas_by_id */
     SELECT ",
        stanza_columns!(),
        "
     FROM stanzas s
     WHERE s.stanza_id = @stanza_id"
    ),
    &[("stanza_id", Kind::Int)],
);

async fn stanzas_by_id(tx: &mut Tx<'_>, ids: &BTreeSet<i64>) -> Result<HashMap<i64, BareStanza>> {
    let ids: Vec<i64> = ids.iter().copied().collect();
    let columns = [Column::ints(&ids, |id| Some(*id))];
    let found = tx.lookup(&STANZAS_BY_ID, &columns, |mut row| read_stanza(&mut row)).await?;
    Ok(found.into_iter().map(|(_, stanza)| (stanza.id, stanza)).collect())
}
