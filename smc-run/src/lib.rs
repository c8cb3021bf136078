//! The tools around the library: `smc-run` starts a program with it, `smc-ss` shows what it does.
#![warn(missing_docs)]

pub mod check;
pub mod cli;
pub mod devices;
pub mod documents;
pub mod elf;
pub mod inherited;
pub mod launch;
pub mod library;
pub mod program;
pub mod ss;
pub mod stats_reader;
mod table;
