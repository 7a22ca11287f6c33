//! From a message to its template: one pass over the characters, which finds quotes, markup, objects and runs of
//! letters and digits. What a run is, [`atom`](super::atom) says.

use super::atom;
use super::stack;
use super::template::{Hole, Template};
use crate::text::ELLIPSIS;

/// How far a tag of a markup language may reach.
const MAX_TAG: usize = 300;

/// Two are enough for almost everything. The bound is for texts that were made to need more.
const MAX_PASSES: usize = 8;

/// Folds a message until there is nothing more to fold: what a hole brought together may read otherwise than before.
pub(super) fn template(message: &str, own: &[&str]) -> String {
    let mut template = once(message, own);
    for _ in 0..MAX_PASSES {
        let next = once(&template, own);
        if next == template {
            break;
        }
        template = next;
    }
    template
}

fn once(message: &str, own: &[&str]) -> String {
    let mut template = Template::new(message.len());
    for line in stack::telling(message) {
        Fold { rest: line, before: ' ', objects: 0, unclosed: Vec::new(), own, template: &mut template }.run();
        template.mark(' ');
    }
    template.finish()
}

struct Fold<'a, 'b> {
    rest: &'a str,
    /// The character before the rest that is no white space.
    before: char,
    /// How many objects of JSON, or of a language that writes them like it, are open.
    objects: u32,
    /// Quotes that close nowhere in the rest.
    unclosed: Vec<char>,
    own: &'b [&'b str],
    template: &'b mut Template,
}

impl<'a> Fold<'a, '_> {
    fn run(&mut self) {
        while let Some(letter) = self.rest.chars().next() {
            if self.template.is_full() {
                break;
            }
            match letter {
                letter if letter.is_alphanumeric() || self.begins_path() => self.word(),
                '"' | '\'' | '`' | '“' | '‘' | '«' => self.quote(letter, letter.len_utf8()),
                '\\' => self.escape(),
                '<' => self.tag(),
                '{' => {
                    let opens = |letter| matches!(letter, '"' | '\'' | '\\' | '}');
                    if self.rest[1..].trim_start().starts_with(opens) {
                        self.objects += 1;
                    }
                    self.mark(letter);
                }
                '}' => {
                    self.objects = self.objects.saturating_sub(1);
                    self.mark(letter);
                }
                letter => self.mark(letter),
            }
        }
    }

    /// A `/` that is followed by a name.
    fn begins_path(&self) -> bool {
        self.rest.strip_prefix('/').is_some_and(|rest| rest.starts_with(|c: char| c.is_alphanumeric()))
    }

    fn skip(&mut self, bytes: usize) {
        let (gone, rest) = self.rest.split_at(bytes);
        self.before = gone.chars().rev().find(|letter| !letter.is_whitespace()).unwrap_or(self.before);
        self.rest = rest;
    }

    fn mark(&mut self, mark: char) {
        self.skip(mark.len_utf8());
        // Inside objects white space is a matter of taste. What closes a quote is left out like the quote itself.
        let taste = self.objects > 0 && mark.is_whitespace() && matches!(self.before, '{' | '[' | ':' | ',');
        if !taste {
            self.template.mark(if mark == ELLIPSIS || is_quote(mark) { ' ' } else { mark });
        }
    }

    /// A quote: part of an object's notation, or around something that is folded.
    fn quote(&mut self, quote: char, width: usize) {
        let structural = |letter: char| matches!(letter, '{' | '[' | '}' | ']' | ',' | ':');
        let inside = &self.rest[width..];
        let notation = self.objects > 0
            && (structural(self.before) || inside.trim_start().is_empty() || {
                let inside = inside.trim_start();
                inside.starts_with(structural) || inside.starts_with("\\\"}")
            });
        if notation {
            return self.skip(width);
        }
        let closes = match quote {
            '“' => '”',
            '‘' => '’',
            '«' => '»',
            quote => quote,
        };
        match self.closing(closes, inside, width > quote.len_utf8()) {
            Some(0) => self.skip(width),
            Some(end) if self.is_sentence(&inside[..end], &inside[end + closes.len_utf8()..]) => self.skip(width),
            Some(end) => {
                self.template.hole(Hole::Text);
                self.skip(width + end + closes.len_utf8());
            }
            None => self.skip(width),
        }
    }

    /// Where a quote ends: an escaped one at the next that is escaped. It is looked for once: where there is none, there
    /// is none further on.
    fn closing(&mut self, quote: char, inside: &str, escaped: bool) -> Option<usize> {
        let sought = if escaped { '\\' } else { quote };
        if self.unclosed.contains(&sought) {
            return None;
        }
        let mut from = 0;
        while let Some(found) = inside[from..].find(quote) {
            let end = from + found;
            let next = inside[end + quote.len_utf8()..].chars().next();
            // An apostrophe inside a word closes nothing.
            let joins = quote == '\'' && next.is_some_and(char::is_alphanumeric);
            if !joins && inside[..end].ends_with('\\') == escaped {
                return Some(end);
            }
            from = end + quote.len_utf8();
        }
        self.unclosed.push(sought);
        None
    }

    /// Whether a quoted text is what a server has to say: it is all that came with a status.
    fn is_sentence(&self, quoted: &str, after: &str) -> bool {
        let of_status = || self.template.written().contains(" answered ");
        self.before == ':' && after.trim().is_empty() && quoted.contains(' ') && of_status()
    }

    /// A backslash: an escaped quote is one, other escapes are white space.
    fn escape(&mut self) {
        match self.rest[1..].chars().next() {
            Some(quote @ ('"' | '\'')) => self.quote(quote, 2),
            Some('n' | 't' | 'r') => {
                self.skip(2);
                self.template.mark(' ');
            }
            Some('u') if self.rest.get(2..6).is_some_and(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit())) => {
                self.skip(6);
                self.template.mark(' ');
            }
            Some(_) | None => self.mark(' '),
        }
    }

    /// A hole that is there already, or a tag: it is left out, with what style sheets and scripts hold.
    fn tag(&mut self) {
        if let Some(hole) = Hole::ALL.into_iter().find(|hole| self.rest.starts_with(hole.shown())) {
            self.template.hole(hole);
            return self.skip(hole.shown().len());
        }
        let width = tag_width(self.rest);
        for name in ["style", "script"] {
            let opened = width > 0 && self.rest[1..].starts_with(name);
            if opened && let Some(end) = self.rest.find(&format!("</{name}")) {
                return self.skip(end);
            }
        }
        self.skip(width.max(1));
        self.template.mark(' ');
    }

    fn word(&mut self) {
        if let Some(width) = self.own_value() {
            self.template.hole(Hole::Key);
            return self.skip(width);
        }
        let width = atom::width(self.rest);
        atom::write(&self.rest[..width], &self.rest[width..], self.objects > 0, self.own, self.template);
        self.skip(width);
    }

    /// The width of a value of the work's own key that stands here. One that is a plain word is folded only where a noun
    /// says that a name follows: a query called `report` must not change every message that speaks of a report.
    fn own_value(&self) -> Option<usize> {
        let ends = |width: usize| !self.rest[width..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let found = self.own.iter().filter(|value| value.len() > 1 && self.rest.starts_with(**value));
        let found = found.filter(|value| ends(value.len())).max_by_key(|value| value.len())?;
        let plain = found.bytes().all(|byte| byte.is_ascii_lowercase());
        (!plain || self.template.last_word().is_some_and(atom::introduces_name)).then_some(found.len())
    }
}

fn is_quote(letter: char) -> bool {
    matches!(letter, '"' | '\'' | '`' | '“' | '”' | '‘' | '’' | '«' | '»')
}

/// The bytes of a tag; 0 when it is none.
fn tag_width(text: &str) -> usize {
    let inner = &text[1..];
    let name = inner.trim_start_matches(['/', '!']);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return 0;
    }
    let Some(end) = inner.bytes().take(MAX_TAG).position(|byte| byte == b'>') else { return 0 };
    // A name alone, or a name with attributes.
    let inner = &inner[..end];
    let plain = !inner.contains(char::is_whitespace);
    if plain || inner.contains('=') || inner.starts_with('!') { end + 2 } else { 0 }
}
