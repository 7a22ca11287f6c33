//! Uploads, and what is in them. Values of configurations may be secret, so that they are for those who act.

use std::ops::ControlFlow;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use redrive_conf::{Context as Sight, Inherit};
use redrive_control::Insight;
use redrive_control::shape::{
    DifferenceShape, EffectiveShape, FindingShape, HitShape, StanzaShape, UploadRunShape, UploadShape,
};
use redrive_control::uploads::{EffectiveOptions, FilePages, conf_name};
use redrive_core::id::RunId;
use redrive_core::run::{Run, Workload};
use redrive_data::ingest::{Objection, archive};
use redrive_store::raw::Blobs;
use redrive_store::{FileRow, Match, RunPage, Search, StanzaPage, StanzaPlace, words_of};
use schemars::JsonSchema;
use serde::Serialize;

use super::worker;
use crate::app::App;
use crate::error::{Error, Result};
use crate::routes::{Access, Route};
use crate::web::{Code, List, PAGING, Page, Param, ParamKind, Params, PathText, answer, json};

const STANZAS: &[Param] = &[
    Param::new("file", ParamKind::Text, "Only files with this path, or whose path ends so"),
    Param::new("name", ParamKind::Text, "Only stanzas of this name"),
];
const SIGHT: &[Param] = &[
    Param::new("app", ParamKind::Text, "What takes effect in this app"),
    Param::new("user", ParamKind::Text, "What takes effect for this user of the app"),
    Param::new("conf", ParamKind::Text, "Only this configuration file"),
    Param::new("no_inherit", ParamKind::Flag, "Without what stanzas inherit from [default]"),
];
const SEARCH: &[Param] = &[
    Param::new("conf", ParamKind::Text, "Only this configuration file"),
    Param::new("stanza", ParamKind::Text, "Only stanzas of this name"),
    Param::new("key", ParamKind::Text, "Only this key"),
    Param::new("value", ParamKind::Text, "Only this value"),
    Param::new("value_prefix", ParamKind::Text, "Only values that begin so"),
    Param::new("word", ParamKind::Text, "Only values that hold this word or phrase"),
    Param::new("run", ParamKind::Id, "Only this upload"),
    Param::new("limit", ParamKind::Number { least: 1, most: MOST_HITS }, "How many at most; 100 unless said"),
];
const MOST_HITS: u32 = 1000;
const HITS: u32 = 100;
/// The most differences that are told.
const MOST_CHANGES: usize = 10_000;

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/uploads", Access::Viewer, "Uploads, the newest first", list).query(&[PAGING]).list::<Uploads>(),
        Route::get("/v1/uploads/{id}/stanzas", Access::Operator, "What an upload holds", stanzas)
            .query(&[STANZAS, PAGING])
            .list::<Stanzas>(),
        Route::get(
            "/v1/uploads/{id}/effective",
            Access::Operator,
            "What takes effect, and where it came from",
            effective,
        )
        .query(&[SIGHT])
        .json::<Effective>()
        .refuses(&[Code::Unusable]),
        Route::get("/v1/uploads/{id}/lint", Access::Operator, "What a strict reader objects to in an upload", lint)
            .json::<Findings>()
            .refuses(&[Code::SinkUnavailable, Code::Unusable]),
        Route::get("/v1/uploads/{id}/diff/{other}", Access::Operator, "How two uploads differ", diff)
            .json::<Differences>(),
        Route::get("/v1/search", Access::Operator, "Settings of all uploads, found by index", search)
            .query(&[SEARCH])
            .json::<Settings>()
            .refuses(&[Code::EmptyFilter, Code::Unusable, Code::NotFound]),
    ]
}

struct Uploads(Insight);

impl List for Uploads {
    type Row = UploadRunShape;
    type Key = RunId;
    const NOUN: &'static str = "runs";

    fn mark(&self) -> String {
        "uploads".to_owned()
    }

    async fn page(&self, before: Option<RunId>, limit: u32) -> Result<Page<UploadRunShape, RunId>> {
        let page = RunPage { workload: Some(Workload::Ingest), before, limit, ..RunPage::default() };
        let found = self.0.view().runs(page).await?;
        Ok(Page::of(found, limit, |run| run.run_id, |run| UploadRunShape::from(&run)))
    }
}

async fn list(State(app): State<App>, params: Params, headers: HeaderMap) -> Result<Response> {
    answer(Uploads(app.insight()), &params, &headers).await
}

/// The upload that a path names.
async fn find(app: &App, id: RunId) -> Result<Run> {
    let run = worker::find(app, id).await?;
    match run.workload() {
        Workload::Ingest => Ok(run),
        Workload::Extract | Workload::Process => {
            Err(Error::not_found(format!("{id} is a run of {}, not an upload", run.workload())))
        }
    }
}

struct Stanzas {
    insight: Insight,
    run_id: RunId,
    file: Option<String>,
    name: Option<String>,
}

/// How far a page came: in which of the files that are meant, and to which stanza.
type Place = (usize, Option<StanzaPlace>);

impl Stanzas {
    /// The files that are meant; a single none for all of them at once.
    async fn files(&self) -> Result<Vec<Option<FileRow>>> {
        let Some(asked) = &self.file else { return Ok(vec![None]) };
        let (mut pages, mut found) = (FilePages::new(self.insight.view(), self.run_id), Vec::new());
        loop {
            let page = pages.next().await?;
            if page.is_empty() {
                return Ok(found);
            }
            found.extend(page.into_iter().filter(|file| is_meant(&file.path, asked)).map(Some));
        }
    }

    async fn some(
        &self,
        file: Option<FileRow>,
        after: Option<StanzaPlace>,
        limit: u32,
    ) -> Result<Vec<redrive_store::StanzaRow>> {
        let page = StanzaPage { run_id: self.run_id, file, name: self.name.clone(), after, limit };
        Ok(self.insight.view().stanzas(page).await?)
    }
}

/// Whether a path is the one that was asked for, or ends with it.
fn is_meant(path: &str, asked: &str) -> bool {
    path.strip_suffix(asked).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

impl List for Stanzas {
    type Row = StanzaShape;
    type Key = Place;
    const NOUN: &'static str = "stanzas";

    fn mark(&self) -> String {
        format!("{} {:?} {:?}", self.run_id, self.file, self.name)
    }

    async fn page(&self, after: Option<Place>, limit: u32) -> Result<Page<StanzaShape, Place>> {
        let (files, wanted) = (self.files().await?, usize::try_from(limit).unwrap_or(usize::MAX));
        let (mut nth, mut place) = after.unwrap_or_default();
        let mut rows: Vec<StanzaShape> = Vec::new();
        // A stanza with very many settings comes in parts, and is told as one.
        let mut is_open = false;
        while let Some(file) = files.get(nth) {
            let left = u32::try_from(wanted.saturating_sub(rows.len()).max(1)).unwrap_or(limit);
            let found = self.some(file.clone(), place, left).await?;
            if found.is_empty() {
                (nth, place) = (nth + 1, None);
                continue;
            }
            for stanza in found {
                (place, is_open) = (Some(stanza.place), stanza.continues());
                let is_continued = stanza.is_continued;
                let shape = StanzaShape::from(stanza);
                match rows.last_mut().filter(|_| is_continued) {
                    Some(last) => last.entries.extend(shape.entries),
                    None => rows.push(shape),
                }
            }
            if rows.len() >= wanted && !is_open {
                return Ok(Page { rows, next: Some((nth, place)) });
            }
        }
        Ok(Page { rows, next: None })
    }
}

async fn stanzas(
    State(app): State<App>,
    PathText(id): PathText<RunId>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response> {
    let run_id = find(&app, id).await?.run_id;
    let text = |name| params.get(name).map(str::to_owned);
    let list = Stanzas { insight: app.insight(), run_id, file: text("file"), name: text("name") };
    answer(list, &params, &headers).await
}

#[derive(Debug, Serialize, JsonSchema)]
struct Effective {
    stanzas: Vec<EffectiveShape>,
}

async fn effective(State(app): State<App>, PathText(id): PathText<RunId>, params: Params) -> Result<Response> {
    let run_id = find(&app, id).await?.run_id;
    let text = |name| params.get(name).map(str::to_owned);
    let context = match (text("app"), text("user")) {
        (Some(app), user) => Sight::App { app, user },
        (None, None) => Sight::Global,
        (None, Some(_)) => return Err(Error::unusable("user: give the app that the user is of, too")),
    };
    let options = EffectiveOptions { context, conf: params.get("conf").map(conf_name) };
    let inherit = if params.flag("no_inherit")? { Inherit::Nothing } else { Inherit::Default };
    let effective = app.insight().effective(run_id, &options).await?;
    let mut stanzas = Vec::new();
    for conf in effective.confs() {
        stanzas.extend(effective.stanzas(conf, inherit).map(|stanza| EffectiveShape::new(conf, &stanza)));
    }
    json(&Effective { stanzas })
}

#[derive(Debug, Serialize, JsonSchema)]
struct Findings {
    findings: Vec<FindingShape>,
    /// Whether there are more than are told.
    is_cut: bool,
}

async fn lint(State(app): State<App>, PathText(id): PathText<RunId>) -> Result<Response> {
    let run = find(&app, id).await?;
    let rules = app.rules();
    let absent = || Error::not_found(format!("the bytes of run {id} have not arrived"));
    let upload = rules.plane.insight().view().upload(run.run_id).await?.ok_or_else(absent)?;
    let blobs = Blobs::open_to_read(&rules.raw, &rules.raw_options.s3).await?;
    let object = &upload.stored.object;
    let mut bytes = blobs.open_object(object).await?.ok_or_else(|| blobs.missing(object))?;
    let (id, name) = (run.run_id.to_string(), UploadShape::new(&run, None).file);
    let limits = rules.limits.clone();
    let looked = tokio::task::spawn_blocking(move || {
        let (mut findings, mut is_cut) = (Vec::new(), false);
        let mut tell = |objection: Objection<'_>| {
            is_cut = findings.len() == MOST_CHANGES;
            if is_cut {
                return ControlFlow::Break(());
            }
            findings.push(match objection {
                Objection::Finding { path, finding } => FindingShape::new(&id, path, finding),
                Objection::Link { path, target, why } => FindingShape::of_link(&id, path, target, why),
            });
            ControlFlow::Continue(())
        };
        let ended = redrive_data::ingest::lint(&name, &mut bytes, &limits, &mut tell);
        ended.map(|()| Findings { findings, is_cut })
    });
    match looked.await? {
        Ok(findings) => json(&findings),
        Err(archive::Error::Storage(error)) => Err(Error::of_code(Code::SinkUnavailable, error.to_string())),
        Err(error) => Err(Error::unusable(format!("the upload cannot be read: {error}"))),
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct Differences {
    changes: Vec<DifferenceShape>,
    /// Whether there are more than are told.
    is_cut: bool,
}

/// Why a comparison ended early.
enum Stop {
    Enough,
    Failed(redrive_control::Error),
}

impl From<redrive_control::Error> for Stop {
    fn from(error: redrive_control::Error) -> Self {
        Self::Failed(error)
    }
}

async fn diff(State(app): State<App>, PathText((old, new)): PathText<(RunId, RunId)>) -> Result<Response> {
    let (old, new) = (find(&app, old).await?.run_id, find(&app, new).await?.run_id);
    let (insight, mut changes) = (app.insight(), Vec::new());
    let compared = insight.compare(old, new, |change| {
        if changes.len() == MOST_CHANGES {
            return Err(Stop::Enough);
        }
        changes.push(change);
        Ok(())
    });
    let is_cut = match compared.await {
        Ok(()) => false,
        Err(Stop::Enough) => true,
        Err(Stop::Failed(error)) => return Err(error.into()),
    };
    json(&Differences { changes, is_cut })
}

#[derive(Debug, Serialize, JsonSchema)]
struct Settings {
    settings: Vec<HitShape>,
}

async fn search(State(app): State<App>, params: Params) -> Result<Response> {
    let text = |name| params.get(name).map(str::to_owned);
    let exact = text("value").map(Match::Exact);
    let run = match params.parsed("run")? {
        Some(id) => Some(find(&app, id).await?.run_id),
        None => None,
    };
    let search = Search {
        conf: params.get("conf").map(conf_name),
        stanza: text("stanza"),
        key: text("key"),
        value: exact.or_else(|| text("value_prefix").map(Match::Prefix)),
        word: text("word"),
        run,
        limit: params.number("limit", 1, MOST_HITS)?.unwrap_or(HITS),
    };
    let Search { conf, stanza, key, value, word, .. } = &search;
    if conf.is_none() && stanza.is_none() && key.is_none() && value.is_none() && word.is_none() {
        let detail = "there is nothing to look for; give one of conf, stanza, key, value, value_prefix and word";
        return Err(Error::of_code(Code::EmptyFilter, detail));
    }
    if word.as_deref().is_some_and(|word| words_of(word).next().is_none()) {
        return Err(Error::unusable("word: it has neither letters nor digits"));
    }
    let hits = app.insight().view().search(search).await?;
    json(&Settings { settings: hits.into_iter().map(HitShape::from).collect() })
}
