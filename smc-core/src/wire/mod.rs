//! The formats of messages.
//!
//! Contract of every message type here: `parse` takes any bytes and never panics; `emit` writes
//! into a slice, fails when it is too short and never panics; what `parse` accepts of what `emit`
//! wrote is equal to what was given to `emit`. Nothing here allocates, knows the time or does I/O.
#![forbid(unsafe_code)]

pub mod clc;
pub mod control;
pub mod field;
