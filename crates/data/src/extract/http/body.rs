//! The body of an answer on its way into the raw sink.

use super::lines::Lines;
use super::settings::{Format, Settings};
use crate::extract::json_stream::RecordStream;
use crate::extract::{Error, Failure, Records};
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
