//! Accepts only paths and links that stay inside the archive.

use super::error::{Reason, Refusal};

/// Cleans a member's path: `/` between its parts, none of them empty, `.` or `..`. None when nothing is left, as for the
/// archive's own root folder.
pub(super) fn member_path(raw: &[u8]) -> Result<Option<String>, Refusal> {
    let text = text_of(raw);
    let refuse = |why: &str| Err(Refusal::new(Reason::UnsafeEntry, format!("the path {why}")).at(&text));
    if text.contains('\0') {
        return refuse("has a NUL character in it");
    }
    if is_absolute(&text) {
        return refuse("is absolute");
    }
    // An archive that was made on Windows may have backslashes between the parts.
    if text.split(['/', '\\']).any(|part| part == "..") {
        return refuse("goes up with `..`");
    }
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    Ok((!parts.is_empty()).then(|| parts.join("/")))
}

/// Makes a text of a name. A byte that is no UTF-8 is written as `%E9`, so that two names that differ stay two names.
fn text_of(raw: &[u8]) -> String {
    let mut text = String::with_capacity(raw.len());
    for chunk in raw.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("%{byte:02X}")));
    }
    text
}

/// Tells which path of the same archive a link leads to; empty for the archive's root. A symbolic link begins at its own
/// folder, a hard link at the root. `path` is the link's own path in this archive.
pub(super) fn link_target(path: &str, raw: &[u8], symbolic: bool) -> Result<String, Refusal> {
    let target = text_of(raw);
    let refuse = || Refusal::new(Reason::UnsafeEntry, format!("the link leads out of the archive, to `{target}`"));
    if is_absolute(&target) {
        return Err(refuse());
    }
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let begin = if symbolic { folder } else { "" };
    let mut parts: Vec<&str> = begin.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop().ok_or_else(refuse)?),
            _ => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// Tells whether a member is what macOS adds of its own: `._name`, and everything in `__MACOSX`.
pub(super) fn is_of_macos(path: &str) -> bool {
    let is_fork = path.rsplit('/').next().is_some_and(|name| name.starts_with("._"));
    is_fork || path.split('/').any(|part| part == "__MACOSX")
}

fn is_absolute(text: &str) -> bool {
    let bytes = text.as_bytes();
    let drive = bytes.first().is_some_and(u8::is_ascii_alphabetic) && bytes.get(1) == Some(&b':');
    let rooted = text.starts_with(['/', '\\']);
    rooted || drive && matches!(bytes.get(2), None | Some(b'/' | b'\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_inside_are_cleaned_and_paths_outside_refused() {
        let clean = |raw: &str| member_path(raw.as_bytes()).unwrap();
        assert_eq!(clean("./a//b/./c.conf").as_deref(), Some("a/b/c.conf"));
        assert_eq!(clean("a..b/...").as_deref(), Some("a..b/..."));
        assert_eq!(clean("a:b/c").as_deref(), Some("a:b/c"));
        assert_eq!(clean("./"), None);
        for raw in ["/a", "../a", "a/../../b", "a/..", "..\\a", "\\a", "C:\\a", "c:/a", "C:", "a\0b"] {
            assert_eq!(member_path(raw.as_bytes()).unwrap_err().reason, Reason::UnsafeEntry, "{raw}");
        }
    }

    #[test]
    fn names_that_are_no_text_stay_apart() {
        let clean = |raw: &[u8]| member_path(raw).unwrap().unwrap();
        assert_eq!(clean(b"caf\xe9/\xe9.conf"), "caf%E9/%E9.conf");
        assert_ne!(clean(b"\xe9.conf"), clean(b"\xe8.conf"));
    }

    #[test]
    fn what_macos_adds_is_known() {
        assert!(is_of_macos("a/._props.conf") && is_of_macos("__MACOSX/a/props.conf") && is_of_macos("a/__MACOSX/b"));
        assert!(!is_of_macos("a/.props.conf") && !is_of_macos("._a/props.conf") && !is_of_macos("a/x__MACOSX/b"));
    }

    #[test]
    fn links_may_go_up_only_as_far_as_the_root() {
        let target = |path, target: &str, symbolic| link_target(path, target.as_bytes(), symbolic).unwrap();
        assert_eq!(target("a/local/x.conf", "../default/x.conf", true), "a/default/x.conf");
        assert_eq!(target("a/x", "../b", true), "b");
        assert_eq!(target("a/x", ".//b/../c", true), "a/c");
        assert_eq!(target("a/b", "a/c", false), "a/c");
        assert_eq!(target("x", ".", true), "");
        for (path, target, symbolic) in
            [("a/x", "../../b", true), ("x", "..", true), ("a/x", "../b", false), ("x", "/etc/passwd", true)]
        {
            assert!(link_target(path, target.as_bytes(), symbolic).is_err(), "{path} {target}");
        }
    }
}
