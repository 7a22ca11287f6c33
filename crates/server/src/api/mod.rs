//! The routes, a file for each noun. Each file has its rows of the table, and the handlers that they name.

pub mod audit;
pub mod change;
pub mod data;
pub mod events;
pub mod filter;
pub mod groups;
pub mod health;
pub mod heatmap;
pub mod holds;
pub mod login;
pub mod metrics;
pub mod openapi;
pub mod operations;
pub mod outside;
pub mod partitions;
pub mod plans;
pub mod problems;
pub mod runs;
pub mod state;
pub mod status;
pub mod submit;
pub mod upload;
pub mod uploads;
pub mod worker;
