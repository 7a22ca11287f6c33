//! The body of an answer on its way into the raw sink.

use super::settings::{Format, Settings};
use crate::extract::json_stream::RecordStream;
use crate::extract::{Error, Failure, MAX_RECORD_BYTES, Records};
use crate::lines::{Lines, Overlong};
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
                let why =
                    "the answer has neither a length nor chunks, so a connection that breaks would look like its end";
                return Err(Failure::retryable(format!("{}: {why}; {todo}", answer.name())).into());
            }
            // One more than a record may have, for a carriage return.
            let mut lines = Lines::new(MAX_RECORD_BYTES + 1);
            while let Some(chunk) = answer.chunk().await? {
                feed(&mut lines, &chunk, records).await?;
            }
            if let Some(rest) = lines.finish() {
                finish(without_return(rest), answer.name(), records).await?;
            }
        }
    }
    Ok(stream)
}

async fn feed(lines: &mut Lines, mut chunk: &[u8], records: &mut Records) -> Result<(), Error> {
    loop {
        match lines.next(&mut chunk) {
            Ok(Some(line)) => records.record(without_return(line)).await?,
            Ok(None) => return Ok(()),
            Err(Overlong) => return records.check_length(usize::MAX),
        }
    }
}

/// The last line may lack its end, but it must not be cut: a connection that was closed looks the same.
async fn finish(line: &[u8], name: &str, records: &mut Records) -> Result<(), Error> {
    if line.trim_ascii().is_empty() {
        return Ok(());
    }
    if serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err() {
        let text = format!("{name}: the answer breaks off within record {}", records.count() + 1);
        return Err(Failure::retryable(text).into());
    }
    records.record(line).await
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
