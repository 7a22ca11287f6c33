//! Commands of this program as a shell reads them: words are quoted where it would split them.

/// This process's command line as it could be given again.
pub fn command_line() -> String {
    command(own_words())
}

/// The same without an option and its value.
pub fn command_line_without(option: &str) -> String {
    let mut words = own_words();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word.strip_prefix(option) {
            Some("") => drop(words.next()),
            Some(value) if value.starts_with('=') => {}
            Some(_) | None => kept.push(word),
        }
    }
    command(kept)
}

/// `redrive` with these words.
pub fn command(words: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| quoted(word.as_ref())).collect();
    format!("redrive {}", words.join(" "))
}

fn own_words() -> impl Iterator<Item = String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned())
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=.,:/@%+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
