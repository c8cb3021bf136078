//! Memory that another process can write at any time.
//!
//! Two laws. No reference to payload bytes is ever made: they are copied in and out through raw
//! pointers ([`crate::sys::copy`]). And every control word is an atomic, read once into a local and
//! validated there before it is used; sizes and offsets come from the private copy of the
//! geometry, never from the region.
pub mod layout;
