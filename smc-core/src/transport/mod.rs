//! What carries a connection once it is attached: two halves, whatever is below them.
//!
//! The contract, which `tests/transport_conformance.rs` checks of each implementation:
//!
//! - Bytes arrive once, in order, and only those that were put.
//! - `put` takes as much as fits and says how much; nothing is visible to the other side for
//!   certain before `flush`.
//! - After `block` said false, the other side wakes this one once a good part of the room is free;
//!   after `ready` said 0, once there are bytes.
//! - Nothing here waits, allocates or makes a system call, except to wake a sleeping peer.
//! - A peer that breaks the rules is a [`crate::ring::Violation`], never more.
pub(crate) mod loopback;

use crate::ring::{RingError, Violation};
use crate::sys::copy::{InBuf, OutBuf};

pub(crate) use loopback::Loopback;

/// The sending half, under the lock of its direction.
pub(crate) trait Sender {
    /// Takes as much as fits; large data is published in segments.
    fn put(&mut self, data: InBuf<'_>, segment: usize) -> Result<usize, RingError>;
    /// Publishes what was put and tells a peer that sleeps.
    fn flush(&mut self);
    /// Bytes that fit now, as far as is worth knowing: at most the low water mark is looked for.
    fn room(&mut self) -> Result<usize, Violation>;
    /// Asks to be told of room; true: there is enough already.
    fn block(&mut self) -> Result<bool, Violation>;
    /// Bytes that the peer has not taken.
    fn unread(&mut self) -> Result<usize, Violation>;
}

/// The receiving half, under the lock of its direction.
pub(crate) trait Receiver {
    /// Bytes that can be taken now; 0: none.
    fn ready(&mut self) -> Result<usize, Violation>;
    /// Takes bytes.
    fn take(&mut self, into: OutBuf<'_>) -> Result<usize, RingError>;
    /// Copies bytes after the first `skip`, and leaves them.
    fn peek(&mut self, into: OutBuf<'_>, skip: usize) -> Result<usize, RingError>;
    /// Takes bytes unseen.
    fn discard(&mut self, n: usize) -> Result<usize, Violation>;
    /// After bytes were taken: tells a peer that waits for room, when that is due.
    fn done(&mut self);
}
