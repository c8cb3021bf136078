//! System calls and memory: the only part of the engine that is not safe Rust.
//!
//! What never blocks goes to the kernel by a raw system call ([`raw`]): no PLT (our own hooks would
//! be called), no `errno`, no cancellation point. What blocks on the program's behalf goes through
//! the real libc functions ([`real`]), which are cancellation points.
#[cfg(not(loom))]
pub mod clock;
pub mod copy;
#[cfg(not(loom))]
pub mod diag;
#[cfg(not(loom))]
pub mod growth;
#[cfg(not(loom))]
pub mod inherit;
#[cfg(not(loom))]
mod inq;
#[cfg(not(loom))]
pub mod iov;
#[cfg(not(loom))]
pub mod limits;
#[cfg(not(loom))]
pub mod lock;
#[cfg(not(loom))]
pub mod mem;
#[cfg(not(loom))]
pub mod program;
#[cfg(not(loom))]
pub mod raw;
#[cfg(not(loom))]
pub mod real;
#[cfg(not(loom))]
pub mod scm;
#[cfg(not(loom))]
pub mod signals;
#[cfg(not(loom))]
pub mod tcp;
#[cfg(not(loom))]
pub mod thread;
