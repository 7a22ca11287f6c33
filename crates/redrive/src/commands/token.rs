//! `redrive token`: what callers of the server sign in with. Making and revoking one is in the audit trail.

use redrive_control::shape::{CreatedTokenShape, TokenShape};
use redrive_core::role::Role;
use redrive_core::text::one_line;
use redrive_server::Secret;
use redrive_store::{Access, NewToken, Operation, View};
use serde_json::json;

use super::{Context, Missing, look, open};
use crate::cli::{Token, TokenCreate};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output;
use crate::output::columns::{Cell, Column};
use crate::output::listing::{Layout, Listing, Row};
use crate::output::terminal::Times;
use crate::shell::command_line;

const LONGEST_NAME: usize = 64;

static TOKENS: Layout = Layout {
    name: "tokens",
    header: &[
        Column::text("name"),
        Column::new("role"),
        Column::new("state"),
        Column::new("ends in"),
        Column::new("expires"),
        Column::new("last used"),
        Column::text("made by"),
    ],
    columns: &[
        "id",
        "name",
        "role",
        "state",
        "last_four",
        "categories",
        "created_at",
        "created_by",
        "expires_at",
        "last_used_at",
        "revoked_at",
    ],
    nothing: Some("there are no tokens; `redrive token create` makes one"),
};

impl Row for TokenShape {
    fn lines(&self, times: Times) -> Vec<Vec<Cell>> {
        vec![vec![
            Cell::new(&self.name),
            Cell::new(self.role.as_str()),
            Cell::state(self.state.as_str()),
            Cell::new(format!("…{}", self.last_four)),
            Cell::new(times.tell(self.expires_at)),
            Cell::some(self.last_used_at.map(|at| times.tell(at))),
            Cell::new(&self.created_by),
        ]]
    }
}

pub async fn run(command: &Token, context: &Context) -> Result<Exit> {
    let config = context.config()?;
    match command {
        Token::Create(args) => create(args, &open(&config, Missing::Make, context).await?.access(), context).await,
        Token::List => list(&look(&config, context).await?, context).await,
        Token::Revoke { name } => revoke(name, &open(&config, Missing::Refuse, context).await?.access(), context).await,
    }
}

async fn create(args: &TokenCreate, access: &Access, context: &Context) -> Result<Exit> {
    let (name, categories) = (name(&args.name)?, categories(args)?);
    let secret = Secret::token(args.role).map_err(|error| Error::Stopped(error.to_string()))?;
    let new = NewToken {
        name,
        role: args.role,
        last_four: secret.last_four().to_owned(),
        categories,
        expires_at: access.now().saturating_add(args.expires),
        hash: secret.hash(),
    };
    let about = json!({"token": &new.name, "role": new.role, "expires_at": new.expires_at,
        "last_four": &new.last_four, "categories": &new.categories});
    let made = access.create_token(&operation(access, &about, context), new).await?;
    let shape = CreatedTokenShape {
        token: secret.reveal().to_owned(),
        name: made.name,
        role: made.role,
        expires_at: made.expires_at,
    };
    output::one(&["token", "name", "role", "expires_at"], &shape, &context.global, || shape.token.clone())?;
    if !context.global.quiet {
        let CreatedTokenShape { name, role, expires_at, .. } = &shape;
        output::note(&format!("{name} is a token of the role {role} until {expires_at}; it is shown only this once"));
    }
    Ok(Exit::Done)
}

/// The name is the audit trail's word for the holder.
fn name(text: &str) -> Result<String> {
    let fits = !text.is_empty() && text.len() <= LONGEST_NAME && one_line(text) == text && text.trim() == text;
    match fits {
        true => Ok(text.to_owned()),
        false => {
            Err(Error::Usage(format!("--name {text:?} cannot be a name; give 1 to {LONGEST_NAME} bytes in one line")))
        }
    }
}

fn categories(args: &TokenCreate) -> Result<Option<Vec<String>>> {
    match (args.category.is_empty(), args.role) {
        (true, _) => Ok(None),
        (false, Role::Worker) => Ok(Some(args.category.clone())),
        (false, Role::Viewer | Role::Operator | Role::Admin) => {
            Err(Error::Usage("--category limits what a worker may claim; give it with --role worker".to_owned()))
        }
    }
}

async fn list(view: &View, context: &Context) -> Result<Exit> {
    let now = view.now();
    let shapes: Vec<_> = view.tokens().await?.into_iter().map(|token| TokenShape::new(token, now)).collect();
    Listing::print_as_of(&TOKENS, &context.global, &shapes, now)?;
    Ok(if shapes.is_empty() { Exit::NothingFound } else { Exit::Done })
}

async fn revoke(name: &str, access: &Access, context: &Context) -> Result<Exit> {
    let operation = operation(access, &json!({"token": name}), context);
    match access.revoke_token(&operation, name).await {
        Ok(token) => {
            if !context.global.quiet {
                output::note(&format!("revoked {name}, which ended in {}", token.last_four));
            }
            Ok(Exit::Done)
        }
        Err(redrive_store::Error::Absent { .. }) => {
            let todo = "`redrive token list` shows those that are there";
            Err(Error::NothingFound(format!("no token that is not revoked is called {name:?}; {todo}")))
        }
        Err(error) => Err(error.into()),
    }
}

fn operation(access: &Access, about: &serde_json::Value, context: &Context) -> Operation {
    Operation {
        op_id: access.new_operation_id(),
        at: access.now(),
        actor: context.actor(),
        command: command_line(),
        filters: about.to_string(),
        flags: "{}".to_owned(),
        reason: None,
    }
}
