//! Reads from a file's path what the file is: of which layer, of which app, of which user.
//!
//! Only the end of a path counts, so a path may begin anywhere: at the `etc` folder, above it, at a folder of apps, or at
//! the root of one app.

/// The layer of a file: what its product shipped, what its administrator changed, what one user changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    Default,
    Local,
    User,
    /// A file that lies in none of the folders that configuration is read from.
    Other,
}

impl Layer {
    /// The word for the layer in JSON and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Local => "local",
            Self::User => "user",
            Self::Other => "other",
        }
    }
}

/// The two kinds of files: configuration, and metadata about its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    Conf,
    Meta,
}

impl FileKind {
    /// Tells the kind by the end of a file's name; None for any other file.
    pub fn of(path: &str) -> Option<Self> {
        if path.ends_with(".conf") {
            Some(Self::Conf)
        } else if path.ends_with(".meta") {
            Some(Self::Meta)
        } else {
            None
        }
    }
}

/// Takes the endings of compressed files off a path.
pub fn uncompressed(path: &str) -> &str {
    let endings = [".gz", ".bz2", ".xz", ".zst"];
    match endings.iter().find_map(|ending| path.strip_suffix(ending)) {
        Some(rest) => uncompressed(rest),
        None => path,
    }
}

/// What a file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner<'p> {
    System,
    /// An app; the name is empty when the path begins at the app's own root.
    App(&'p str),
    User {
        user: &'p str,
        app: &'p str,
    },
    /// A file without a folder, as when a single file is uploaded.
    Alone,
    /// A file in a folder that configuration is not read from.
    Elsewhere,
}

/// What a file's path says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place<'p> {
    pub kind: FileKind,
    /// The file's name without its ending: `props` for `props.conf`.
    pub name: &'p str,
    pub layer: Layer,
    pub owner: Owner<'p>,
}

impl<'p> Place<'p> {
    /// Reads a path with `/` between its parts; None when the file is neither `.conf` nor `.meta`. The ending of a file that
    /// was compressed by itself does not count: `props.conf.gz` is what `props.conf` would be.
    pub fn of(path: &'p str) -> Option<Self> {
        let path = uncompressed(path);
        let kind = FileKind::of(path)?;
        let mut upwards = path.rsplit('/').filter(|part| !part.is_empty() && *part != ".");
        let file = upwards.next()?;
        let name = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
        let folders: Vec<&str> = upwards.take(5).collect();
        let (layer, owner) = match kind {
            FileKind::Conf => of_conf(&folders),
            FileKind::Meta => of_meta(name, &folders),
        };
        Some(Self { kind, name, layer, owner })
    }
}

/// `folders` begins with the folder that holds the file and goes upwards.
fn of_conf<'p>(folders: &[&'p str]) -> (Layer, Owner<'p>) {
    match folders {
        [] => (Layer::Other, Owner::Alone),
        ["local", app, user, "users", ..] => (Layer::User, Owner::User { user, app }),
        ["default", above @ ..] => (Layer::Default, owner(above)),
        ["local", above @ ..] => (Layer::Local, owner(above)),
        [..] => (Layer::Other, Owner::Elsewhere),
    }
}

fn of_meta<'p>(name: &str, folders: &[&'p str]) -> (Layer, Owner<'p>) {
    match (name, folders) {
        (_, []) => (Layer::Other, Owner::Alone),
        ("local", ["metadata", app, user, "users", ..]) => (Layer::User, Owner::User { user, app }),
        ("default", ["metadata", above @ ..]) => (Layer::Default, owner(above)),
        ("local", ["metadata", above @ ..]) => (Layer::Local, owner(above)),
        (_, [..]) => (Layer::Other, Owner::Elsewhere),
    }
}

fn owner<'p>(above: &[&'p str]) -> Owner<'p> {
    match above {
        ["system"] | ["system", "etc", ..] => Owner::System,
        [app, ..] => Owner::App(app),
        [] => Owner::App(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_say_layer_and_owner() {
        let cases = [
            ("apps/a/default/props.conf", Layer::Default, Owner::App("a")),
            ("splunk/etc/apps/a/local/props.conf", Layer::Local, Owner::App("a")),
            ("./TA-x/local/props.conf", Layer::Local, Owner::App("TA-x")),
            ("default/props.conf", Layer::Default, Owner::App("")),
            ("system/local/limits.conf", Layer::Local, Owner::System),
            ("opt/etc/system/default/limits.conf", Layer::Default, Owner::System),
            ("apps/system/default/limits.conf", Layer::Default, Owner::App("system")),
            ("users/joe/search/local/macros.conf", Layer::User, Owner::User { user: "joe", app: "search" }),
            ("etc/users/joe/search/local/macros.conf", Layer::User, Owner::User { user: "joe", app: "search" }),
            ("a/metadata/default.meta", Layer::Default, Owner::App("a")),
            ("a/metadata/local.meta", Layer::Local, Owner::App("a")),
            ("users/joe/a/metadata/local.meta", Layer::User, Owner::User { user: "joe", app: "a" }),
            ("props.conf", Layer::Other, Owner::Alone),
            ("a/default/savedsearches.d/x.conf", Layer::Other, Owner::Elsewhere),
            ("a/metadata/other.meta", Layer::Other, Owner::Elsewhere),
        ];
        for (path, layer, owner) in cases {
            let place = Place::of(path).unwrap();
            assert_eq!((place.layer, place.owner), (layer, owner), "{path}");
        }
        assert_eq!(Place::of("a/default/props.conf").unwrap().name, "props");
        assert_eq!(Place::of("a/README/props.conf.spec"), None);
    }
}
