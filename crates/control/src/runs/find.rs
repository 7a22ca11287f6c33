//! Finding a run by its id, or by an unambiguous beginning of it.

use redrive_core::id::RunId;
use redrive_core::run::Run;

use crate::error::Result;
use crate::insight::Insight;
use crate::prefix::{Found, IdPrefix};

impl Insight {
    pub async fn find_run(&self, prefix: IdPrefix<RunId>) -> Result<Found<Box<Run>, RunId>> {
        let ids = match prefix.first == prefix.last {
            true => vec![prefix.first],
            false => self.view().run_ids_between(prefix.first, prefix.last, 2).await?,
        };
        match Found::of(&ids) {
            Found::Nothing => Ok(Found::Nothing),
            Found::One(id) => Ok(self.view().run(id).await?.map_or(Found::Nothing, |run| Found::One(Box::new(run)))),
            Found::Several(first, second) => Ok(Found::Several(first, second)),
        }
    }
}
