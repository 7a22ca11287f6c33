//! What is known of the terminal: how wide it is, and whether it shows colours. On it times are told as people say them.

use std::io::IsTerminal as _;

use redrive_core::time::Timestamp;
use redrive_store::clock::{Clock as _, SystemClock};
use terminal_size::{Width, terminal_size};

use crate::cli::ColorWhen;
use crate::config::Environment;

/// What a table is printed on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Screen {
    /// How wide a line may be; any width in a file or a pipe, unless `COLUMNS` says otherwise.
    pub width: Option<usize>,
    pub times: Times,
    pub has_colours: bool,
}

impl Screen {
    /// Looks at stdout.
    pub fn of_stdout(environment: &Environment) -> Self {
        let said = environment.get("COLUMNS").and_then(|text| text.parse().ok()).filter(|width| *width > 0);
        let is_terminal = std::io::stdout().is_terminal();
        let seen = || terminal_size().filter(|_| is_terminal).map(|(Width(width), _)| usize::from(width));
        let width = said.or_else(seen);
        let times = if width.is_some() { Times::seen_from(SystemClock.now()) } else { Times::Full };
        let has_colours = anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
        Self { width, times, has_colours }
    }
}

/// Has every stream of this process obey `--color`; without it `NO_COLOR` and the terminal decide.
pub fn choose_colours(when: ColorWhen) {
    let choice = match when {
        ColorWhen::Auto => anstream::ColorChoice::Auto,
        ColorWhen::Always => anstream::ColorChoice::Always,
        ColorWhen::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// How a table tells times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Times {
    /// To the microsecond, for a file or a pipe.
    #[default]
    Full,
    /// As seen from a moment: "3 min ago".
    Relative(Timestamp),
}

impl Times {
    pub fn seen_from(now: Timestamp) -> Self {
        Self::Relative(now)
    }

    /// The same, by another clock: the database's, where there is one.
    pub fn as_of(self, now: Timestamp) -> Self {
        match self {
            Self::Full => Self::Full,
            Self::Relative(_) => Self::Relative(now),
        }
    }

    pub fn tell(self, moment: Timestamp) -> String {
        match self {
            Self::Full => moment.to_string(),
            Self::Relative(now) => relative(moment, now),
        }
    }

    /// What happens at a moment: "retry at 2026-…", "retry in 4 min".
    pub fn at(self, what: &str, moment: Timestamp) -> String {
        match self {
            Self::Full => format!("{what} at {moment}"),
            Self::Relative(now) => format!("{what} {}", relative(moment, now)),
        }
    }

    /// What lasts until a moment: "held until 2026-…", "held, ends in 4 min".
    pub fn until(self, what: &str, moment: Timestamp) -> String {
        match self {
            Self::Full => format!("{what} until {moment}"),
            Self::Relative(now) => format!("{what}, ends {}", relative(moment, now)),
        }
    }
}

/// A moment as seen from another: "3 min ago", "in 4 h".
pub fn relative(moment: Timestamp, now: Timestamp) -> String {
    match moment > now {
        true => format!("in {}", span(moment.since(now).as_secs())),
        false => match now.since(moment).as_secs() {
            0 => "now".to_owned(),
            seconds => format!("{} ago", span(seconds)),
        },
    }
}

/// A span in its largest unit.
fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn moments_are_told_from_now() {
        let now = Timestamp::from_micros(1_767_225_600_000_000);
        let ago = |seconds| relative(now.saturating_sub(Duration::from_secs(seconds)), now);
        assert_eq!((ago(0).as_str(), ago(59).as_str()), ("now", "59 s ago"));
        assert_eq!((ago(3599).as_str(), ago(7200).as_str()), ("59 min ago", "2 h ago"));
        assert_eq!(ago(172_800), "2 days ago");
        assert_eq!(relative(now.saturating_add(Duration::from_secs(240)), now), "in 4 min");
    }

    #[test]
    fn a_file_has_times_in_full() {
        let now = Timestamp::from_micros(1_767_225_600_000_000);
        let soon = now.saturating_add(Duration::from_secs(240));
        let (full, seen) = (Times::Full, Times::seen_from(now));
        assert_eq!((full.tell(soon), seen.tell(soon)), (soon.to_string(), "in 4 min".to_owned()));
        assert_eq!(
            (full.at("retry", soon), seen.at("retry", soon)),
            (format!("retry at {soon}"), "retry in 4 min".to_owned())
        );
        assert_eq!(seen.until("held", soon), "held, ends in 4 min");
        assert_eq!((full.as_of(soon), seen.as_of(soon).tell(soon)), (Times::Full, "now".to_owned()));
    }
}
