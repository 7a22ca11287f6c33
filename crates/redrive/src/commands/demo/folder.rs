//! Makes the folder a demo works in. A demo never writes into a folder that holds something already.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use redrive_core::key::LogicalDate;

use crate::config::FILE;
use crate::error::{Error, Result};

const TEMPLATE: &str = include_str!("demo.toml");
/// Stands for the first day in the template.
const START: &str = "START";
const NAME: &str = "redrive-demo";

/// Makes the folder with nothing in it but the configuration. Of two demos that start at once, each gets its own.
pub fn prepare(named: Option<&Path>, start: LogicalDate) -> Result<PathBuf> {
    let directory = match named {
        Some(directory) => {
            make_empty(directory)?;
            directory.to_owned()
        }
        None => next_free()?,
    };
    let file = directory.join(FILE);
    let created = OpenOptions::new().write(true).create_new(true).open(&file);
    let text = TEMPLATE.replace(START, &start.to_string());
    match created.and_then(|mut out| out.write_all(text.as_bytes())) {
        Ok(()) => Ok(directory),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(not_empty(&directory)),
        Err(error) => Err(Error::io(format!("cannot write {}", file.display()))(error)),
    }
}

fn make_empty(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory).map_err(Error::io(format!("cannot make {}", directory.display())))?;
    let listed = std::fs::read_dir(directory).map_err(Error::io(format!("cannot read {}", directory.display())));
    if listed?.next().is_some() { Err(not_empty(directory)) } else { Ok(()) }
}

/// Makes the first of `redrive-demo`, `redrive-demo-2`, … that does not exist.
fn next_free() -> Result<PathBuf> {
    let mut number = 1_u32;
    loop {
        let directory = PathBuf::from(if number == 1 { NAME.to_owned() } else { format!("{NAME}-{number}") });
        match std::fs::create_dir(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(Error::io(format!("cannot make {}", directory.display()))(error)),
        }
    }
}

fn not_empty(directory: &Path) -> Error {
    let todo = "move it away, or name another folder: redrive demo FOLDER";
    Error::Refused(format!("{} is not empty; {todo}", directory.display()))
}
