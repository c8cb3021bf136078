//! The hooks, by subject.
mod aliases;
mod birth;
mod epoll;
mod file;
mod fortify;
mod io;
mod life;
mod msg;
mod mux;
mod opt;
mod process;
mod setup;
