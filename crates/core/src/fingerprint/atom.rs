//! A run of letters, digits and what joins them: a word that stays, or something that differs from try to try.

use super::template::{Hole, Last, Template};
use super::words::{CALENDAR, CODE_HEADS, CODED, DOMAINS, IDS, NOUNS, NUMBERED, REASONS, UNITS, ZONES, has};

/// The longest word that is kept.
const MAX_WORD: usize = 80;

/// The longest run that is taken apart, unless it is an address or a path.
const MAX_RUN: usize = 200;

/// The bytes of the run at the beginning of a text, without what only ends a sentence. There is one letter at least.
pub(super) fn width(text: &str) -> usize {
    let mut end = 0;
    for (at, letter) in text.char_indices() {
        let next = at + letter.len_utf8();
        let joins = match letter {
            letter if letter.is_alphanumeric() => {
                end = next;
                continue;
            }
            // An apostrophe joins only two letters.
            '\'' => at == end && text[next..].starts_with(char::is_alphanumeric),
            letter => matches!(
                letter,
                '_' | '-' | '.' | ':' | '/' | '@' | '%' | '+' | '=' | '~' | '&' | '?' | '#' | '*' | '$'
            ),
        };
        if !joins {
            break;
        }
    }
    end
}

pub(super) fn introduces_name(word: &str) -> bool {
    has(&NOUNS, word)
}

/// Writes a run. `after` is the text behind it; `in_object` says that it stands in JSON.
pub(super) fn write(run: &str, after: &str, in_object: bool, own: &[&str], out: &mut Template) {
    if let Some(start) = run.find("://") {
        let before = run[..start].trim_end_matches(|c: char| c.is_ascii_alphanumeric());
        let name = before.trim_end_matches(|c: char| !c.is_alphanumeric());
        if !name.is_empty() {
            write(name, "", in_object, own, out);
        }
        mark_all(&before[name.len()..], out);
        return address(&run[start + 3..], own, out);
    }
    if let Some(version) = run.strip_prefix("HTTP/") {
        out.word("HTTP");
        // `HTTP/1.1 503`: what follows the version is the status.
        if version.contains('/') {
            path(version, own, out);
        }
        return;
    }
    if is_moment(run) {
        return moment(run, after, out);
    }
    if run.contains('@') && run.contains('.') {
        return out.hole(Hole::Address);
    }
    let colon = run.find(":/").filter(|at| *at > 0 && *at <= MAX_WORD);
    if let Some(at) = colon {
        return pair(run, at, after, in_object, own, out);
    }
    if run.contains('/') {
        return path(run, own, out);
    }
    if run.len() > MAX_RUN {
        return out.hole(Hole::Id);
    }
    if let Some(at) = run.find(['=', ':']).filter(|at| *at > 0) {
        return pair(run, at, after, in_object, own, out);
    }
    atom(run, after, in_object, out);
}

fn mark_all(marks: &str, out: &mut Template) {
    marks.chars().for_each(|mark| out.mark(mark));
}

/// `name=value`, `name:value`, a host with its port, an address with colons.
fn pair(run: &str, at: usize, after: &str, in_object: bool, own: &[&str], out: &mut Template) {
    let (name, value) = (&run[..at], &run[at + 1..]);
    let value = value.trim_start_matches(['=', ':', '*', '#', '&', '?', '~', '$', '%', '+', '-', '.', '_', '@']);
    let is_port = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    if is_port && run.as_bytes()[at] == b':' && (name.contains('.') || name == "localhost") {
        return out.hole(Hole::Address);
    }
    let colons = run.bytes().filter(|byte| *byte == b':').count();
    if colons > 1 && run.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':') {
        return out.hole(Hole::Address);
    }
    atom(name, "", in_object, out);
    mark_all(&run[at..=at], out);
    if own.contains(&value) {
        out.hole(Hole::Key);
    } else if !value.is_empty() {
        write(value, after, in_object, own, out);
    }
}

/// A host and a path; the query is left out.
fn address(rest: &str, own: &[&str], out: &mut Template) {
    out.hole(Hole::Address);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    if let Some(start) = rest.find('/') {
        path(&rest[start..], own, out);
    }
}

/// The names of a path that are the same every time; below folders for what comes and goes, none.
fn path(path: &str, own: &[&str], out: &mut Template) {
    let mut passing = false;
    for (number, name) in path.split('/').enumerate() {
        if number > 0 {
            out.mark('/');
        }
        let bare = name.trim_matches(|c: char| !c.is_alphanumeric());
        if bare.is_empty() {
            continue;
        }
        if passing || is_passing_name(bare) {
            out.hole(Hole::Id);
        } else if own.contains(&name) || own.contains(&bare) {
            out.hole(Hole::Key);
        } else if is_version(bare) {
            out.word("v");
            out.hole(Hole::Number);
        } else if let Some((file, _)) =
            bare.split_once(':').filter(|(_, place)| place.starts_with(|c: char| c.is_ascii_digit()))
        {
            if is_passing_name(file) {
                out.hole(Hole::Id)
            } else {
                out.word(file)
            }
            out.mark(':');
            out.hole(Hole::Number);
        } else {
            out.word(bare);
        }
        passing |= matches!(bare, "tmp" | "proc" | "home" | "Users" | "shm");
    }
}

/// Whether a part of a path differs from try to try.
fn is_passing_name(name: &str) -> bool {
    let digits = name.bytes().any(|byte| byte.is_ascii_digit());
    let place = name.split_once(':').is_some_and(|(file, place)| {
        place.starts_with(|c: char| c.is_ascii_digit()) && !file.bytes().any(|byte| byte.is_ascii_digit())
    });
    digits && !is_version(name) && !is_numbered_name(name) && !place
        || name.contains('%')
        || name.len() > MAX_WORD
        || is_random(name)
}

/// `v2`
fn is_version(name: &str) -> bool {
    name.strip_prefix('v').is_some_and(is_digits)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Digits, and what stands between them in dates, times, versions and addresses.
fn is_moment(run: &str) -> bool {
    let byte_fits =
        |byte: u8| byte.is_ascii_digit() || matches!(byte, b'-' | b':' | b'/' | b'.' | b'+' | b'T' | b'Z' | b'%');
    run.as_bytes().first().is_some_and(u8::is_ascii_digit) && run.bytes().all(byte_fits)
}

fn moment(run: &str, after: &str, out: &mut Template) {
    if is_digits(run) {
        return number(run, after, out);
    }
    let count = |wanted: u8| run.bytes().filter(|byte| *byte == wanted).count();
    let hole = if count(b'.') == 3 && count(b'-') == 0 {
        Hole::Address
    } else if count(b':') > 0 || count(b'-') == 2 || count(b'/') == 2 {
        Hole::Time
    } else {
        Hole::Number
    };
    out.hole(hole);
}

/// A number: kept where it says what went wrong, folded otherwise.
fn number(digits: &str, after: &str, out: &mut Template) {
    let near = out.marks().chars().all(|mark| matches!(mark, ' ' | ':' | '=' | '[' | '(' | '#' | '-'));
    let word = out.last_word().filter(|_| near).unwrap_or_default();
    let coded = has(&CODED, word);
    let is_status = digits.len() == 3 && matches!(digits.as_bytes()[0], b'4' | b'5');
    let ends_in_error = word.len() >= 5
        && word.is_char_boundary(word.len() - 5)
        && word[word.len() - 5..].eq_ignore_ascii_case("error");
    let of_error =
        ends_in_error && (is_status || out.written().ends_with("os error") || (3..=5).contains(&digits.len()));
    let next = after.trim_start();
    let reason = next.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let with_reason = is_status && after.len() == next.len() + 1 && REASONS.contains(&reason);
    if (coded && digits.len() <= 6) || of_error || with_reason {
        out.word(digits);
    } else {
        out.hole(Hole::Number);
    }
}

/// A run without slashes, colons and equal signs.
fn atom(run: &str, after: &str, in_object: bool, out: &mut Template) {
    if is_moment(run) {
        return moment(run, after, out);
    }
    if stands_for_id(run, in_object, out) {
        return out.hole(Hole::Id);
    }
    if run.bytes().any(|byte| byte.is_ascii_digit()) { mixed(run, out) } else { letters(run, after, out) }
}

/// Whether the word before says that an id follows.
fn stands_for_id(run: &str, in_object: bool, out: &Template) -> bool {
    let Some(word) = out.last_word() else { return false };
    let tail = word.rsplit(['_', '-', '.']).next().unwrap_or(word);
    let camel = ["Id", "ID"].iter().any(|end| word.len() > 2 && word.ends_with(end));
    if !camel && !has(&IDS, tail) {
        return false;
    }
    let plain = run.bytes().all(|byte| byte.is_ascii_lowercase());
    let assigned = !out.marks().is_empty()
        && out.marks().chars().all(|mark| matches!(mark, ':' | '=' | '#' | ' '))
        && out.marks() != " ";
    match (assigned, plain) {
        (true, false) => in_object || run.len() > 3,
        (true, true) => in_object && (camel || tail.eq_ignore_ascii_case("id")),
        (false, false) => out.marks() == " " && run.len() > 5 && !is_word(run),
        (false, true) => false,
    }
}

/// Whether a run reads as a word: letters in one case, or a capital in front.
fn is_word(run: &str) -> bool {
    let rest = run.get(1..).unwrap_or_default();
    let small = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase());
    small(rest) || run.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

/// Letters alone.
fn letters(run: &str, after: &str, out: &mut Template) {
    if is_random(run) || run.len() > MAX_WORD {
        return out.hole(Hole::Id);
    }
    if is_host(run) {
        return out.hole(Hole::Address);
    }
    let beside = out.last() == Last::Hole && out.marks().chars().all(|mark| matches!(mark, ' ' | ',' | '-' | '/'));
    let before_digit = after.trim_start_matches([' ', ',', '-', '/']).starts_with(|c: char| c.is_ascii_digit());
    if CALENDAR.contains(&run) && (beside || before_digit) {
        return out.hole(Hole::Time);
    }
    let counted = out.last() == Last::Hole && matches!(out.marks(), " " | "");
    if counted && (ZONES.contains(&run) || has(&UNITS, run)) {
        return out.drop_space();
    }
    out.word(run);
}

/// Letters and digits: error codes stay, ids go, and a word with a small number keeps its letters.
fn mixed(run: &str, out: &mut Template) {
    if is_code(run) || out.last_word().is_some_and(|word| word.eq_ignore_ascii_case("sqlstate")) && run.len() == 5 {
        return out.word(run);
    }
    if is_host(run) {
        return out.hole(Hole::Address);
    }
    let part_of = |part: &str| Part::of(part);
    let parts = || run.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()).map(part_of);
    let odd =
        parts().any(|part| part == Part::Odd) || parts().filter(|part| matches!(part, Part::Numbered(_))).count() > 1;
    if odd || is_hex(run) || run.len() > MAX_WORD {
        return out.hole(Hole::Id);
    }
    let mut rest = run;
    while !rest.is_empty() {
        let width = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        match Part::of(&rest[..width]) {
            Part::Word => out.word(&rest[..width]),
            Part::Number => out.hole(Hole::Number),
            Part::Numbered(letters) => {
                out.word(&rest[..letters]);
                out.hole(Hole::Number);
            }
            Part::Odd => out.hole(Hole::Id),
        }
        rest = &rest[width..];
        if let Some(mark) = rest.chars().next() {
            out.mark(mark);
            rest = &rest[mark.len_utf8()..];
        }
    }
}

/// What a run is made of, between its joints.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Word,
    Number,
    /// So many bytes of letters, and a small number: `utf8`, `host12`.
    Numbered(usize),
    Odd,
}

impl Part {
    fn of(part: &str) -> Self {
        let letters = part.find(|c: char| c.is_ascii_digit()).unwrap_or(part.len());
        let digits = &part[letters..];
        if letters == part.len() || is_numbered_name(part) {
            return if is_random(part) { Self::Odd } else { Self::Word };
        }
        // Of ids in base 16 some have no letter by chance, or one that is a unit, and must not stand apart from the others.
        if part.len() >= 8 && letters < part.len() && part.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Self::Odd;
        }
        if letters == 0 {
            let unit = part.trim_start_matches(|c: char| c.is_ascii_digit());
            let known = unit.is_empty() || has(&UNITS, unit) || is_spans(part);
            return if known || part.len() <= 4 && unit.len() <= 2 { Self::Number } else { Self::Odd };
        }
        let small = is_digits(digits) && digits.len() <= 3 && !is_random(&part[..letters]);
        if small && digits.len() <= 2 { Self::Numbered(letters) } else { Self::Odd }
    }
}

fn is_numbered_name(word: &str) -> bool {
    let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
    has(&NUMBERED, letters) && word.len() - letters.len() <= 3
}

/// `1h2m3s`
fn is_spans(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let after = number.trim_start_matches(|c: char| !c.is_ascii_digit());
        let unit = &number[..number.len() - after.len()];
        if number.len() == rest.len() || !UNITS.contains(&unit) {
            return false;
        }
        rest = after;
    }
    true
}

/// `ORA-00942`, `AADSTS700016`, `E0308`
fn is_code(run: &str) -> bool {
    let head = run.find(|c: char| !c.is_ascii_uppercase()).unwrap_or(run.len());
    let digits = run[head..].strip_prefix('-').unwrap_or(&run[head..]);
    CODE_HEADS.contains(&&run[..head]) && is_digits(digits) && (3..=7).contains(&digits.len())
}

fn is_hex(run: &str) -> bool {
    let digits = run.strip_prefix("0x").unwrap_or(run);
    let long = digits.len() >= 6 || digits.len() < run.len();
    long && digits.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

fn is_host(run: &str) -> bool {
    let Some((rest, last)) = run.rsplit_once('.') else { return false };
    DOMAINS.contains(&last) && !rest.bytes().any(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

/// Whether letters alone look like an id: hexadecimal, or capitals where no word would have them.
fn is_random(run: &str) -> bool {
    if run.len() >= 8 && run.bytes().all(|byte| matches!(byte, b'a'..=b'f' | b'A'..=b'F')) {
        return true;
    }
    if run.len() < 12 || !run.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return false;
    }
    let bytes = run.as_bytes();
    let turns = bytes.windows(2).filter(|pair| pair[0].is_ascii_lowercase() != pair[1].is_ascii_lowercase()).count();
    turns * 5 > run.len() * 2 || turns > 2 && unspeakable(bytes)
}

/// Five consonants in a row, as no word has them.
fn unspeakable(letters: &[u8]) -> bool {
    let soft = |byte: &u8| !byte.is_ascii_lowercase() || matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u' | b'y');
    letters.split(soft).any(|consonants| consonants.len() >= 5)
}
