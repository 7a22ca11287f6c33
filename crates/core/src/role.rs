//! What a token stands for.

use crate::word::words;

words!(
    /// What the holder of a token may do; the server's table of routes says what each may call.
    Role, "role" {
        /// Reads, but neither payloads nor raw data.
        Viewer = "viewer",
        /// Reads everything and acts.
        Operator = "operator",
        /// Also tokens, holds of whole sources, and what needs force.
        Admin = "admin",
        /// Claims runs and says what became of them, and nothing else.
        Worker = "worker",
    }
);
