//! The ring: one per direction of a connection, filled by one side, drained by the other.
mod consumer;
pub mod cursor;
pub mod doorbell;
mod mem;
mod producer;

pub use consumer::{Consumer, RxHalf};
pub use mem::{RingMem, MIN_SIZE};
pub use producer::{Producer, TxHalf};

#[cfg(not(loom))]
pub use mem::Piece;

use crate::sys::copy::Fault;

/// The peer published a position that no honest peer can: the connection is to be reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The producer's: behind what it said before, or beyond the ring.
    #[error("the peer's producer position breaks the rules")]
    Prod,
    /// The consumer's: behind what it said before, or ahead of the data.
    #[error("the peer's consumer position breaks the rules")]
    Cons,
}

impl Violation {
    #[cold]
    fn prod() -> Self {
        Self::Prod
    }

    #[cold]
    fn cons() -> Self {
        Self::Cons
    }
}

/// Why nothing was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// The peer broke the rules: ECONNRESET.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The program's buffer is not there: EFAULT.
    #[error(transparent)]
    Fault(#[from] Fault),
}
