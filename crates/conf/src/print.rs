//! Prints a document so that parsing what was printed gives the same stanzas and settings.

use std::fmt;

use crate::document::Document;
use crate::stanza::Setting;
use crate::text::{trim_end, trim_start};

impl fmt::Display for Document<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for stanza in self.stanzas() {
            if let Some(name) = stanza.name() {
                writeln!(f, "[{name}]")?;
            }
            for setting in stanza.settings() {
                print(f, &setting)?;
            }
        }
        Ok(())
    }
}

fn print(f: &mut fmt::Formatter<'_>, setting: &Setting<'_>) -> fmt::Result {
    write_lines(f, setting.key)?;
    // A space before the value keeps a header's bracket at the end of a line from closing this one.
    let value = setting.value;
    match (value.is_empty(), looks_like_header(setting)) {
        (true, _) => f.write_str(" =")?,
        (false, true) => f.write_str(" = \\\n")?,
        (false, false) => f.write_str(" = ")?,
    }
    write_lines(f, value)?;
    // A backslash at the very end is data only when a continuation to nothing follows it.
    if value.ends_with('\\') { f.write_str("\\\n\n") } else { f.write_str("\n") }
}

fn write_lines(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let mut lines = text.split('\n');
    f.write_str(lines.next().unwrap_or_default())?;
    for line in lines {
        f.write_str("\\\n")?;
        f.write_str(line)?;
    }
    Ok(())
}

/// On one line, `[a = b]` would be read as a header; a line end inside makes it a setting again.
fn looks_like_header(setting: &Setting<'_>) -> bool {
    trim_start(setting.key).starts_with('[') && trim_end(setting.value).ends_with(']')
}
