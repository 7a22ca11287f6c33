//! Jobs from a file of JSON lines, read on a thread of their own in batches of bounded size.

use std::io::{self, BufRead};

use redrive_core::count;
use redrive_core::run::{Job, MAX_JOB_BYTES};
use redrive_data::lines::{Lines, Overlong};
use tokio::sync::mpsc;

/// What is submitted in one transaction, at the most: jobs, and bytes of their lines.
const BATCH: usize = 1000;
const BATCH_BYTES: usize = 4 << 20;
/// How many batches are read ahead.
const AHEAD: usize = 2;

/// What comes from the reader: jobs, and in the end what stopped it, if something did.
#[derive(Debug)]
pub enum Read {
    /// And how many bytes were read until then.
    Jobs(Vec<Job>, u64),
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
        let mut reader = Reader { input, category, lines: Lines::new(MAX_JOB_BYTES), bytes: 0 };
        loop {
            let (jobs, end) = reader.batch();
            // A reader that nobody listens to any more ends.
            if !jobs.is_empty() && send.blocking_send(Read::Jobs(jobs, reader.bytes)).is_err() {
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
    lines: Lines,
    /// How many were read.
    bytes: u64,
}

/// What a line holds.
enum Line {
    Blank,
    Job { job: Box<Job>, bytes: usize },
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
                Ok(Some(Line::Blank)) => {}
                Ok(Some(Line::Job { job, bytes: more })) => {
                    jobs.push(*job);
                    bytes += more;
                }
                Ok(None) => return (jobs, End::File),
                Err(stop) => return (jobs, End::Stopped(stop)),
            }
        }
        (jobs, End::Full)
    }

    /// Reads the next line; none at the end. A line that is too long is not read to its end.
    fn line(&mut self) -> Result<Option<Line>, Stop> {
        let category = self.category.as_deref();
        let line = loop {
            let mut rest = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Stop::Io(error)),
            };
            let available = rest.len();
            if available == 0 {
                break self.lines.finish().map(|line| read(line, category));
            }
            let found = match self.lines.next(&mut rest) {
                Ok(line) => line.map(|line| read(line, category)),
                Err(Overlong) => Some(Err("it is longer than a job with a payload of 1 MiB can be".to_owned())),
            };
            let taken = available - rest.len();
            self.input.consume(taken);
            self.bytes += count::of(taken);
            if found.is_some() {
                break found;
            }
        };
        line.transpose().map_err(|why| Stop::Line { number: self.lines.number(), why })
    }
}

fn read(line: &[u8], category: Option<&str>) -> Result<Line, String> {
    if line.trim_ascii().is_empty() {
        return Ok(Line::Blank);
    }
    let job = Job::parse(line.trim_ascii(), category).map_err(|error| error.to_string())?;
    Ok(Line::Job { job: Box::new(job), bytes: line.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: String) -> (Vec<usize>, Option<Stop>) {
        let mut from = start(io::BufReader::with_capacity(7, io::Cursor::new(text.into_bytes())), None);
        let (mut sizes, mut stopped) = (Vec::new(), None);
        while let Some(next) = from.blocking_recv() {
            match next {
                Read::Jobs(jobs, _) => sizes.push(jobs.len()),
                Read::Stopped(stop) => stopped = Some(stop),
            }
        }
        (sizes, stopped)
    }

    #[test]
    fn jobs_come_in_batches_and_blank_lines_are_left_out() {
        let text = "{\"category\":\"a\"}\r\n\n".repeat(2500) + "{\"category\":\"last\"}";
        let (sizes, stopped) = read_all(text);
        assert_eq!(sizes, [1000, 1000, 501]);
        assert!(stopped.is_none(), "{stopped:?}");
        let large = format!("{{\"category\":\"a\",\"payload\":\"{}\"}}\n", "x".repeat(1 << 20 >> 1));
        assert_eq!(read_all(large.repeat(20)).0, [8, 8, 4], "a batch has few large ones");
    }

    #[test]
    fn a_bad_line_is_named_after_those_before_it() {
        let (sizes, stopped) =
            read_all("{\"category\":\"a\"}\n\n{\"category\":\"a\"}\n{\"category\":}\n{\"category\":\"a\"}".to_owned());
        assert_eq!(sizes, [2]);
        assert!(matches!(&stopped, Some(Stop::Line { number: 4, .. })), "{stopped:?}");
        let (sizes, stopped) = read_all(format!("{{\"category\":\"a\"}}\n{}", "x".repeat(MAX_JOB_BYTES + 1)));
        assert_eq!(sizes, [1]);
        assert!(
            matches!(&stopped, Some(Stop::Line { number: 2, why }) if why.starts_with("it is longer")),
            "{stopped:?}"
        );
    }
}
