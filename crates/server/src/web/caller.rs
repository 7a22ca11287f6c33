//! Who calls, and what each role may do.

use redrive_control::Audit;
pub use redrive_core::role::Role;
use redrive_store::Token;

/// Who sent a request, as far as the server is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The audit trail's name for them.
    pub actor: String,
    pub role: Role,
    /// The only categories whose jobs they may claim; none for all.
    pub categories: Option<Vec<String>>,
}

impl Caller {
    /// The holder of a token.
    pub fn of_token(token: &Token) -> Self {
        Self { actor: format!("token:{}", token.name), role: token.role, categories: token.categories.clone() }
    }

    /// What the audit trail keeps of a request of theirs.
    pub fn audit(&self, route: &str) -> Audit {
        Audit::new(&self.actor, route)
    }
}

/// The least that a route asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Also for those who are not signed in.
    Anyone,
    /// Reads without payloads and raw data.
    Viewer,
    /// Payloads, raw data, and changes.
    Operator,
    Admin,
    /// What workers in other languages call.
    Worker,
}

impl Access {
    /// The table of roles.
    pub fn admits(self, role: Role) -> bool {
        match (self, role) {
            (Self::Anyone, _) | (_, Role::Admin) => true,
            (Self::Viewer, Role::Viewer | Role::Operator) | (Self::Operator, Role::Operator) => true,
            (Self::Worker, Role::Worker) => true,
            (Self::Viewer | Self::Operator | Self::Admin, Role::Worker) => false,
            (Self::Operator | Self::Admin | Self::Worker, Role::Viewer) => false,
            (Self::Admin | Self::Worker, Role::Operator) => false,
        }
    }

    /// The least role that is admitted, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anyone => "anyone",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
            Self::Worker => "worker",
        }
    }
}
