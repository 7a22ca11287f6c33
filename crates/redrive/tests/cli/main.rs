//! The program as its users meet it: what it prints, where, what it ends with, and what it leaves behind.

#![expect(clippy::unwrap_used, reason = "a test ends where its preparation fails")]

mod absent;
mod attempt;
mod bench;
mod completions;
mod configuration;
mod doctor;
mod every_key;
mod folder;
mod help;
mod home;
mod init;
mod migrate;
mod mistakes;
mod special_files;
mod stdout;
mod unavailable;
