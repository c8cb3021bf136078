//! Readiness of many descriptors: rings and the kernel's in one answer.
//!
//! ```text
//! epoll      the instances of this process, and what a change of a connection means to them
//! instance   one instance: its hidden inner epoll and its bell
//! registry   what is registered in it, and which of it is ready
//! epoll_wait waiting on one
//! set        poll and select, which lower to the same function
//! ```
mod collect;
mod epoll;
mod epoll_wait;
mod held;
mod instance;
mod registration;
mod registry;
pub(crate) mod set;

pub(crate) use epoll::Epolls;
pub(crate) use epoll_wait::wait as epoll_wait;
