//! Whose clock counts, and whether this host's agrees with it.

use redrive_store::View;
use redrive_store::clock::{Clock as _, SystemClock};

use super::findings::{Finding, Findings};

const CHECK: &str = "clock";
/// How far a host's clock may be from the database's before a person should hear of it, in microseconds.
const TOLERANCE: i64 = 5_000_000;

pub async fn check(view: &View, findings: &mut Findings) {
    let jump = match view.last_jump().await {
        Ok(jump) => jump,
        Err(error) => return findings.add(Finding::unusable(CHECK, error.to_string())),
    };
    let apart = SystemClock.now().micros().saturating_sub(view.now().micros());
    if apart.saturating_abs() > TOLERANCE {
        let (seconds, way) = (apart.saturating_abs() / 1_000_000, if apart > 0 { "ahead of" } else { "behind" });
        let says =
            format!("this host's clock is {seconds} s {way} the database's, which counts; set this host's right");
        return findings.add(Finding::note(CHECK, says));
    }
    findings.add(match jump {
        Some(jump) => {
            let (seconds, way) = (jump.by.saturating_abs() / 1_000_000, if jump.by > 0 { "forward" } else { "back" });
            Finding::note(CHECK, format!("it was last set {seconds} s {way} at {}", jump.at))
        }
        None => Finding::good(CHECK, "this host's clock agrees with the database's"),
    });
}
