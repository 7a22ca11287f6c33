//! Jobs from a file of JSON lines, read on a thread of their own in batches of bounded size.

use std::io::{self, BufRead};

use redrive_core::run::{Job, MAX_JOB_BYTES};
use tokio::sync::mpsc;

/// What is submitted in one transaction, at the most: jobs, and bytes of their lines.
const BATCH: usize = 1000;
const BATCH_BYTES: usize = 4 << 20;
/// How many batches are read ahead.
const AHEAD: usize = 2;

/// What comes from the reader: jobs, and in the end what stopped it, if something did.
#[derive(Debug)]
pub enum Read {
    Jobs(Vec<Job>),
    Stopped(Stop),
}

#[derive(Debug)]
pub enum Stop {
    /// This line is no job.
    Line {
        number: u64,
        why: String,
    },
    Io(io::Error),
}

/// Begins to read. What is read and not yet taken is bounded.
pub fn start(input: impl BufRead + Send + 'static, category: Option<String>) -> mpsc::Receiver<Read> {
    let (send, receive) = mpsc::channel(AHEAD);
    std::thread::spawn(move || {
        let mut reader = Reader { input, category, number: 0, line: Vec::new() };
        loop {
            let (jobs, end) = reader.batch();
            // A reader that nobody listens to any more ends.
            if !jobs.is_empty() && send.blocking_send(Read::Jobs(jobs)).is_err() {
                return;
            }
            match end {
                End::Full => {}
                End::File => return,
                End::Stopped(stop) => return drop(send.blocking_send(Read::Stopped(stop))),
            }
        }
    });
    receive
}

struct Reader<I> {
    input: I,
    category: Option<String>,
    number: u64,
    line: Vec<u8>,
}

/// Why a batch has no more jobs.
enum End {
    Full,
    File,
    Stopped(Stop),
}

impl<I: BufRead> Reader<I> {
    fn batch(&mut self) -> (Vec<Job>, End) {
        let (mut jobs, mut bytes) = (Vec::new(), 0);
        while jobs.len() < BATCH && bytes < BATCH_BYTES {
            match self.line() {
                Ok(true) => {}
                Ok(false) => return (jobs, End::File),
                Err(stop) => return (jobs, End::Stopped(stop)),
            }
            if self.line.trim_ascii().is_empty() {
                continue;
            }
            bytes += self.line.len();
            match Job::parse(self.line.trim_ascii(), self.category.as_deref()) {
                Ok(job) => jobs.push(job),
                Err(error) => return (jobs, End::Stopped(Stop::Line { number: self.number, why: error.to_string() })),
            }
        }
        (jobs, End::Full)
    }

    /// Reads the next line; false at the end. A line that is too long is not read to its end.
    fn line(&mut self) -> Result<bool, Stop> {
        self.line.clear();
        self.number += 1;
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Stop::Io(error)),
            };
            let newline = available.iter().position(|byte| *byte == b'\n');
            let taken = newline.unwrap_or(available.len());
            if self.line.len() + taken > MAX_JOB_BYTES {
                let why = "it is longer than a job with a payload of 1 MiB can be".to_owned();
                return Err(Stop::Line { number: self.number, why });
            }
            let ended = available.is_empty();
            self.line.extend_from_slice(&available[..taken]);
            self.input.consume(taken + usize::from(newline.is_some()));
            if newline.is_some() || ended {
                return Ok(newline.is_some() || !self.line.is_empty());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: String) -> (Vec<usize>, Option<Stop>) {
        let mut from = start(io::BufReader::with_capacity(7, io::Cursor::new(text.into_bytes())), None);
        let (mut sizes, mut stopped) = (Vec::new(), None);
        while let Some(next) = from.blocking_recv() {
            match next {
                Read::Jobs(jobs) => sizes.push(jobs.len()),
                Read::Stopped(stop) => stopped = Some(stop),
            }
        }
        (sizes, stopped)
    }

    #[test]
    fn jobs_come_in_batches_and_blank_lines_are_left_out() {
        let text = "{\"category\":\"a\"}\r\n\n".repeat(2500) + "{\"category\":\"last\"}";
        let (sizes, stopped) = read(text);
        assert_eq!(sizes, [1000, 1000, 501]);
        assert!(stopped.is_none(), "{stopped:?}");
        let large = format!("{{\"category\":\"a\",\"payload\":\"{}\"}}\n", "x".repeat(1 << 20 >> 1));
        assert_eq!(read(large.repeat(20)).0, [8, 8, 4], "a batch has few large ones");
    }

    #[test]
    fn a_bad_line_is_named_after_those_before_it() {
        let (sizes, stopped) =
            read("{\"category\":\"a\"}\n\n{\"category\":\"a\"}\n{\"category\":}\n{\"category\":\"a\"}".to_owned());
        assert_eq!(sizes, [2]);
        assert!(matches!(&stopped, Some(Stop::Line { number: 4, .. })), "{stopped:?}");
        let (sizes, stopped) = read(format!("{{\"category\":\"a\"}}\n{}", "x".repeat(MAX_JOB_BYTES + 1)));
        assert_eq!(sizes, [1]);
        assert!(
            matches!(&stopped, Some(Stop::Line { number: 2, why }) if why.starts_with("it is longer")),
            "{stopped:?}"
        );
    }
}
