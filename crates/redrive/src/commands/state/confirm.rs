//! Asking a person, who must be there to be asked.

use std::io::{IsTerminal, Write as _};

use redrive_core::safety::{Confirmation, Given, Rails, confirmation};
use redrive_core::text::one_line;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::ChangeArgs;
use crate::error::{Error, Result};

/// How many sources, and how many errors, a question names.
pub const MOST: usize = 3;

/// What an operator is asked.
#[derive(Debug)]
pub struct Question<'a> {
    pub verb: &'a str,
    pub count: u64,
    pub noun: &'a str,
    /// Of whom, which days, which errors; a line each.
    pub about: Vec<String>,
}

impl<'a> Question<'a> {
    /// A question that names no more than a number.
    pub fn of(verb: &'a str, count: u64, noun: &'a str) -> Self {
        Self { verb, count, noun, about: vec![] }
    }

    /// What is to happen, and to whom.
    fn text(&self) -> String {
        let Self { verb, count, noun, about } = self;
        let about: String = about.iter().map(|line| format!("  {}\n", one_line(line))).collect();
        format!("{about}{verb} {count} {noun}?")
    }
}

/// Gets the yes that so many changes need, or says why there is none. Nothing has been changed by then.
pub async fn get(question: &Question<'_>, rails: Rails, args: &ChangeArgs) -> Result<()> {
    let Question { verb, count, noun, .. } = *question;
    let given = Given { yes: args.yes, force: args.force };
    match confirmation(count, rails, given) {
        Confirmation::None => Ok(()),
        Confirmation::OverLimit => Err(Error::NotConfirmed(format!(
            "{verb} would change more than {} {noun}, the hard limit; narrow the filter, or use --force",
            rails.hard_limit
        ))),
        Confirmation::YesNo => {
            let answer = ask(&format!("{} [y/N] ", question.text()), count, noun).await?;
            if matches!(answer.to_lowercase().as_str(), "y" | "yes") { Ok(()) } else { Err(declined()) }
        }
        Confirmation::TypeNumber => {
            let answer = ask(&format!("{} Type the number to go on: ", question.text()), count, noun).await?;
            if answer == count.to_string() { Ok(()) } else { Err(declined()) }
        }
    }
}

fn declined() -> Error {
    Error::NotConfirmed("not confirmed; nothing was changed".to_owned())
}

async fn ask(question: &str, count: u64, noun: &str) -> Result<String> {
    if !std::io::stdin().is_terminal() {
        let text = format!("{count} {noun} would change and there is no terminal to ask at; use --yes or --force");
        return Err(Error::NotConfirmed(text));
    }
    // Listened to before the question is shown: an operator who answers at once must not be missed.
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::io("cannot listen for signals"))?;
    let mut stderr = anstream::stderr();
    let asked = write!(stderr, "{question}").and_then(|()| stderr.flush());
    asked.map_err(Error::io("cannot ask at the terminal"))?;
    // On a thread of its own, which the command does not wait for: a Ctrl-C must end the question, and reading cannot be broken off.
    let (reply, answer) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer);
        let _ = reply.send(read.map(|_| answer));
    });
    tokio::select! {
        answer = answer => {
            let answer = answer.unwrap_or_else(|_| Ok(String::new()));
            Ok(answer.map_err(Error::io("cannot read the answer"))?.trim().to_owned())
        }
        _ = interrupt.recv() => Err(Error::Interrupted),
    }
}
