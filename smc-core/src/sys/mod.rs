//! System calls and memory.
pub mod copy;
