//! What can be wrong with a message.
use core::fmt;

use crate::wire::field::{NoRoom, Truncated};

/// The defect of a message that was not accepted, or could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClcError {
    /// The bytes end before the message does.
    Truncated,
    /// The output is too short.
    NoRoom,
    /// The first four bytes are no eyecatcher, or that of the other mode.
    Eyecatcher,
    /// The last four bytes do not repeat the eyecatcher.
    Trailer,
    /// The message is of another type than was asked for.
    Kind(u8),
    /// The length field does not fit the type, or what is within.
    Length(u16),
    /// A version of the protocol that is not known.
    Version(u8),
    /// The mode bits contradict the eyecatcher, or the areas that are present.
    Mode,
    /// An area is said to lie outside the message, or within another area.
    Offset(u16),
    /// More entries than the protocol allows.
    Count(u8),
    /// A field holds what its type does not allow.
    Value,
    /// A byte that must be zero is not.
    Reserved,
}

impl fmt::Display for ClcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated => f.write_str("message cut short"),
            Self::NoRoom => f.write_str("no room for the message"),
            Self::Eyecatcher => f.write_str("wrong eyecatcher"),
            Self::Trailer => f.write_str("wrong trailer"),
            Self::Kind(kind) => write!(f, "unexpected message type {kind}"),
            Self::Length(length) => write!(f, "wrong length {length}"),
            Self::Version(version) => write!(f, "unknown version {version}"),
            Self::Mode => f.write_str("contradictory mode"),
            Self::Offset(offset) => write!(f, "area at wrong offset {offset}"),
            Self::Count(count) => write!(f, "too many entries: {count}"),
            Self::Value => f.write_str("field out of range"),
            Self::Reserved => f.write_str("reserved byte in use"),
        }
    }
}

impl core::error::Error for ClcError {}

impl From<Truncated> for ClcError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

impl From<NoRoom> for ClcError {
    fn from(_: NoRoom) -> Self {
        Self::NoRoom
    }
}
