//! Colours: what is well, what is under way, what waits, and what is bad. `NO_COLOR` and `--color` say whether there are any.

use anstyle::{AnsiColor, Color, Style};

pub const GOOD: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Green)));
pub const BUSY: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Cyan)));
pub const WAITING: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Yellow)));
pub const BAD: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Red)));

/// The colour of a state, by the word that listings have for it. A word that is none has no colour.
pub fn of(word: &str) -> Style {
    match word {
        "success" | "passed" | "done" | "COMPLETE" | "valid" | "ok" | "changed" | "would change" | "yes" => GOOD,
        "pending" | "queued" | "running" | "storing" | "extracting" | "processing" | "discovered" | "PENDING"
        | "STORED" | "PARSING" => BUSY,
        "waiting" | "needs_review" | "paused" | "held" | "cooldown" | "operator" | "breaker" | "skipped" | "warn"
        | "expired" | "abandoned" => WAITING,
        "failed" | "FAILED" | "error" | "dead" | "refused" | "revoked" | "fail" | "no" => BAD,
        _ => Style::new(),
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::hold::HoldKind;
    use redrive_core::partition::Status;
    use redrive_core::run::{State, Verdict};
    use redrive_core::sign_in::TokenState;

    use super::*;

    #[test]
    fn every_state_has_a_colour() {
        let statuses = Status::ALL.iter().map(|status| status.as_str());
        let states = State::ALL.iter().map(|state| state.as_str());
        let verdicts = Verdict::ALL.iter().map(|verdict| verdict.as_str());
        let holds = HoldKind::ALL.iter().map(|kind| kind.as_str());
        let tokens = TokenState::ALL.iter().map(|state| state.as_str());
        for word in statuses.chain(states).chain(verdicts).chain(holds).chain(tokens) {
            assert_ne!(of(word), Style::new(), "{word}");
        }
    }
}
