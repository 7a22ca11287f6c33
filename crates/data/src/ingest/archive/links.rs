//! The links of an archive: collected while it is read, and resolved once all members are known.
//!
//! A link that leads to a member of the upload gets that member's content, by a second pass over the upload. The content is
//! not kept from the first pass, because any member may be the one that a later link leads to.

use std::collections::HashMap;

use super::error::{Reason, Refusal};
use super::limits::MAX_LINKS;
use super::seen::{Mark, Seen};
use redrive_conf::FileKind;

/// How many links may lead to one another.
const MAX_STEPS: usize = 40;

#[derive(Default)]
pub(super) struct Links {
    all: Vec<Link>,
    bytes: usize,
}

/// A link and where it leads to, as paths of the upload.
pub(super) struct Link {
    pub path: String,
    pub target: String,
}

/// A link that gives no configuration, and why.
pub(super) struct Broken {
    pub link: Link,
    pub why: &'static str,
}

/// What the links come to: the members that a second pass must read, each with the links that lead to it; and links that
/// lead to none.
#[derive(Default)]
pub(super) struct Resolved {
    pub wanted: HashMap<Mark, Vec<String>>,
    pub broken: Vec<Broken>,
}

enum End {
    Member(String),
    Folder,
    Nowhere,
    Circle,
}

impl Links {
    pub fn add(&mut self, path: String, target: String) -> Result<(), Refusal> {
        self.bytes += path.len() + target.len();
        if self.bytes > MAX_LINKS {
            let message = format!("the paths of the upload's links have more than {MAX_LINKS} bytes together");
            return Err(Refusal::new(Reason::LimitExceeded, message).at(&path));
        }
        self.all.push(Link { path, target });
        Ok(())
    }

    pub fn resolve(self, seen: &Seen) -> Resolved {
        let targets: HashMap<&str, &str> = self.all.iter().map(|link| (&*link.path, &*link.target)).collect();
        let ends: Vec<End> = self.all.iter().map(|link| follow(link, &targets, seen)).collect();
        let mut resolved = Resolved::default();
        for (link, end) in self.all.into_iter().zip(ends) {
            let is_conf = FileKind::of(&link.path).is_some();
            let why = match end {
                End::Member(target) if is_conf => {
                    resolved.wanted.entry(seen.mark(target.as_bytes())).or_default().push(link.path);
                    continue;
                }
                End::Folder => "leads to a folder of configuration files, which are taken under their own paths only",
                End::Nowhere if is_conf => "leads to nothing in the upload",
                End::Circle if is_conf => "leads to other links and to no file",
                End::Member(_) | End::Nowhere | End::Circle => continue,
            };
            resolved.broken.push(Broken { link, why });
        }
        resolved
    }
}

fn follow(link: &Link, targets: &HashMap<&str, &str>, seen: &Seen) -> End {
    let mut at = link.target.as_str();
    for _ in 0..MAX_STEPS {
        if seen.has_member(at) {
            return End::Member(at.to_owned());
        }
        if seen.has_folder(at) {
            return End::Folder;
        }
        match targets.get(at) {
            Some(next) => at = next,
            None => return End::Nowhere,
        }
    }
    End::Circle
}
