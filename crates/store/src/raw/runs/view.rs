//! The read-only handle. The control plane has nothing else, so it cannot write raw data even by mistake.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use object_store::path::Path;
use redrive_core::id::RunId;
use redrive_core::key::{LogicalDate, PartitionKey};

use super::layout;
use super::manifest::Manifest;
use super::read::{self, Reader, same};
use crate::blocking::blocking;
use crate::raw::digest::Sha256;
use crate::raw::error::{self, Damage, Error};
use crate::raw::files;
use crate::raw::marker::{self, SinkId};
use crate::raw::place::{Found, Place};
use crate::raw::s3::S3Options;
use crate::raw::url::RawUrl;

/// How many runs are looked at together on S3.
const AT_ONCE: usize = 8;

#[derive(Debug, Clone)]
pub struct RawView {
    place: Place,
}

impl RawView {
    /// Opens a sink to read only. A directory that does not exist yet is an empty sink.
    pub async fn open(url: &RawUrl, options: &S3Options) -> Result<Self, Error> {
        Place::open_to_read(url, options).await.map(Self::new)
    }

    pub(super) fn new(place: Place) -> Self {
        Self { place }
    }

    /// Fails when this is not the sink with that id: what a database knows of cannot be there.
    pub async fn check_marker(&self, known: SinkId) -> Result<(), Error> {
        marker::check(&self.place, known).await
    }

    /// What the run left, or none while (or because) it has not been finished.
    pub async fn manifest(&self, key: &PartitionKey, run_id: RunId) -> Result<Option<Manifest>, Error> {
        Ok(self.manifest_and_hash(key, run_id).await?.map(|(manifest, _)| manifest))
    }

    /// The same, with the hash of the object as it lies there.
    async fn manifest_and_hash(&self, key: &PartitionKey, run_id: RunId) -> Result<Option<(Manifest, Sha256)>, Error> {
        let path = manifest_path(&self.place, key, run_id);
        let Some(Found::Bytes(json)) = self.place.read(&path, None).await? else { return Ok(None) };
        parsed(&self.place.name(&path), &json, key, run_id).map(Some)
    }

    /// What the run left; a run without a manifest is [`Error::Damaged`]. For the run that a partition says is current.
    pub async fn finished(&self, key: &PartitionKey, run_id: RunId) -> Result<Manifest, Error> {
        Ok(self.finished_and_hash(key, run_id).await?.0)
    }

    /// The same, with the hash of the manifest as it lies there.
    pub async fn finished_and_hash(&self, key: &PartitionKey, run_id: RunId) -> Result<(Manifest, Sha256), Error> {
        let found = self.manifest_and_hash(key, run_id).await?;
        found.ok_or_else(|| no_manifest(&self.place, key, run_id))
    }

    /// The run's directory as it is given to other programs: an absolute path, or an `s3://` URL.
    pub fn directory(&self, key: &PartitionKey, run_id: RunId) -> String {
        self.place.location(&layout::run(&self.place.base, key, run_id))
    }

    /// The manifest's own file, where the sink is on a file system.
    pub fn manifest_file(&self, key: &PartitionKey, run_id: RunId) -> Option<String> {
        let path = layout::object(&layout::run(&self.place.base, key, run_id), layout::MANIFEST);
        self.place.directories().map(|_| self.place.location(&path))
    }

    /// Whether any run of the partition left anything. Looks no further than the first.
    pub async fn has_any(&self, key: &PartitionKey) -> Result<bool, Error> {
        let dir = layout::partition(&self.place.base, key);
        let mut objects = self.place.store.list(Some(&dir));
        while let Some(object) = objects.next().await {
            let object = object.map_err(|error| self.cannot_list(&dir, error))?;
            if layout::is_of_a_run(&dir, &object.location) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The days for which a query of a customer left anything, by one listing: for asking about many at once. The key's
    /// own day does not matter.
    pub async fn days(&self, key: &PartitionKey) -> Result<BTreeSet<LogicalDate>, Error> {
        let dir = layout::query(&self.place.base, key);
        match self.place.store.list_with_delimiter(Some(&dir)).await {
            Ok(listing) => Ok(listing.common_prefixes.iter().filter_map(layout::day_of).collect()),
            Err(error) if error::is_absent(&error) => Ok(BTreeSet::new()),
            Err(error) => Err(self.cannot_list(&dir, error)),
        }
    }

    /// Looks whether every part is there with the size that the manifest says, by one listing; none is read.
    pub async fn present(&self, manifest: &Manifest) -> Result<(), Error> {
        let dir = layout::run(&self.place.base, &manifest.key, manifest.run_id);
        let mut sizes = BTreeMap::new();
        let mut objects = self.place.store.list(Some(&dir));
        while let Some(object) = objects.next().await {
            let object = object.map_err(|error| self.cannot_list(&dir, error))?;
            sizes.insert(object.location, object.size);
        }
        for part in &manifest.parts {
            let path = layout::object(&dir, &part.name);
            let (object, expected) = (self.place.name(&path), part.compressed_bytes);
            match sizes.get(&path) {
                Some(&found) if found == expected => {}
                Some(&found) => return Err(Damage::Size { object, expected, found }.into()),
                None => return Err(Damage::Missing { object }.into()),
            }
        }
        Ok(())
    }

    /// Does the same for many runs, and gives the manifest of each with its hash. On a file system all of it is done on one
    /// thread; on S3 a few are asked for at once.
    pub async fn look_over(&self, runs: Vec<(PartitionKey, RunId)>) -> Vec<Result<(Manifest, Sha256), Error>> {
        if self.place.directories().is_some() {
            let place = self.place.clone();
            return blocking(move || runs.iter().map(|(key, run_id)| look_at(&place, key, *run_id)).collect()).await;
        }
        let looked = runs.into_iter().map(async |(key, run_id)| {
            let found = self.finished_and_hash(&key, run_id).await?;
            self.present(&found.0).await?;
            Ok(found)
        });
        stream::iter(looked).buffered(AT_ONCE).collect().await
    }

    /// Reads every part and compares it with the manifest; what differs is [`Error::Damaged`].
    pub async fn verify(&self, manifest: &Manifest) -> Result<(), Error> {
        let dir = self.place.name(&layout::run(&self.place.base, &manifest.key, manifest.run_id));
        same(&dir, "records", manifest.records, manifest.parts.iter().map(|part| part.records).sum())?;
        same(&dir, "bytes", manifest.bytes, manifest.parts.iter().map(|part| part.bytes).sum())?;
        let mut reader = Reader::new(self.place.clone(), manifest);
        while reader.next_chunk().await?.is_some() {}
        Ok(())
    }

    /// The lines as they were written, without their newlines. A damaged part ends the stream with an error before any
    /// of its lines.
    pub fn lines(&self, manifest: &Manifest) -> BoxStream<'static, Result<Bytes, Error>> {
        read::lines(Reader::new(self.place.clone(), manifest))
    }

    /// The same bytes in pieces of up to 256 KiB, newlines included: for passing on without looking.
    pub fn chunks(&self, manifest: &Manifest) -> BoxStream<'static, Result<Bytes, Error>> {
        read::chunks(Reader::new(self.place.clone(), manifest))
    }

    fn cannot_list(&self, dir: &Path, error: object_store::Error) -> Error {
        Error::storage("list", self.place.name(dir), error)
    }
}

fn manifest_path(place: &Place, key: &PartitionKey, run_id: RunId) -> Path {
    layout::object(&layout::run(&place.base, key, run_id), layout::MANIFEST)
}

fn no_manifest(place: &Place, key: &PartitionKey, run_id: RunId) -> Error {
    Damage::Missing { object: place.location(&manifest_path(place, key, run_id)) }.into()
}

/// The manifest of this run, and of no other, with its hash.
fn parsed(object: &str, json: &[u8], key: &PartitionKey, run_id: RunId) -> Result<(Manifest, Sha256), Error> {
    let manifest = Manifest::from_json(object, json)?;
    if manifest.key != *key || manifest.run_id != run_id {
        let why = format!("it is for {} run {}", manifest.key, manifest.run_id);
        return Err(Error::Manifest { object: object.to_owned(), why });
    }
    Ok((manifest, Sha256::of(json)))
}

/// Looks at a run on a file system: its manifest, and whether every part is there with its size.
fn look_at(place: &Place, key: &PartitionKey, run_id: RunId) -> Result<(Manifest, Sha256), Error> {
    let path = manifest_path(place, key, run_id);
    let Some(Found::Bytes(json)) = files::read(place, &path, None)? else {
        return Err(no_manifest(place, key, run_id));
    };
    let found = parsed(&place.name(&path), &json, key, run_id)?;
    let directory = layout::run(&place.base, key, run_id);
    for part in &found.0.parts {
        let path = layout::object(&directory, &part.name);
        let (object, expected) = (place.name(&path), part.compressed_bytes);
        match files::size(place, &path)? {
            Some(found) if found == expected => {}
            Some(found) => return Err(Damage::Size { object, expected, found }.into()),
            None => return Err(Damage::Missing { object }.into()),
        }
    }
    Ok(found)
}
