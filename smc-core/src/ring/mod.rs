//! The ring: one per direction of a connection, filled by one side, drained by the other.
//!
//! ```text
//!          offset 0                                                    size
//!          |      already taken      |   data    |        free          |
//! ring     +-------------------------+-----------+----------------------+
//!                          published cons  pos   prod               (all positions & (size - 1))
//!
//! producer's line:  prod  base  flags.WRITE_BLOCKED       written by the producer's side alone
//! consumer's line:  cons                                  written by the consumer's side alone
//! ```
//!
//! Each side keeps its own position, and the last valid one of the other, in a half of its own
//! ([`TxHalf`], [`RxHalf`]) that the peer cannot reach; all who use a half hold the lock of that
//! direction. What the peer publishes is read once, checked ([`cursor`]) and only then used; if it
//! breaks the rules the call fails with a [`Violation`] and the caller resets the connection. The
//! bytes are only ever copied; offsets are masked by the private size, so that no value whatever
//! leads outside of the ring.
//!
//! Invariants, in distances: `published cons <= pos of the consumer <= prod`, and
//! `prod - published cons <= size`.
//!
//! # New laps
//!
//! A producer that finds the ring empty, and its position past the first 2 KiB of the ring, skips
//! to offset 0: it stores the start of the next lap as `base`, counts everything before it as
//! taken, and goes on there. Requests and replies so stay in the same page of each ring, warm in
//! the cache, and an idle connection holds no more than it. A consumer that has nothing left and
//! finds news in `prod` goes on at `base` if that is ahead.
//!
//! Can it pair a position with the wrong base? *An older one*: no, the base is stored before the
//! position whose Release store the consumer has acquired. *A newer one*: the producer skips at
//! position P only when the consumer has published P. A consumer that reads `base` stands before
//! the position that it has just read, so it has not published that one nor any after it, and the
//! producer has not skipped since. (With no news in `prod` it does not look at `base`, which may
//! then be newer.) And the producer, for which the published `cons` now lies behind its own base,
//! takes an unchanged word for no news.
//!
//! # Window thrift, and why a blocked producer is never forgotten
//!
//! The consumer publishes its position when the ring becomes empty, and otherwise only after each
//! quarter of the ring. Of these only the latter, a *check*, has a fence and a look whether the
//! producer waits; so small messages pay for neither. This is enough:
//!
//! - A producer waits only if it sees less than W <= size / 4 free ([`Producer::low_water`]), and it
//!   looks again after it has set [`WRITE_BLOCKED`] and passed a fence.
//! - Let q be the consumer's last check whose fence comes before that one. The second look sees at
//!   least q; so with its position at P, P - q > size * 3 / 4. The next check comes at the first
//!   read that ends at or past q + size / 4: before the consumer has drained even half.
//! - That check's fence comes after the producer's: it sees the flag, and P. If a quarter is free
//!   it tells ([`Consumer::publish_cons`] returns true); if not, it moves the next check to where a
//!   quarter is. There are more than three quarters to read yet: that check will come.
//! - Woken with a quarter free the producer has what it waits for. It clears the flag itself.
//!
//! So a producer that sleeps is told, at the latest, when half of the ring has been drained.
//!
//! # Memory order
//!
//! | what                    | stored by                      | read by                      | so that |
//! |-------------------------|--------------------------------|------------------------------|---------|
//! | `prod`                  | `Producer::commit`, Release    | `Consumer::refresh`, Acquire | payload and base are there |
//! | `base`                  | `Producer::restart`, Relaxed   | `Consumer::refresh`, Relaxed | ordered by `prod` |
//! | `cons`                  | `Consumer::publish_*`, Release | `Producer::refresh`, Acquire | reads end before we overwrite |
//! | `WRITE_BLOCKED`         | `Producer::mark_blocked`, Release | `Consumer::publish_fenced`, Acquire | P is known with it |
//! | `WRITE_BLOCKED`, `cons` | fence in `mark_blocked`        | fence in `publish_fenced`    | one side sees the other |
//! | news and sleepers       | fences in [`doorbell`]         |                              | see there |
//!
//! [`WRITE_BLOCKED`]: crate::shm::layout::flags::WRITE_BLOCKED
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
