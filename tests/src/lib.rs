//! The differential test suite.
//!
//! Every test runs a small program, a *case*, several times: bare, with both ends under `smc-run`,
//! with one end only, and with fallback forced. The program cannot tell the difference except by
//! speed, so its transcript, exit status and diagnostics must be the same each time; and where both
//! ends were accelerated, the statistics must prove that it was so.
//!
//! The case programs live in `src/bin` (Rust, calling libc directly) and in `c` (where the choice
//! of libc symbols or of the linker matters). `harness` holds both halves: [`harness::Case`] for
//! the tests, and the thin libc wrappers in [`harness::net`], [`harness::ready`] and
//! [`harness::process`] for the programs.
#![allow(clippy::unwrap_used, clippy::panic)]
// `libc_call!` stands in for an `unsafe` block of each case program; its text says for which calls.
#![allow(clippy::macro_metavars_in_unsafe)]

pub mod apps;
pub mod harness;
pub mod load;
pub mod puppet;
pub mod soak;
