//! Accepts only paths and links that stay inside the archive.

use super::error::{Reason, Refusal};

/// Cleans a member's path: `/` between its parts, none of them empty, `.` or `..`. None when nothing is left, as for the
/// archive's own root folder.
pub(super) fn member_path(raw: &[u8]) -> Result<Option<String>, Refusal> {
    let text = String::from_utf8_lossy(raw);
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

/// Checks that the target of a link stays inside. A symbolic link begins at its own folder, a hard link at the root.
pub(super) fn link_target(path: &str, raw: &[u8], symbolic: bool) -> Result<String, Refusal> {
    let target = String::from_utf8_lossy(raw).into_owned();
    let refuse = || Refusal::new(Reason::UnsafeEntry, format!("the link leads out of the archive, to `{target}`"));
    if is_absolute(&target) {
        return Err(refuse());
    }
    let mut depth = if symbolic { path.split('/').count() - 1 } else { 0 };
    for part in target.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." => depth = depth.checked_sub(1).ok_or_else(refuse)?,
            _ => depth += 1,
        }
    }
    Ok(target)
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
    fn links_may_go_up_only_as_far_as_the_root() {
        assert!(link_target("a/local/x.conf", b"../default/x.conf", true).is_ok());
        assert!(link_target("a/x", b"../b", true).is_ok());
        assert!(link_target("a/b", b"a/c", false).is_ok());
        for (path, target, symbolic) in
            [("a/x", "../../b", true), ("x", "..", true), ("a/x", "../b", false), ("x", "/etc/passwd", true)]
        {
            assert!(link_target(path, target.as_bytes(), symbolic).is_err(), "{path} {target}");
        }
    }
}
