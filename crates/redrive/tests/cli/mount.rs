//! A small file system of its own for a test, where mounting is allowed.

use std::path::Path;
use std::process::Command;

pub struct Mount {
    directory: tempfile::TempDir,
}

impl Mount {
    /// A file system in memory of that size; none, with the reason printed, where it is not permitted.
    pub fn of_size(size: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        match run("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"], directory.path()) {
            Ok(()) => Some(Self { directory }),
            Err(why) => {
                println!("SKIPPED: cannot mount a file system: {why}");
                None
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn remount(&self, options: &str) {
        run("mount", &["-o", &format!("remount,{options}")], self.path()).unwrap();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = run("umount", &["-l"], self.path());
    }
}

fn run(program: &str, arguments: &[&str], directory: &Path) -> Result<(), String> {
    let output = Command::new(program).args(arguments).arg(directory).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}
