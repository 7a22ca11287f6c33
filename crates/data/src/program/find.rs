//! Whether a program could be started, before it is.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::settings::Variables;

/// What is wrong with a program that cannot be started here. Where the environment has no `PATH`, only a name with a `/` in
/// it can be judged.
pub(super) fn missing(name: &str, directory: Option<&Path>, variables: &Variables) -> Option<String> {
    if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
        return Some(no_directory(directory));
    }
    if name.contains('/') {
        let path = directory.unwrap_or(Path::new("")).join(name.trim_start_matches("./"));
        return match path.metadata() {
            Err(_) => Some(format!("{} does not exist; correct command", path.display())),
            Ok(_) if !is_program(&path) => Some(format!("{} may not be run; make it executable", path.display())),
            Ok(_) => None,
        };
    }
    let path = variables.get("PATH")?;
    let is_there = std::env::split_paths(&path).any(|folder| is_program(&folder.join(name)));
    (!is_there).then(|| not_in_path(name))
}

pub(super) fn not_in_path(name: &str) -> String {
    format!("cannot find {name} in the PATH; install it or write its whole path")
}

pub(super) fn no_directory(directory: &Path) -> String {
    format!("directory {} does not exist; create it or correct it", directory.display())
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_the_system_finds_them() {
        let folder = tempfile::tempdir().unwrap();
        let (program, text) = (folder.path().join("run"), folder.path().join("text"));
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(&text, "").unwrap();
        let path = folder.path().display().to_string();
        let variables = Variables::new(move |name| (name == "PATH").then(|| format!("/no/such:{path}")));
        let missing = |name: &str| missing(name, Some(folder.path()), &variables);
        assert_eq!(missing("run"), None);
        assert_eq!(missing("./run"), None);
        assert!(missing("text").unwrap().contains("cannot find text in the PATH"));
        assert!(missing("./text").unwrap().contains("may not be run"));
        assert!(missing("./none").unwrap().contains("does not exist"));
        assert_eq!(super::missing("anything", None, &Variables::default()), None, "it cannot be told");
        assert!(super::missing("run", Some(Path::new("/no/such")), &variables).unwrap().contains("/no/such"));
    }
}
