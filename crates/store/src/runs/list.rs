//! Reading runs: one, and a page of them.

use std::sync::Arc;

use redrive_core::id::RunId;
use redrive_core::run::{Run, State, Workload};

use super::row::{self, run_columns};
use crate::db::{Param, Tx};
use crate::error::Result;
use crate::handles::{View, read};

/// Which runs a listing means.
#[derive(Debug, Clone, Default)]
pub struct RunPage {
    pub workload: Option<Workload>,
    pub category: Option<String>,
    pub state: Option<State>,
    /// Newest first; the last one seen.
    pub before: Option<RunId>,
    pub limit: u32,
}

impl View {
    pub async fn run(&self, id: RunId) -> Result<Option<Run>> {
        read!(self, "run", |tx, id| row::get(tx, *id))
    }

    /// A page of runs, newest first.
    pub async fn runs(&self, asked: RunPage) -> Result<Vec<Run>> {
        read!(self, "runs", |tx, asked| page(tx, &asked))
    }
}

async fn page(tx: &mut Tx<'_>, page: &RunPage) -> Result<Vec<Run>> {
    let mut conditions = Vec::new();
    let mut params: Vec<Param<'_>> = Vec::new();
    let mut add = |text: &str, param| {
        params.push(param);
        conditions.push(format!("{text} ?{}", params.len()));
    };
    if let Some(workload) = page.workload {
        add("workload =", workload.as_str().into());
    }
    if let Some(category) = &page.category {
        add("category =", category.into());
    }
    if let Some(state) = page.state {
        add("state =", state.as_str().into());
    }
    if let Some(before) = page.before {
        add("run_id <", before.uuid().into());
    }
    let filter = if conditions.is_empty() { String::new() } else { format!("WHERE {}", conditions.join(" AND ")) };
    let sql = format!(
        concat!(
            "/* runs::page */
             SELECT ",
            run_columns!(),
            "
             FROM runs
             {}
             ORDER BY run_id DESC
             LIMIT {}"
        ),
        filter, page.limit
    );
    tx.built_rows(&sql, &params, row::read).await
}
