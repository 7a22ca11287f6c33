//! What a program says on stderr: logged as it comes, and only the end of it kept.

use std::collections::BTreeMap;

use memchr::memrchr;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::oneshot;

use super::plain::plain;
use crate::extract::redact;

/// What is kept.
const KEPT: usize = 64 << 10;
const READ: usize = 16 << 10;

/// What to do with the lines of stderr while they pass.
#[derive(Debug, Default)]
pub(in crate::extract) struct Watch {
    /// Blacked out in the log.
    pub(in crate::extract) secrets: Vec<String>,
    /// Texts to listen for: a line that holds one is kept, however much is said after it.
    pub(in crate::extract) patterns: Vec<String>,
}

/// The end of what a program said on stderr.
#[derive(Debug, Default)]
pub(in crate::extract) struct Tail {
    bytes: Vec<u8>,
    /// How many of the bytes have been looked at.
    looked_at: usize,
    /// Patterns, each with the last line that holds it.
    heard: BTreeMap<String, String>,
}

/// Reads until the end, or until `stop` is told or dropped: somebody else may hold the pipe for ever.
pub(super) async fn drain(
    mut from: impl AsyncRead + Unpin,
    mut stop: oneshot::Receiver<()>,
    program: String,
    watch: Watch,
) -> Tail {
    let mut tail = Tail::default();
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
        tail.look_at(whole, &program, &watch);
        // Twice as much may pile up, so that not every read moves all of it.
        if tail.bytes.len() > 2 * KEPT {
            tail.forget();
        }
    }
    tail.look_at(tail.bytes.len(), &program, &watch);
    tail.forget();
    tail
}

impl Tail {
    /// The lines that are not blank, the last one first.
    pub(in crate::extract) fn lines_from_last(&self) -> impl Iterator<Item = String> {
        let lines = self.bytes.rsplit(|&byte| byte == b'\n').map(|line| plain(&String::from_utf8_lossy(line)));
        lines.filter(|line| !line.is_empty())
    }

    /// The last line that holds a pattern which was watched for.
    pub(super) fn heard(&self, pattern: &str) -> Option<&str> {
        self.heard.get(pattern).map(String::as_str)
    }

    fn look_at(&mut self, end: usize, program: &str, watch: &Watch) {
        if watch.patterns.is_empty() && !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        for line in self.bytes[self.looked_at.min(end)..end].split(|&byte| byte == b'\n') {
            let line = plain(&String::from_utf8_lossy(line));
            if line.is_empty() {
                continue;
            }
            tracing::debug!(program, "{}", redact(&line, &watch.secrets));
            for pattern in watch.patterns.iter().filter(|pattern| line.contains(pattern.as_str())) {
                self.heard.insert(pattern.clone(), line.clone());
            }
        }
        self.looked_at = self.looked_at.max(end);
    }

    fn forget(&mut self) {
        let surplus = self.bytes.len().saturating_sub(KEPT);
        self.bytes.drain(..surplus);
        self.looked_at = self.looked_at.saturating_sub(surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn tail_of(said: &[u8], patterns: &[&str]) -> Tail {
        let (_open, stop) = oneshot::channel();
        let patterns = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        drain(said, stop, "test".to_owned(), Watch { patterns, ..Watch::default() }).await
    }

    #[tokio::test]
    async fn only_the_end_is_kept_however_much_is_said() {
        let said = [vec![b'x'; 1 << 20], b"\nlast\n\n".to_vec()].concat();
        let tail = tail_of(&said, &[]).await;
        assert_eq!(tail.bytes.len(), KEPT);
        assert_eq!(tail.lines_from_last().next().as_deref(), Some("last"));
    }

    #[tokio::test]
    async fn a_pattern_is_heard_however_much_is_said_after_it() {
        let said = [b"x\nno quota left\n".to_vec(), b"talk\n".repeat(1 << 18), b"the end".to_vec()].concat();
        let tail = tail_of(&said, &["quota", "the end", "never"]).await;
        assert_eq!(tail.heard("quota"), Some("no quota left"));
        assert_eq!(tail.heard("the end"), Some("the end"));
        assert_eq!(tail.heard("never"), None);
    }

    #[tokio::test]
    async fn a_pipe_that_somebody_holds_open_can_be_left() {
        let (mut writer, reader) = tokio::io::duplex(64);
        tokio::io::AsyncWriteExt::write_all(&mut writer, b"said\n").await.unwrap();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(drain(reader, stopped, "test".to_owned(), Watch::default()));
        drop(stop);
        task.await.unwrap();
    }
}
