//! What is known of the terminal: how wide it is. Times are told as people say them.

use std::io::IsTerminal as _;

use redrive_core::time::Timestamp;
use terminal_size::{Width, terminal_size};

use crate::config::Environment;

/// How wide lines may be: as `COLUMNS` says, otherwise as the terminal is; any width where there is none.
pub fn width(environment: &Environment) -> Option<usize> {
    let said = environment.get("COLUMNS").and_then(|text| text.parse().ok()).filter(|width| *width > 0);
    said.or_else(|| terminal_size().map(|(Width(width), _)| usize::from(width)))
}

/// How wide the lines of a listing may be. What goes into a file or a pipe is never cut, unless `COLUMNS` asks for it.
pub fn listing_width(environment: &Environment) -> Option<usize> {
    width(environment).filter(|_| environment.get("COLUMNS").is_some() || std::io::stdout().is_terminal())
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
}
