//! The bytes of what is uploaded: a file, stdin, or a folder that is packed on the way.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::{mpsc, oneshot};

use super::folder;
use crate::error::{Error, Result};
use crate::input;

const PIECE: usize = 256 << 10;
/// How many pieces of a folder may be packed ahead.
const AHEAD: usize = 4;

/// What is uploaded: its name, its size where that is known, and its bytes.
pub struct Body {
    pub name: String,
    pub size: Option<u64>,
    pub bytes: BoxStream<'static, io::Result<Bytes>>,
    /// What people should know once the bytes were read.
    pub notes: Notes,
}

pub type Notes = Arc<Mutex<Vec<String>>>;

impl Body {
    pub async fn open(path: &Path) -> Result<Self> {
        let notes = Notes::default();
        if path == Path::new("-") {
            return Ok(Self { name: "stdin".to_owned(), size: None, bytes: made(copy_stdin), notes });
        }
        let failed = || Error::io(format!("cannot read {}", path.display()));
        let metadata = tokio::fs::metadata(path).await.map_err(failed())?;
        let name = std::path::absolute(path).ok();
        let name = name.as_deref().unwrap_or(path).file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_else(|| "upload".to_owned());
        if metadata.is_dir() {
            let bytes = packed(path.to_owned(), name.clone(), Arc::clone(&notes));
            return Ok(Self { name: format!("{name}.tar"), size: None, bytes, notes });
        }
        let file = input::open(path).map_err(failed())?;
        // A pipe tells no size.
        let size = metadata.is_file().then_some(metadata.len());
        Ok(Self { name, size, bytes: pieces(tokio::fs::File::from_std(file)), notes })
    }
}

fn pieces(reader: impl AsyncRead + Send + Unpin + 'static) -> BoxStream<'static, io::Result<Bytes>> {
    stream::try_unfold(reader, |mut reader| async move {
        let mut piece = BytesMut::with_capacity(PIECE);
        while piece.len() < PIECE {
            if reader.read_buf(&mut piece).await? == 0 {
                break;
            }
        }
        Ok((!piece.is_empty()).then(|| (piece.freeze(), reader)))
    })
    .boxed()
}

fn copy_stdin(mut out: io::BufWriter<Pieces>) -> io::Result<()> {
    io::copy(&mut io::stdin().lock(), &mut out)?;
    out.flush()
}

fn packed(folder: PathBuf, name: String, notes: Notes) -> BoxStream<'static, io::Result<Bytes>> {
    made(move |out| {
        let note = |text: String| notes.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        folder::pack(&folder, &name, out, note)?.flush()
    })
}

/// The bytes that `make` writes, on a thread of its own. The thread is not the runtime's, which would wait for it in the end,
/// however long stdin stays open.
fn made(
    make: impl FnOnce(io::BufWriter<Pieces>) -> io::Result<()> + Send + 'static,
) -> BoxStream<'static, io::Result<Bytes>> {
    let (pieces, inbox) = mpsc::channel(AHEAD);
    let (told, made) = oneshot::channel();
    std::thread::spawn(move || told.send(make(io::BufWriter::with_capacity(PIECE, Pieces(pieces)))));
    let end = stream::once(async move {
        match made.await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Err(error)),
            Err(stopped) => Some(Err(io::Error::other(stopped))),
        }
    });
    let all = stream::unfold(inbox, |mut inbox| async move { inbox.recv().await.map(|piece| (Ok(piece), inbox)) });
    all.chain(end.filter_map(std::future::ready)).boxed()
}

/// A writer whose bytes are received elsewhere.
pub struct Pieces(mpsc::Sender<Bytes>);

impl io::Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.0.blocking_send(Bytes::copy_from_slice(bytes)).map_err(gone)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
