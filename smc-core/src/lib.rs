//! The engine of smc-run: everything but the C symbols.
//!
//! `DESIGN.md` beside this crate tells the whole; the layers, each of which may use only those
//! below it, are
//!
//! ```text
//! engine                    what the hooks call
//! summary                   the line that a process leaves at its end
//! poll                      epoll, poll and select over rings and the kernel
//! conn                      one connection: handshake, send, receive, close, waiting
//! transport                 rings between two processes, behind three traits
//! arena                     records that the processes of a fork family share
//! proto                     state machines without I/O
//! ring  | wire              cursors and bells          | CLC messages
//! shm   | fdtable           what two processes share   | what a descriptor number is to us
//! sys                       system calls, memory
//! sync                      atomics and the lock
//! ```
//!
//! Beside them stand `process`, the object that holds what this process has and that the layers
//! from `conn` up share, and the leaves `config`, `errno`, `reason` and `log`.
#![warn(missing_docs)]

pub mod ring;
pub mod shm;
pub mod sync;
pub mod sys;

/// What is not model-checked is not there under loom, whose atomics no static can hold.
macro_rules! unless_loom {
    ($($(#[$doc:meta])* $vis:vis mod $name:ident;)+) => {
        $(#[cfg(not(loom))] $(#[$doc])* $vis mod $name;)+
    };
}

unless_loom! {
    pub mod arena;
    pub mod config;
    mod conn;
    pub mod engine;
    pub mod errno;
    mod fdtable;
    pub mod log;
    mod poll;
    mod process;
    pub mod proto;
    mod summary;
    pub mod reason;
    mod transport;
    pub mod wire;
}
