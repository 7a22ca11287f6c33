//! A notification as a message of Slack: a text for the phone, and blocks for the screen.

use serde_json::json;

use super::receiver::Envelope;

/// Slack refuses longer texts.
const LONGEST: usize = 1900;

pub(super) fn body(envelope: &Envelope<'_>) -> String {
    let notice = &envelope.notification.notice;
    let count = match notice.at_least {
        true => format!("more than {}", notice.count.saturating_sub(1)),
        false => notice.count.to_string(),
    };
    let about: Vec<&str> = notice.sources.iter().chain(&notice.categories).map(String::as_str).collect();
    let about = if about.is_empty() { "–".to_owned() } else { about.join(", ") };
    let field = |name: &str, value: &str| json!({"type": "mrkdwn", "text": format!("*{name}*\n{}", fit(value))});
    let link = envelope.link.as_ref().map_or_else(String::new, |link| format!(" · <{link}|open>"));
    json!({
        "text": format!("{}: {}", fit(envelope.instance), fit(&notice.what)),
        "blocks": [
            {"type": "section", "text": {"type": "mrkdwn", "text": fit(&notice.what)}},
            {"type": "section", "fields": [
                field("How many", &count),
                field("Since", &notice.since.to_string()),
                field("Of", &about),
                field("Next", &envelope.next),
            ]},
            {"type": "context", "elements": [
                {"type": "mrkdwn", "text": format!("{} · {}{link}", notice.event, fit(envelope.instance))},
            ]},
        ],
    })
    .to_string()
}

/// What a source says must neither ping a channel nor make a link, nor be too long.
fn fit(text: &str) -> String {
    let short: String = text.chars().take(LONGEST).collect();
    short.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
