//! A template while it is written: words, holes, and what stands between them.

/// What folded parts are shown as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hole {
    Number,
    Id,
    Time,
    Address,
    Key,
    Text,
}

pub(super) const OPEN: u8 = b'<';
pub(super) const CLOSE: u8 = b'>';

/// Templates end here, in tokens and in bytes. What a cause has to say, it says at once; and a message that was cut has
/// the same beginning as one that was not.
const MAX_TOKENS: usize = 40;
const MAX_BYTES: usize = 400;
const MAX_MARKS: usize = 6;

impl Hole {
    pub(super) const ALL: [Self; 6] = [Self::Number, Self::Id, Self::Time, Self::Address, Self::Key, Self::Text];

    pub(super) const fn shown(self) -> &'static str {
        match self {
            Self::Number => "<n>",
            Self::Id => "<id>",
            Self::Time => "<time>",
            Self::Address => "<address>",
            Self::Key => "<key>",
            Self::Text => "<text>",
        }
    }
}

/// What the last token was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    Nothing,
    /// It begins here in the text.
    Word(usize),
    Hole,
}

#[derive(Debug)]
pub(super) struct Template {
    text: String,
    /// What has come since the last token: written when another one follows.
    marks: String,
    last: Last,
    tokens: usize,
}

impl Template {
    pub(super) fn new(room: usize) -> Self {
        let text = String::with_capacity(room.min(MAX_BYTES));
        Self { text, marks: String::with_capacity(MAX_MARKS * 2), last: Last::Nothing, tokens: 0 }
    }

    pub(super) fn is_full(&self) -> bool {
        self.tokens >= MAX_TOKENS || self.text.len() >= MAX_BYTES
    }

    pub(super) fn last(&self) -> Last {
        self.last
    }

    /// The last token where it is a word.
    pub(super) fn last_word(&self) -> Option<&str> {
        match self.last {
            Last::Word(start) => self.text.get(start..),
            Last::Nothing | Last::Hole => None,
        }
    }

    /// What is written, without what may follow the last token.
    pub(super) fn written(&self) -> &str {
        &self.text
    }

    pub(super) fn marks(&self) -> &str {
        &self.marks
    }

    pub(super) fn mark(&mut self, mark: char) {
        // A hole's own signs are never written for anything else.
        let mark = if matches!(mark, '<' | '>') || mark.is_whitespace() || mark.is_control() { ' ' } else { mark };
        let repeats = self.marks.ends_with(mark) && !matches!(mark, '}' | ']' | ')');
        if !repeats && self.marks.chars().count() < MAX_MARKS {
            self.marks.push(mark);
        }
    }

    /// Takes back the space in front of a word that is left out.
    pub(super) fn drop_space(&mut self) {
        self.marks.clear();
    }

    pub(super) fn word(&mut self, word: &str) {
        if self.is_full() {
            return;
        }
        self.flush();
        self.last = Last::Word(self.text.len());
        self.text.push_str(word);
        self.tokens += 1;
    }

    /// Writes a hole. Two with little between them are one: a list is as long as it happens to be, and an id has as many
    /// parts as it likes.
    pub(super) fn hole(&mut self, hole: Hole) {
        let light = |mark: char| matches!(mark, ' ' | ',' | ':' | '-' | '/' | '.' | '+' | '_' | '=' | '#' | '&' | '*');
        if self.last == Last::Hole && self.marks.chars().all(light) {
            self.marks.clear();
            return;
        }
        if self.is_full() {
            return;
        }
        self.flush();
        self.last = Last::Hole;
        self.text.push_str(hole.shown());
        self.tokens += 1;
    }

    fn flush(&mut self) {
        if self.last == Last::Nothing {
            let opened = self.marks.trim_start_matches(|mark| !matches!(mark, '(' | '[' | '{'));
            self.text.push_str(opened);
        } else {
            self.text.push_str(&self.marks);
        }
        self.marks.clear();
    }

    pub(super) fn finish(mut self) -> String {
        let closing = |mark: &char| matches!(mark, ')' | ']' | '}');
        if !self.is_full() {
            self.text.extend(self.marks.chars().filter(closing));
        }
        self.text
    }
}
