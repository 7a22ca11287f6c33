//! Orders files by what wins: the rules of precedence.

use std::cmp::Reverse;

use crate::layer::{Layer, Owner, Place};

/// For whom the effective configuration is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Context {
    /// What works for the whole installation, such as inputs and index-time settings.
    Global,
    /// What works in one app, for one user where a user is given.
    App { app: String, user: Option<String> },
}

/// The standing of a file in a context; the greater one wins. A merge has one context, so it uses only the variants of
/// that context.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    SystemDefault,
    /// In an app's context the system's own changes are below every app.
    SystemLocalBelowApps,
    /// A single file, which belongs to no app.
    Alone,
    /// In an app's context: the later name wins, and in one app the local file.
    OtherApp {
        app: String,
        local: bool,
    },
    /// In the global context: the earlier name wins.
    AppDefault(Reverse<String>),
    AppLocal(Reverse<String>),
    CurrentAppDefault,
    CurrentAppLocal,
    User,
    /// In the global context the system's own changes are above all.
    SystemLocal,
}

impl Standing {
    /// Tells the standing of a file; None when it takes no part.
    pub fn of(place: &Place<'_>, context: &Context) -> Option<Self> {
        match context {
            Context::Global => Self::global(place),
            Context::App { app, user } => Self::in_app(place, app, user.as_deref()),
        }
    }

    fn global(place: &Place<'_>) -> Option<Self> {
        match (place.owner, place.layer) {
            (Owner::System, Layer::Default) => Some(Self::SystemDefault),
            (Owner::System, Layer::Local) => Some(Self::SystemLocal),
            (Owner::App(app), Layer::Default) => Some(Self::AppDefault(Reverse(app.to_owned()))),
            (Owner::App(app), Layer::Local) => Some(Self::AppLocal(Reverse(app.to_owned()))),
            (Owner::Alone, Layer::Default | Layer::Local | Layer::User | Layer::Other) => Some(Self::Alone),
            (Owner::System | Owner::App(_), Layer::User | Layer::Other) => None,
            (Owner::User { .. } | Owner::Elsewhere, Layer::Default | Layer::Local | Layer::User | Layer::Other) => None,
        }
    }

    fn in_app(place: &Place<'_>, current: &str, current_user: Option<&str>) -> Option<Self> {
        match (place.owner, place.layer) {
            (Owner::System, Layer::Default) => Some(Self::SystemDefault),
            (Owner::System, Layer::Local) => Some(Self::SystemLocalBelowApps),
            (Owner::App(app), Layer::Default) if app == current => Some(Self::CurrentAppDefault),
            (Owner::App(app), Layer::Local) if app == current => Some(Self::CurrentAppLocal),
            (Owner::App(app), Layer::Default) => Some(Self::OtherApp { app: app.to_owned(), local: false }),
            (Owner::App(app), Layer::Local) => Some(Self::OtherApp { app: app.to_owned(), local: true }),
            (Owner::User { user, app }, _) if app == current && Some(user) == current_user => Some(Self::User),
            (Owner::Alone, Layer::Default | Layer::Local | Layer::User | Layer::Other) => Some(Self::Alone),
            (Owner::System | Owner::App(_), Layer::User | Layer::Other) => None,
            (Owner::User { .. } | Owner::Elsewhere, Layer::Default | Layer::Local | Layer::User | Layer::Other) => None,
        }
    }
}
