//! The words of problems: those of the command line where it has one, and a few that only HTTP needs. Each has a status, a
//! title and a page that says what to do.

use std::borrow::Cow;
use std::fmt;

use redrive_core::refusal::Reason;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

macro_rules! codes {
    ($($variant:ident = $word:literal, $status:literal, $title:literal, $explained:literal;)+) => {
        /// What went wrong, in a word that scripts rely on.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code {
            $(#[doc = $title] $variant,)+
            /// A rule of partitions or runs, by the word that reports have.
            Refused(Reason),
        }

        impl Code {
            const OWN: &'static [Self] = &[$(Self::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Refused(reason) => reason.as_str(),
                }
            }

            pub fn status(self) -> u16 {
                match self {
                    $(Self::$variant => $status,)+
                    Self::Refused(Reason::ChangedSincePlan) => 412,
                    Self::Refused(_) => 409,
                }
            }

            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$variant => $title,)+
                    Self::Refused(_) => "A rule forbids it",
                }
            }

            /// What it means and what to do, for the page of the problem.
            pub fn explained(self) -> &'static str {
                match self {
                    $(Self::$variant => $explained,)+
                    Self::Refused(reason) => refused(reason),
                }
            }
        }
    };
}

codes! {
    BadRequest = "bad_request", 400, "The request cannot be understood",
        "A parameter or a path has a value that cannot be used. `detail` names it and says what to write instead.";
    BadCursor = "bad_cursor", 400, "The cursor does not belong to this list",
        "A cursor continues the list it came from, with the same filter. Begin again without `cursor`.";
    NotSignedIn = "not_signed_in", 401, "Nobody is signed in",
        "Send a token as `Authorization: Bearer …`, or sign in at /login. `redrive token create` makes tokens.";
    Forbidden = "forbidden", 403, "The role does not allow it",
        "The token's role may not do this. `redrive token create --role` makes a token of another role.";
    ReadOnly = "read_only", 403, "This server only reads",
        "The server was started with --read-only, or server.read_only is true. Send changes to another server.";
    ForeignHost = "foreign_host", 403, "The Host header names another server",
        "The request was sent to a name that is not this server's. Add it to server.allowed_hosts if it should be.";
    CrossSite = "cross_site", 403, "Another site sent the request",
        "A browser sent it from a page of another origin. Set server.public_url where a proxy changes the name.";
    NotFound = "not_found", 404, "There is no such thing",
        "What the path or the body names is not there. `detail` says what was looked for.";
    MethodNotAllowed = "method_not_allowed", 405, "The method is not known here",
        "The path is known, but not with this method. The header Allow lists those that are.";
    NotAcceptable = "not_acceptable", 406, "The form of answer is not known here",
        "Ask for application/json, or for application/jsonl where everything should be streamed.";
    Timeout = "timeout", 408, "The body did not arrive in time",
        "The body stopped arriving. Send the request again.";
    ConfirmationRequired = "confirmation_required", 409, "So many must be confirmed",
        "More would change than may without a word. `matched` says how many; repeat the request with \"confirm\" and that number.";
    LeaseLost = "lease_lost", 409, "The run is no longer this worker's",
        "The lease had ended, or the run was cancelled. Drop the work; another attempt counts.";
    InProgress = "in_progress", 409, "The same request is still under way",
        "A request with this Idempotency-Key has not ended yet. Send it again in a moment.";
    Interrupted = "interrupted", 409, "The change was made, and its answer is lost",
        "The server ended after the change of this Idempotency-Key and before its answer was kept. Look at what is there.";
    TooLarge = "too_large", 413, "The body is too large",
        "The body has more bytes than may be sent here. Uploads have their own limit: max_upload in [ingest].";
    UnsupportedMediaType = "unsupported_media_type", 415, "The body's type is not known here",
        "Send application/json, or what the description of the route names.";
    BadBody = "bad_body", 422, "The body cannot be used",
        "`errors` names each field that cannot be used, as a JSON pointer, and says why.";
    Unusable = "unusable", 422, "It cannot be done as asked",
        "Each value has the form that the description asks for, but they cannot be meant together or now. `detail` says why.";
    EmptyFilter = "empty_filter", 422, "The filter is empty",
        "An empty filter would mean everything. Name something, or say \"all\": true.";
    IdempotencyKeyReused = "idempotency_key_reused", 422, "The Idempotency-Key belongs to another request",
        "A key stands for one request of one caller, with one body. Choose a new key for a new request.";
    TooManyRequests = "too_many_requests", 429, "Too many requests",
        "Wait as long as Retry-After says.";
    Internal = "internal", 500, "The server failed",
        "The server's log says why, beside the request_id of the answer.";
    StoreUnavailable = "store_unavailable", 503, "The database cannot be reached",
        "`detail` says why. Nothing was changed unless it says that this is not known.";
    SinkUnavailable = "sink_unavailable", 503, "The raw sink cannot be reached",
        "`detail` says why. `redrive doctor` looks closer.";
    Draining = "draining", 503, "The server is about to end",
        "Send the request again after Retry-After: to another server, or to this one when it is back.";
}

impl Code {
    pub fn all() -> impl Iterator<Item = Self> {
        Self::OWN.iter().copied().chain(Reason::ALL.iter().map(|reason| Self::Refused(*reason)))
    }

    pub fn find(word: &str) -> Option<Self> {
        Self::all().find(|code| code.as_str() == word)
    }
}

fn refused(reason: Reason) -> &'static str {
    match reason {
        Reason::AlreadyPending => "It is queued already; nothing has to be done.",
        Reason::NotFailed => "Only what has failed can be changed like this.",
        Reason::NotSuccess => "Only a success can be changed like this.",
        Reason::Terminal => "It is terminal. Say \"clear_terminal\": true to try it again all the same.",
        Reason::NotTerminal => "It is not marked terminal; nothing has to be done.",
        Reason::Paused => "It is paused. Resume it first.",
        Reason::NotPaused => "It is not paused; nothing has to be done.",
        Reason::BelowThreshold => "It has had too few attempts to be marked terminal.",
        Reason::NoRawPartition => {
            "The raw sink has nothing of it. Say \"allow_missing_raw\": true to try it all the same."
        }
        Reason::Exists => "It is there already; nothing has to be done.",
        Reason::InFlight => "It is being worked on now. Wait for the end of the attempt.",
        Reason::ChangedSincePlan => "It was changed since it was looked at. Look again, then decide again.",
        Reason::NotQueued => "It is not wanted now; nothing has to be done.",
        Reason::NotDue => "It is not due yet.",
        Reason::AlreadyCompleted => "It is done for good.",
        Reason::StaleFence => "Another attempt holds it now.",
        Reason::LeaseExpired => "The lease has ended, and with it the right to speak for the run.",
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl JsonSchema for Code {
    fn schema_name() -> Cow<'static, str> {
        "Code".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = Self::all().map(Self::as_str).collect();
        json_schema!({"type": "string", "enum": words})
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_one_word_and_is_found_by_it() {
        let words: Vec<&str> = Code::all().map(Code::as_str).collect();
        for (nth, code) in Code::all().enumerate() {
            assert_eq!(Code::find(code.as_str()), Some(code));
            assert!(!words[..nth].contains(&code.as_str()), "{code} stands twice");
            assert!((400..=599).contains(&code.status()), "{code}");
            assert!(code.explained().ends_with('.'), "{code}");
        }
    }
}
