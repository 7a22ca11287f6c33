//! The body of an answer on its way into the raw sink.

use super::settings::{Format, Settings};
use crate::buffer;
use crate::extract::json_stream::RecordStream;
use crate::extract::{Error, Failure, MAX_RECORD_BYTES, Records};
use crate::web::Response;

/// Reads one page to its end; gives the record stream back, with what it kept.
pub(super) async fn read(
    answer: &mut Response,
    settings: &Settings,
    mut stream: RecordStream,
    records: &mut Records,
) -> Result<RecordStream, Error> {
    match settings.format {
        Format::Json => {
            while let Some(chunk) = answer.chunk().await? {
                records.feed(&mut stream, &chunk, answer.name()).await?;
            }
            stream.finish().map_err(|fault| records.unusable(&fault, answer.name()))?;
        }
        Format::Jsonl => {
            if !answer.is_framed() && !settings.unframed {
                let todo = "set unframed = true if its lines can be trusted all the same";
                let why = "the answer has neither a length nor chunks, so that a cut would pass for its end";
                return Err(Failure::retryable(format!("{}: {why}; {todo}", answer.name())).into());
            }
            let mut lines = Lines::default();
            while let Some(chunk) = answer.chunk().await? {
                lines.feed(&chunk, records).await?;
            }
            lines.finish(answer.name(), records).await?;
        }
    }
    Ok(stream)
}

/// The beginning of a line whose end has not come yet.
#[derive(Debug, Default)]
struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    async fn feed(&mut self, chunk: &[u8], records: &mut Records) -> Result<(), Error> {
        let Some(last) = memchr::memrchr(b'\n', chunk) else { return self.keep(chunk, records) };
        let (mut whole, rest) = chunk.split_at(last + 1);
        if !self.begun.is_empty() {
            let first = memchr::memchr(b'\n', whole).unwrap_or(last);
            self.keep(&whole[..first], records)?;
            records.record(without_return(&self.begun)).await?;
            self.begun.clear();
            whole = &whole[first + 1..];
        }
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            records.record(without_return(&line[..line.len() - 1])).await?;
        }
        self.keep(rest, records)
    }

    /// The last line may lack its end, but it must not be cut: a connection that was closed looks the same.
    async fn finish(self, name: &str, records: &mut Records) -> Result<(), Error> {
        let line = without_return(&self.begun);
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        if serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err() {
            let text = format!("{name}: the answer breaks off within record {}", records.count() + 1);
            return Err(Failure::retryable(text).into());
        }
        records.record(line).await
    }

    fn keep(&mut self, bytes: &[u8], records: &Records) -> Result<(), Error> {
        records.check_length(self.begun.len() + bytes.len())?;
        buffer::append(&mut self.begun, bytes, MAX_RECORD_BYTES);
        Ok(())
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
