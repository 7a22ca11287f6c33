//! The routes, a file for each noun. Each file has its rows of the table, and the handlers that they name.

pub mod filter;
pub mod health;
pub mod holds;
pub mod login;
pub mod partitions;
pub mod problems;
pub mod runs;
pub mod status;
pub mod worker;
