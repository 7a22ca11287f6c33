//! The body of an answer on its way into the raw sink.

use super::answer::Answer;
use super::lines::Lines;
use super::settings::{Format, Settings};
use crate::extract::json_stream::{Fault, Picker};
use crate::extract::{Error, Failure, Records};

/// Reads one page to its end; gives the picker back, with what it kept.
pub(super) async fn read(
    answer: &mut Answer,
    settings: &Settings,
    mut picker: Picker,
    records: &mut Records,
) -> Result<Picker, Error> {
    match settings.format {
        Format::Json => {
            while let Some(chunk) = answer.chunk().await? {
                feed(&mut picker, &chunk, answer.name(), records).await?;
            }
            picker.finish().map_err(|fault| unusable(&fault, answer.name(), records))?;
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
    Ok(picker)
}

/// Takes the records out of one chunk.
pub(in crate::extract) async fn feed(
    picker: &mut Picker,
    mut chunk: &[u8],
    name: &str,
    records: &mut Records,
) -> Result<(), Error> {
    loop {
        match picker.next(&mut chunk) {
            Ok(Some(record)) => records.record(record).await?,
            Ok(None) => return Ok(()),
            Err(fault) => return Err(unusable(&fault, name, records)),
        }
    }
}

fn unusable(fault: &Fault, name: &str, records: &Records) -> Error {
    if let Fault::LongRecord { bytes } = fault
        && let Err(error) = records.check_length(*bytes)
    {
        return error;
    }
    Failure::retryable(format!("{name}: the answer cannot be used: {fault}")).into()
}
