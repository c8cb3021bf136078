//! The engine of smc-run: everything but the C symbols.
//!
//! `DESIGN.md` beside this crate tells the whole; the layers, each of which may use only those
//! below it, are
//!
//! ```text
//! engine
//! poll                      epoll, poll and select over rings and the kernel
//! conn                      one connection: handshake, send, receive, close, waiting
//! proto | transport         state machines without I/O | rings between two processes
//! ring  | wire              cursors and bells          | CLC messages
//! shm                       what two processes share
//! sys                       system calls, memory
//! sync                      atomics and the lock
//! ```
#![warn(missing_docs)]

pub mod config;
pub mod engine;
pub mod errno;
// A static holds its atomics, which loom's cannot be.
#[cfg(not(loom))]
pub mod log;
pub mod reason;
pub mod ring;
pub mod shm;
pub mod sync;
pub mod sys;
pub mod wire;
