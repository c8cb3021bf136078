//! The hooks, by subject.
mod aliases;
mod birth;
mod epoll;
mod file;
mod fortify;
pub(crate) mod io;
pub(crate) mod life;
mod messages;
mod msg;
mod mux;
mod opt;
pub(crate) mod process;
mod setup;
mod signal;
mod spawn;
pub(crate) mod stdio;
mod syscall;
mod uring;
