//! Stderr of a program: logged as it comes, and only the end of it kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use memchr::memrchr;
use redrive_core::text::{ELLIPSIS, one_line};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::oneshot;

use crate::settings::Redactor;

/// What is kept.
const KEPT: usize = 64 << 10;
const READ: usize = 16 << 10;

/// What to do with the lines of stderr while they pass.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Blacked out in the log, and in what is kept.
    pub(crate) redactor: Arc<Redactor>,
    /// Texts to look for: a line that holds one is kept, however much comes after it.
    pub(crate) patterns: Vec<String>,
    /// Whether nothing is logged as it comes.
    pub(crate) is_silent: bool,
}

impl Watch {
    /// Blacks these secrets out, and looks for nothing.
    pub(crate) fn with(redactor: Arc<Redactor>) -> Self {
        Self { redactor, ..Self::default() }
    }
}

/// The end of what a program wrote on stderr.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    bytes: Vec<u8>,
    /// Whether something came before these bytes.
    cut: bool,
    /// How many of the bytes have been looked at.
    looked_at: usize,
    /// Patterns, each with the last line that holds it.
    found: BTreeMap<String, String>,
    watch: Watch,
}

/// Reads until the end, or until `stop` is sent or dropped: a process of another group may hold the pipe forever.
pub(super) async fn drain(
    mut from: impl AsyncRead + Unpin,
    mut stop: oneshot::Receiver<()>,
    program: String,
    watch: Watch,
) -> Tail {
    let mut tail = Tail { watch, ..Tail::default() };
    loop {
        tail.bytes.reserve(READ);
        let read = tokio::select! {
            read = from.read_buf(&mut tail.bytes) => read,
            _ = &mut stop => break,
        };
        if !matches!(read, Ok(1..)) {
            break;
        }
        let whole = memrchr(b'\n', &tail.bytes).map_or(0, |end| end + 1);
        tail.look_at(whole, &program);
        // Twice as much may pile up, so that not every read moves all of it.
        if tail.bytes.len() > 2 * KEPT {
            tail.forget();
        }
    }
    tail.look_at(tail.bytes.len(), &program);
    tail.forget();
    tail
}

impl Tail {
    /// The lines that are not blank, without secrets, the last one first.
    pub(crate) fn lines_from_last(&self) -> Vec<String> {
        let text = self.redact(&self.text(0, self.bytes.len()));
        text.rsplit('\n').map(one_line).filter(|line| !line.is_empty()).collect()
    }

    /// All that was kept, without secrets.
    pub(super) fn whole(&self) -> String {
        self.redact(&self.text(0, self.bytes.len()))
    }

    /// The last line that is not blank, as it was written: not yet fit to be shown.
    pub(super) fn last_line(&self) -> Option<String> {
        let mut lines = self.bytes.rsplit(|&byte| byte == b'\n').map(|line| one_line(&String::from_utf8_lossy(line)));
        lines.find(|line| !line.is_empty())
    }

    pub(super) fn redact(&self, text: &str) -> String {
        self.watch.redactor.redact(text)
    }

    /// The last line that holds a pattern which was watched for.
    pub(super) fn line_with(&self, pattern: &str) -> Option<&str> {
        self.found.get(pattern).map(String::as_str)
    }

    fn look_at(&mut self, end: usize, program: &str) {
        let is_logged = !self.watch.is_silent && tracing::enabled!(tracing::Level::DEBUG);
        if self.watch.patterns.is_empty() && !is_logged {
            return;
        }
        let text = self.text(self.looked_at.min(end), end);
        for line in text.lines().map(one_line).filter(|line| !line.is_empty()) {
            if is_logged {
                tracing::debug!(program, "{}", self.redact(&line));
            }
            for pattern in self.watch.patterns.iter().filter(|pattern| line.contains(pattern.as_str())) {
                self.found.insert(pattern.clone(), self.watch.redactor.redact(&line));
            }
        }
        self.looked_at = self.looked_at.max(end);
    }

    /// Some of the bytes as a text, with a mark where the beginning is cut off.
    fn text(&self, start: usize, end: usize) -> String {
        let text = String::from_utf8_lossy(&self.bytes[start..end]);
        if !self.cut || start > 0 {
            return text.into_owned();
        }
        // Half a character would hide from the redactor what follows it.
        format!("{ELLIPSIS}{}", text.trim_start_matches(char::REPLACEMENT_CHARACTER))
    }

    fn forget(&mut self) {
        let surplus = self.bytes.len().saturating_sub(KEPT);
        self.bytes.drain(..surplus);
        self.looked_at = self.looked_at.saturating_sub(surplus);
        self.cut |= surplus > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn tail_of(written: &[u8], patterns: &[&str]) -> Tail {
        let (_open, stop) = oneshot::channel();
        let patterns = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        drain(written, stop, "test".to_owned(), Watch { patterns, ..Watch::default() }).await
    }

    #[tokio::test]
    async fn only_the_end_is_kept_however_much_is_written() {
        let written = [vec![b'x'; 1 << 20], b"\nlast\n\n".to_vec()].concat();
        let tail = tail_of(&written, &[]).await;
        assert_eq!(tail.bytes.len(), KEPT);
        assert_eq!(tail.lines_from_last()[0], "last");
        assert!(tail.lines_from_last()[1].starts_with("…xxx"));
    }

    #[tokio::test]
    async fn a_pattern_is_found_however_much_comes_after_it() {
        let written = [b"x\nno quota left\n".to_vec(), b"talk\n".repeat(1 << 18), b"the end".to_vec()].concat();
        let tail = tail_of(&written, &["quota", "the end", "never"]).await;
        assert_eq!(tail.line_with("quota"), Some("no quota left"));
        assert_eq!(tail.line_with("the end"), Some("the end"));
        assert_eq!(tail.line_with("never"), None);
    }

    /// Written around the place where the end that is kept begins, and found there.
    #[tokio::test]
    async fn no_piece_of_a_secret_is_left_where_the_beginning_is_cut_off() {
        let secret = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\"hkiG9w0BAé\nQEFAASCBKcwggSj\n-----END KEY-----";
        let json = serde_json::Value::from(secret).to_string();
        let redactor = Arc::new(Redactor::new(&[secret.to_owned()]));
        for (written, patterns) in [(secret, &[][..]), (&json, &[][..]), (&json, &["yyyy".to_owned()][..])] {
            for kept_of_it in 0..=written.len() {
                let bytes = [vec![b'x'; 3 * KEPT], written.into(), vec![b'y'; KEPT - kept_of_it]].concat();
                let (_open, stop) = oneshot::channel();
                let watch = Watch { patterns: patterns.to_vec(), ..Watch::with(Arc::clone(&redactor)) };
                let tail = drain(&*bytes, stop, "test".to_owned(), watch).await;
                let shown = [tail.lines_from_last(), tail.found.into_values().collect()].concat();
                assert!(shown.iter().all(|line| line.ends_with("yyyy")), "it is all on one line");
                for piece in written.as_bytes().windows(8).filter_map(|piece| std::str::from_utf8(piece).ok()) {
                    let is_in = |line: &String| memchr::memmem::find(line.as_bytes(), piece.as_bytes()).is_some();
                    assert!(!shown.iter().any(is_in), "{kept_of_it}: {piece:?}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_pipe_that_is_held_open_can_be_left() {
        let (mut writer, reader) = tokio::io::duplex(64);
        tokio::io::AsyncWriteExt::write_all(&mut writer, b"text\n").await.unwrap();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(drain(reader, stopped, "test".to_owned(), Watch::default()));
        drop(stop);
        task.await.unwrap();
    }
}
