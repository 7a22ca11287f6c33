//! Relative paths of a configuration begin in the folder of its file.

use std::path::{Path, PathBuf};

/// Where a program runs: in the folder that is named, seen from the configuration's, and otherwise in that one.
pub fn directory(named: Option<PathBuf>, folder: &Path) -> Option<PathBuf> {
    let directory = match named {
        Some(named) => folder.join(named),
        None => folder.to_owned(),
    };
    (!directory.as_os_str().is_empty()).then_some(directory)
}

/// Has a path that may be left out begin in the folder.
pub fn start(path: &mut Option<PathBuf>, folder: &Path) {
    if let Some(path) = path {
        *path = folder.join(&*path);
    }
}
