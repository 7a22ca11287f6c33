//! The bare loop beside a worker: makes the files of a partition's run and syncs what has to survive a power failure. These
//! are the part, the manifest, the run's directory and its parent, and once each directory above that is new.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// How many runs lie below one directory, as the worker's lie below a query.
const SIBLINGS: u32 = 1000;

/// The files of one run, by name.
type Files = Vec<(PathBuf, Vec<u8>)>;

/// Makes copies of a run found in `raw` below `target`, as many as are wanted, on so many threads.
pub fn make(raw: &Path, target: &Path, count: u32, threads: u32) -> io::Result<()> {
    let files = sample(raw)?.ok_or_else(|| io::Error::other("the worker left no files"))?;
    for nth in 0..count.div_ceil(SIBLINGS) {
        make_directory(&target.join(format!("c{nth}")))?;
    }
    let next = AtomicU32::new(0);
    let work = || -> io::Result<()> {
        loop {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            if nth >= count {
                return Ok(());
            }
            let above = target.join(format!("c{}", nth / SIBLINGS));
            make_run(&above, &format!("d{nth}"), &files)?;
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("panicked"))))
    })
}

fn make_run(above: &Path, name: &str, files: &Files) -> io::Result<()> {
    let parent = above.join(name);
    let run = parent.join("run");
    fs::create_dir(&parent)?;
    fs::create_dir(&run)?;
    for (name, content) in files {
        let mut file = File::create_new(run.join(name))?;
        file.write_all(content)?;
        file.sync_all()?;
    }
    sync(&run)?;
    sync(&parent)?;
    // The parent is new, so the directory above it has a new entry.
    sync(above)
}

fn make_directory(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    sync(path.parent().unwrap_or(path))
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// The content of the first directory below that holds files, hidden ones left out.
fn sample(directory: &Path) -> io::Result<Option<Files>> {
    let mut entries = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
    entries.retain(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    entries.sort_by_key(fs::DirEntry::file_name);
    let files = entries.iter().filter(|entry| entry.path().is_file());
    let found = files.map(|entry| Ok((entry.file_name().into(), fs::read(entry.path())?)));
    let found = found.collect::<io::Result<Files>>()?;
    if !found.is_empty() {
        return Ok(Some(found));
    }
    for entry in entries.iter().filter(|entry| entry.path().is_dir()) {
        if let Some(files) = sample(&entry.path())? {
            return Ok(Some(files));
        }
    }
    Ok(None)
}
