//! Packs a folder as a tar archive: configuration files, archives, and the links among them. Equal folders give equal bytes,
//! so that uploading one again is known for what it is.

use std::fs::{self, File, FileType};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use redrive_conf::{FileKind, uncompressed};
use redrive_data::ingest::archive;

/// Packs what is of use below a folder, under the folder's name. `note` hears what was left out although it may matter.
pub fn pack<W: Write>(folder: &Path, name: &str, out: W, mut note: impl FnMut(String)) -> io::Result<W> {
    let mut tar = tar::Builder::new(out);
    tar.mode(tar::HeaderMode::Deterministic);
    tar.follow_symlinks(false);
    tar.sparse(false);
    let root = fs::canonicalize(folder)?;
    for (path, kind) in below(folder)? {
        let inside = path.strip_prefix(folder).unwrap_or(&path);
        let shown = path.display();
        match worth(&path, kind, &root).map_err(|error| io::Error::new(error.kind(), format!("{shown}: {error}")))? {
            Worth::Packing => tar.append_path_with_name(&path, Path::new(name).join(inside))?,
            Worth::Nothing => {}
            Worth::Note(why) => note(format!("{shown} is left out: it is {why}")),
        }
    }
    tar.into_inner()
}

enum Worth {
    Packing,
    Nothing,
    Note(&'static str),
}

fn worth(path: &Path, kind: FileType, root: &Path) -> io::Result<Worth> {
    let is_conf = FileKind::of(uncompressed(&path.to_string_lossy())).is_some();
    if kind.is_symlink() {
        let stays = fs::canonicalize(path).is_ok_and(|target| target.starts_with(root) && target.is_dir());
        let is_relative = fs::read_link(path)?.is_relative();
        return Ok(match (is_conf, fs::metadata(path).is_ok_and(|target| target.is_dir())) {
            (true, _) => Worth::Packing,
            (false, true) if stays && is_relative => Worth::Packing,
            (false, true) => Worth::Note("a link to a folder elsewhere"),
            (false, false) => Worth::Nothing,
        });
    }
    if !kind.is_file() {
        return Ok(Worth::Note("a pipe, a socket or a device"));
    }
    if is_conf {
        return Ok(Worth::Packing);
    }
    let mut head = Vec::new();
    File::open(path)?.take(archive::HEAD_BYTES).read_to_end(&mut head)?;
    Ok(if archive::is_archive(&path.to_string_lossy(), &head) { Worth::Packing } else { Worth::Nothing })
}

/// Everything below a folder that is no folder, in the order of the paths.
fn below(folder: &Path) -> io::Result<Vec<(PathBuf, FileType)>> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            match entry.file_type()? {
                kind if kind.is_dir() => folders.push(entry.path()),
                kind => found.push((entry.path(), kind)),
            }
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(folder: &Path, order: &[&str]) {
        for path in order {
            let file = folder.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, path).unwrap();
        }
    }

    fn names(bytes: &[u8]) -> Vec<String> {
        let mut archive = tar::Archive::new(bytes);
        archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect()
    }

    #[test]
    fn equal_folders_are_equal_bytes_whatever_their_times_and_the_order_they_were_made_in() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let paths = ["b/local/x.conf", "a/metadata/default.meta", "a/default/y.conf", "a/README", "a/z.conf.gz"];
        fill(one.path(), &paths);
        let reversed: Vec<&str> = paths.iter().rev().copied().collect();
        fill(two.path(), &reversed);
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        File::open(two.path().join("a/default/y.conf")).unwrap().set_modified(old).unwrap();
        let packed = |folder: &Path| pack(folder, "etc", Vec::new(), |note| panic!("{note}")).unwrap();
        assert_eq!(packed(one.path()), packed(two.path()));
        let expected = ["etc/a/default/y.conf", "etc/a/metadata/default.meta", "etc/a/z.conf.gz", "etc/b/local/x.conf"];
        assert_eq!(names(&packed(one.path())), expected, "what is of no use is left out");
    }

    #[test]
    fn archives_and_links_inside_go_along_and_a_socket_is_left_out_with_a_note() {
        let folder = tempfile::tempdir().unwrap();
        fill(folder.path(), &["a/default/x.conf"]);
        fs::write(folder.path().join("inner"), [b"\x1f\x8b\x08".as_slice(), &[0; 20]].concat()).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("a/socket.conf")).unwrap();
        std::os::unix::fs::symlink("../default/x.conf", folder.path().join("a/default/link.conf")).unwrap();
        std::os::unix::fs::symlink("default", folder.path().join("a/local")).unwrap();
        std::os::unix::fs::symlink("/tmp", folder.path().join("a/tmp")).unwrap();
        let mut notes = Vec::new();
        let bytes = pack(folder.path(), "etc", Vec::new(), |note| notes.push(note)).unwrap();
        assert_eq!(names(&bytes), ["etc/a/default/link.conf", "etc/a/default/x.conf", "etc/a/local", "etc/inner"]);
        assert!(notes.len() == 2 && notes[0].contains("socket.conf is left out: it is a pipe"), "{notes:?}");
        assert!(notes[1].contains("a/tmp is left out: it is a link to a folder elsewhere"), "{notes:?}");
    }
}
