//! Links: remembered in the first pass, and handed over with what they lead to in the second.

use std::io::Read;

use super::{Place, Walk};
use crate::ingest::archive::error::{Error, Reason, Refusal};
use crate::ingest::archive::path::is_of_macos;
use crate::ingest::archive::seen::Sighting;

impl Walk<'_, '_> {
    /// Remembers a link; its target is a path of the archive that holds it.
    pub fn link(&mut self, place: &Place<'_>, path: &str, target: &str) -> Result<(), Error> {
        if self.wanted.is_some() || is_of_macos(path) {
            return Ok(());
        }
        let target = match (place.prefix, target) {
            (prefix, "") => prefix.to_owned(),
            (_, target) => self.path(place, target)?,
        };
        Ok(self.links.add(path.to_owned(), target)?)
    }

    /// Finds out where the links lead; tells whether a second pass must read what they lead to.
    pub(super) fn resolve_links(&mut self) -> Result<bool, Error> {
        let resolved = std::mem::take(&mut self.links).resolve(&self.seen);
        for broken in resolved.broken {
            let path = &broken.link.path;
            if self.seen.has_member(path) {
                let message = "the archive holds this path as a file, and as a link to something else";
                return Err(Refusal::new(Reason::MalformedArchive, message).at(path).into());
            }
            self.broken_links += 1;
            if self.visitor.broken_link(path, &broken.link.target, broken.why).is_break() {
                return Err(Error::Stopped);
            }
        }
        self.wanted = Some(resolved.wanted);
        Ok(self.wanted.as_ref().is_some_and(|wanted| !wanted.is_empty()))
    }

    /// Hands over what links lead to, once for each. It counts as unpacked each time.
    pub(super) fn linked(&mut self, links: &[String], body: &mut dyn Read) -> Result<(), Error> {
        let bytes = self.take_whole(body, self.largest_file())?;
        let content = self.seen.mark(&bytes);
        for path in links {
            self.guard.check_cancelled()?;
            self.guard.count_unpacked(bytes.len())?;
            match self.sight(path, content)? {
                Sighting::First => {
                    self.linked += 1;
                    self.hand_over(path, &bytes)?;
                }
                Sighting::Again | Sighting::Different => self.repeated += 1,
            }
        }
        Ok(())
    }
}
