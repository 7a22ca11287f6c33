//! The words by which a message is read.

/// Words behind which a name stands.
#[rustfmt::skip]
pub(super) const NOUNS: [&str; 19] = [
    "stream", "query", "table", "report", "customer", "account", "source", "tenant", "shop", "category",
    "dataset", "index", "topic", "bucket", "queue", "job", "of", "for", "from",
];

/// Words behind which a number says what went wrong.
#[rustfmt::skip]
pub(super) const CODED: [&str; 22] = [
    "code", "status", "statuscode", "status_code", "error_code", "errorcode", "errno", "signal", "exit",
    "http", "answered", "answers", "subcode", "error_subcode", "sqlstate", "http_status", "httpstatus",
    "status-code", "sqlcode", "exitcode", "exit_code", "returncode",
];

/// What error codes of letters and digits begin with.
#[rustfmt::skip]
pub(super) const CODE_HEADS: [&str; 9] = [
    "ORA", "TNS", "PLS", "SQL", "ERR", "AADSTS", "SQLCODE", "ERROR", "E",
];

/// Words behind which an id stands.
#[rustfmt::skip]
pub(super) const IDS: [&str; 21] = [
    "id", "uuid", "guid", "trace", "traceid", "requestid", "token", "nonce", "cursor", "etag", "ray",
    "signature", "pid", "tid", "thread", "hostname", "timestamp", "apikey", "password", "secret",
    "authorization",
];

/// What a status that stands alone is followed by.
#[rustfmt::skip]
pub(super) const REASONS: [&str; 18] = [
    "Bad", "Unauthorized", "Forbidden", "Not", "Method", "Request", "Conflict", "Gone", "Too", "Internal",
    "Server", "Client", "Service", "Gateway", "Unprocessable", "Payment", "Precondition", "Temporary",
];

/// Units of time and of size, in small letters.
#[rustfmt::skip]
pub(super) const UNITS: [&str; 27] = [
    "s", "sec", "secs", "second", "seconds", "ms", "us", "µs", "ns", "m", "min", "mins", "minute", "minutes",
    "h", "hour", "hours", "d", "day", "days", "kb", "mb", "gb", "kib", "mib", "gib", "b",
];

/// What may follow a time of day.
#[rustfmt::skip]
pub(super) const ZONES: [&str; 6] = [
    "GMT", "UTC", "AM", "PM", "CET", "CEST",
];

/// Months and days of the week.
#[rustfmt::skip]
pub(super) const CALENDAR: [&str; 29] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "January", "February",
    "March", "April", "June", "July", "August", "September", "October", "November", "Mon", "Tue", "Wed",
    "Thu", "Fri", "Sat", "Sun",
];

/// Top-level domains by which a name with dots is a host's.
#[rustfmt::skip]
pub(super) const DOMAINS: [&str; 24] = [
    "com", "org", "net", "io", "dev", "internal", "local", "cloud", "co", "de", "uk", "eu", "us", "app", "ai",
    "test", "example", "lan", "localhost", "info", "biz", "gov", "edu", "svc",
];

/// Names that have a number by nature.
#[rustfmt::skip]
pub(super) const NUMBERED: [&str; 14] = [
    "python", "oauth", "utf", "sha", "md", "int", "uint", "float", "base", "ipv", "http", "s", "ec", "latin",
];

/// Whether a list has the word, in any case.
pub(super) fn has(list: &[&str], word: &str) -> bool {
    list.iter().any(|known| word.eq_ignore_ascii_case(known))
}
