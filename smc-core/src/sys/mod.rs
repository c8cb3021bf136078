//! System calls and memory: the only part of the engine that is not safe Rust.
//!
//! What never blocks goes to the kernel by a raw system call ([`raw`]): no PLT (our own hooks would
//! be called), no `errno`, no cancellation point. What blocks on the program's behalf goes through
//! the real libc functions ([`real`]), which are cancellation points.
pub mod clock;
pub mod diag;
pub mod mem;
pub mod raw;
pub mod real;
pub mod scm;
