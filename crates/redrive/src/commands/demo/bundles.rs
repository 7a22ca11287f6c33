//! The demo's two uploads: a bundle that is good, and one that was cut off on its way.

use bytes::Bytes;
use futures_util::stream;
use redrive_core::count;
use redrive_core::id::RunId;
use redrive_core::run::{Run, State};
use redrive_store::View;

use crate::commands::ingest::upload::uploads;
use crate::config::Config;
use crate::error::{Error, Result};

/// What a good bundle holds.
const FILES: [(&str, &str); 3] = [
    ("shop/default/app.conf", "[launcher]\nversion = 1.2.0\n\n[ui]\nlabel = Shop\n"),
    (
        "shop/default/macros.conf",
        "[failed_orders(1)]\nargs = shop\ndefinition = index=orders shop=$shop$ status=failed\n",
    ),
    (
        "shop/local/savedsearches.conf",
        "[Failed orders today]\nsearch = `failed_orders(*)` \\\n| stats count by shop\ncron_schedule = 0 6 * * *\n",
    ),
];

/// The runs of the two uploads.
#[derive(Debug)]
pub struct Bundles {
    runs: Vec<RunId>,
}

impl Bundles {
    pub async fn upload(config: &Config, store: &redrive_store::Store) -> Result<Self> {
        let uploads = uploads(config, store).await?;
        let good = pack().map_err(Error::io("cannot pack the demo's bundle"))?;
        let cut_off = good[..good.len() / 2 + 300].to_vec();
        let mut runs = Vec::new();
        for (name, bytes) in [("shop.tar", good), ("cut-off.tar", cut_off)] {
            let body = stream::iter([Ok(Bytes::from(bytes))]);
            runs.push(uploads.upload(name, None, body).await?.run.run_id);
        }
        Ok(Self { runs })
    }

    /// The runs as they are now.
    pub async fn runs(&self, view: &View) -> Result<Vec<Run>> {
        let mut found = Vec::new();
        for run_id in &self.runs {
            found.extend(view.run(*run_id).await?);
        }
        Ok(found)
    }

    /// Whether nothing more will happen to them.
    pub async fn is_settled(&self, view: &View) -> Result<bool> {
        let is_over = |run: &Run| matches!(run.state, State::Done | State::Dead);
        Ok(self.runs(view).await?.iter().all(is_over))
    }
}

fn pack() -> std::io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, text) in FILES {
        let mut header = tar::Header::new_gnu();
        header.set_size(count::of(text.len()));
        header.set_mode(0o644);
        tar.append_data(&mut header, path, text.as_bytes())?;
    }
    tar.into_inner()
}
