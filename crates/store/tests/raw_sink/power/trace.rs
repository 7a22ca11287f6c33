//! What a process asked of the file system, as strace saw it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A system call that succeeded and concerns the folder that is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// A file that may be new: the call had `O_CREAT`.
    Create(PathBuf),
    Open(PathBuf),
    Write(PathBuf, Vec<u8>),
    MakeDirectory(PathBuf),
    Link(PathBuf, PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    Sync(PathBuf),
    /// Entries of a directory were read.
    List(PathBuf),
    /// A line on standard output.
    Said(String),
}

/// A call takes effect between its two moments: what it writes may be there from the first on, and what it syncs is
/// sure after the second.
#[derive(Debug, Clone, Copy)]
pub enum Moment {
    Begin(usize),
    End(usize),
}

#[derive(Debug)]
pub struct Trace {
    pub calls: Vec<Call>,
    pub moments: Vec<Moment>,
}

pub const CALLS: &str = "trace=open,openat,creat,write,pwrite64,writev,pwritev,pwritev2,truncate,ftruncate,fallocate,\
    copy_file_range,sendfile,splice,mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,unlink,unlinkat,rename,renameat,\
    renameat2,fsync,fdatasync,sync,syncfs,sync_file_range,getdents64";

impl Trace {
    /// Reads what `strace -f -y -o` wrote. Only what lies in `top` counts.
    pub fn parse(text: &str, top: &Path) -> Self {
        let mut begun: HashMap<&str, (usize, &str)> = HashMap::new();
        let (mut found, mut moments): (Vec<Option<Call>>, Vec<Moment>) = (Vec::new(), Vec::new());
        for line in text.lines() {
            let (process, call) = line.split_once(' ').unwrap();
            let call = call.trim_start();
            if let Some(beginning) = call.strip_suffix(" <unfinished ...>") {
                begun.insert(process, (found.len(), beginning));
                moments.push(Moment::Begin(found.len()));
                found.push(None);
            } else if call.starts_with("<... ") {
                let (index, beginning) = begun.remove(process).unwrap();
                let end = call.split_once(" resumed>").unwrap().1;
                found[index] = read(&format!("{beginning}{end}"), top);
                moments.push(Moment::End(index));
            } else if call.contains('(') {
                moments.extend([Moment::Begin(found.len()), Moment::End(found.len())]);
                found.push(read(call, top));
            }
        }
        Self::numbered_anew(found, &moments)
    }

    fn numbered_anew(found: Vec<Option<Call>>, moments: &[Moment]) -> Self {
        let mut calls = Vec::new();
        let new: Vec<Option<usize>> = found
            .into_iter()
            .map(|call| {
                calls.push(call?);
                Some(calls.len() - 1)
            })
            .collect();
        let moments = moments.iter().filter_map(|moment| match *moment {
            Moment::Begin(index) => new[index].map(Moment::Begin),
            Moment::End(index) => new[index].map(Moment::End),
        });
        Self { moments: moments.collect(), calls }
    }
}

fn read(line: &str, top: &Path) -> Option<Call> {
    let (call, result) = line.rsplit_once(" = ").unwrap_or_else(|| panic!("{line}"));
    if !result.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let (name, arguments) = call.split_once('(').unwrap();
    let arguments = split(arguments.trim_end().strip_suffix(')').unwrap_or(arguments));
    let at = |n: usize| path(&arguments[n]);
    let from = |n: usize| at(n).join(at(n + 1));
    let found = match name {
        "open" | "creat" => opened(at(0), line),
        "openat" => opened(from(0), line),
        "write" if arguments[0].starts_with("1<") => {
            return Some(Call::Said(String::from_utf8_lossy(&text(&arguments[1])).trim().to_owned()));
        }
        "write" => {
            let length: usize = result.trim().parse().unwrap();
            let mut bytes = text(&arguments[1]);
            assert!(bytes.len() >= length || !at(0).starts_with(top), "strace cut a write short: {}", &line[..80]);
            bytes.truncate(length);
            Call::Write(at(0), bytes)
        }
        "mkdir" => Call::MakeDirectory(at(0)),
        "mkdirat" => Call::MakeDirectory(from(0)),
        "link" => Call::Link(at(0), at(1)),
        "linkat" => Call::Link(from(0), from(2)),
        "rename" => Call::Rename(at(0), at(1)),
        "renameat" | "renameat2" => Call::Rename(from(0), from(2)),
        "unlink" | "rmdir" => Call::Remove(at(0)),
        "unlinkat" => Call::Remove(from(0)),
        "fsync" | "fdatasync" => Call::Sync(at(0)),
        "getdents64" => Call::List(at(0)),
        _ => {
            assert!(!line.contains(&*top.to_string_lossy()), "the model of a disk does not know this call: {line}");
            return None;
        }
    };
    touched(&found).starts_with(top).then_some(found)
}

fn opened(path: PathBuf, line: &str) -> Call {
    assert!(!line.contains("O_TRUNC") || !line.contains("_manifest.json"), "a manifest is emptied: {line}");
    if line.contains("O_CREAT") { Call::Create(path) } else { Call::Open(path) }
}

fn touched(call: &Call) -> &Path {
    match call {
        Call::Create(path)
        | Call::Open(path)
        | Call::Write(path, _)
        | Call::MakeDirectory(path)
        | Call::Link(path, _)
        | Call::Rename(path, _)
        | Call::Remove(path)
        | Call::Sync(path)
        | Call::List(path) => path,
        Call::Said(_) => Path::new(""),
    }
}

/// Splits arguments at commas, except within quotes.
fn split(arguments: &str) -> Vec<String> {
    let (mut split, mut quoted, mut escaped) = (vec![String::new()], false, false);
    for letter in arguments.chars() {
        match letter {
            ',' if !quoted => {
                split.push(String::new());
                continue;
            }
            '"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = letter == '\\' && !escaped;
        split.last_mut().unwrap().push(letter);
    }
    split.iter().map(|argument| argument.trim().to_owned()).collect()
}

/// A path in quotes, or the one that strace shows behind a descriptor.
fn path(argument: &str) -> PathBuf {
    if argument.starts_with('"') {
        return String::from_utf8(text(argument)).unwrap().into();
    }
    argument.split_once('<').and_then(|(_, path)| path.strip_suffix('>')).unwrap_or_default().into()
}

/// The bytes of a quoted text.
fn text(argument: &str) -> Vec<u8> {
    let quoted = argument.trim_end_matches("...").strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let mut letters = quoted.unwrap_or_else(|| panic!("{argument}")).bytes().peekable();
    let mut bytes = Vec::new();
    while let Some(letter) = letters.next() {
        if letter != b'\\' {
            bytes.push(letter);
            continue;
        }
        bytes.push(match letters.next().unwrap() {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 0x0b,
            b'f' => 0x0c,
            digit @ b'0'..=b'7' => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    let Some(digit) = letters.next_if(|next| (b'0'..=b'7').contains(next)) else { break };
                    value = value * 8 + u32::from(digit - b'0');
                }
                u8::try_from(value).unwrap()
            }
            other => other,
        });
    }
    bytes
}
