//! Real programs, run bare or under `smc-run`, and what their statistics prove.
//!
//! The application tests and the benchmarks share it: both start a server, wait until it
//! listens, run a client to its end, stop the server so that it writes its summary, and read how
//! many bytes went through the ring.
pub mod artefacts;
mod failure;
mod launch;
pub mod netns;
pub mod nginx;
mod proof;
mod running;
mod scratch;
pub mod wait;

pub use failure::{Failure, Result};
pub use launch::{Launch, Output};
pub use proof::Proof;
pub use running::Running;
pub use scratch::Scratch;
