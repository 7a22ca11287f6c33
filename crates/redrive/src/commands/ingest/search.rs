//! `ingest search`: settings of all uploads that are COMPLETE, found by index.

use redrive_control::shape::HitShape;
use redrive_control::uploads::conf_name;
use redrive_store::{Match, Search, words_of};

use super::find;
use crate::cli;
use crate::commands::Context;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;
use crate::output::columns::{Cell, Column};
use crate::output::listing::{Layout, Listing, Row};
use crate::output::terminal::Times;

static SETTINGS: Layout = Layout {
    name: "settings",
    header: &[
        Column::new("run").spared(1),
        Column::text("upload"),
        Column::text("file"),
        Column::text("stanza"),
        Column::text("key"),
        Column::detail("value"),
    ],
    columns: &["run_id", "upload", "source_path", "layer", "stanza", "key", "value", "line"],
    nothing: Some("no setting found"),
};

impl Row for HitShape {
    fn lines(&self, _: Times) -> Vec<Vec<Cell>> {
        vec![vec![
            Cell::new(self.run_id.to_string()),
            Cell::new(&self.upload),
            Cell::new(format!("{}:{}", self.source_path, self.line)),
            Cell::some(self.stanza.as_ref().map(|name| format!("[{name}]"))),
            Cell::new(&self.key),
            Cell::new(&self.value),
        ]]
    }
}

pub async fn run(args: &cli::Search, context: &Context) -> Result<Exit> {
    let exact = args.value.clone().map(Match::Exact);
    let search = Search {
        conf: args.conf.as_deref().map(conf_name),
        stanza: args.stanza.clone(),
        key: args.key.clone(),
        value: exact.or_else(|| args.value_prefix.clone().map(Match::Prefix)),
        word: args.word.clone(),
        run: None,
        limit: args.limit,
    };
    let Search { conf, stanza, key, value, word, .. } = &search;
    if conf.is_none() && stanza.is_none() && key.is_none() && value.is_none() && word.is_none() {
        let todo = "give at least one of --conf, --stanza, --key, --value, --value-prefix and --word";
        return Err(Error::Usage(format!("there is nothing to look for; {todo}")));
    }
    if word.as_deref().is_some_and(|word| words_of(word).next().is_none()) {
        return Err(Error::Usage("--word has neither letters nor digits; give it at least one".to_owned()));
    }
    let config = context.config()?;
    let insight = context.insight(&config).await?;
    let run = match &args.run {
        Some(id) => Some(find::upload(id, &insight).await?.run_id),
        None => None,
    };
    let hits = insight.view().search(Search { run, ..search }).await?;
    let found = hits.len();
    let mut listing = Listing::new(&SETTINGS, &context.global);
    hits.into_iter().try_for_each(|hit| listing.add(&HitShape::from(hit)))?;
    listing.end()?;
    if u32::try_from(found) == Ok(args.limit) && !context.global.quiet {
        output::note(&format!("{found} are shown, and there may be more; --limit gives more"));
    }
    Ok(if found == 0 { Exit::NothingFound } else { Exit::Done })
}
