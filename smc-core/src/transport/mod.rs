//! What carries a connection once it is attached.
//!
//! A connection knows its transport by three traits and nothing else: a [`Link`], which may be
//! asked by any thread at any time, and the two halves that it makes under the lock of a
//! direction, a [`Sender`] and a [`Receiver`]. Calls are dispatched statically.
//!
//! # The contract
//!
//! `conformance` checks each line of it for every implementation.
//!
//! - *Stream.* Bytes arrive once, in order, and only those that were put.
//! - *Progress.* `put` takes as much as fits and says how much: at least one byte where `room` is
//!   not 0. It counts what it took, also where it then fails: an error means that nothing was.
//! - *Publishing.* What was put arrives after `flush`, and needs no further call of this side. It
//!   may arrive before, and late. A half that is dropped without a flush may lose it.
//! - *Waiting for bytes.* One who arms its bell, looks at `ready` (or at `Link::filled`) once more
//!   and finds nothing may sleep: the bell rings when there are bytes. Bells may ring in vain, and
//!   late, and a bell for news from before it was armed may be lost: that is what the second look
//!   is for.
//! - *Waiting for room.* The same, where `block` is the look: after it said false the bell rings
//!   once `room` is at least `enough`, by what the other side takes and tells by `done`.
//! - *Looking.* `peek`, `ready` and `queued` take nothing. `discard` takes bytes unseen.
//! - *Violations.* A peer that breaks the rules is a [`Violation`] of the call that finds it, never
//!   more. No byte comes that was not published by the rules before. The caller resets the
//!   connection.
//! - *The end.* A peer that has gone says nothing any more, and takes nothing; what it had
//!   published can still be taken.
//! - *Cost.* Nothing here waits or allocates, or makes a system call, except to wake a sleeping
//!   peer.
pub(crate) mod loopback;

#[cfg(test)]
pub(crate) mod conformance;
#[cfg(test)]
pub(crate) mod mock;

use crate::arena::{Rx, Tx};
use crate::ring::{Piece, RingError, Violation};
use crate::sys::copy::{InBuf, OutBuf};

/// One end of an attached connection.
///
/// Positions count the bytes of a direction, and laps that were skipped; they are compared for
/// being equal and nothing else.
pub(crate) trait Link: Copy {
    /// Its sending half.
    type Sender<'t>: Sender
    where
        Self: 't;
    /// Its receiving half.
    type Receiver<'t>: Receiver
    where
        Self: 't;

    /// The sending half; the state shows that its lock is held.
    fn sender<'t>(self, tx: &'t mut Tx) -> Self::Sender<'t>
    where
        Self: 't;
    /// The receiving half; the state shows that its lock is held.
    fn receiver<'t>(self, rx: &'t mut Rx) -> Self::Receiver<'t>
    where
        Self: 't;
    /// How far the peer has filled the direction that this end drains.
    fn filled(self) -> u64;
    /// How far the peer has drained the direction that this end fills.
    fn drained(self) -> u64;
    /// What the peer has said of its end; whatever it sent before that is there.
    fn peer(self) -> Peer;
    /// Whether the peer can say nothing any more.
    fn is_gone(self) -> bool;
    /// Says that this end sends nothing more here: its stream goes on elsewhere.
    fn say_back_on_tcp(self);
    /// Says that this end reads no more here, after [`Receiver::leave`], and tells a sleeping peer.
    /// What the peer says of copies afterwards is at least as new.
    fn say_left(self);
    /// Asks the peer to send elsewhere from now on; it answers by [`Peer::back_on_tcp`].
    fn say_ask_for_tcp(self);
    /// Says that this end is about to copy what the peer has not taken to TCP. Of two ends of which
    /// one says this and the other that it has left, at least one sees what the other said.
    fn say_copying(self);
    /// Says that this end is about to close and reads nothing more: what the peer has not begun to
    /// copy it does not copy. As with [`Self::say_left`], one sees what the other said.
    fn say_ending(self);
    /// Says that this end sends urgent data over TCP.
    fn say_urgent(self);
    /// Says what was copied.
    fn say_copied(self, copied: Copied);
    /// What this end has said so.
    fn said_copied(self) -> Option<Copied>;
    /// What the peer has copied; valid once it has said so.
    fn copied(self) -> Copied;
    /// Whether the peer has not taken all that was published.
    fn is_unread(self) -> bool;
}

/// What the peer has said of its end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peer {
    /// It has closed the connection.
    pub(crate) closed: bool,
    /// It has shut its sending direction down.
    pub(crate) done_writing: bool,
    /// Its stream goes on over TCP when what it put is taken.
    pub(crate) back_on_tcp: bool,
    /// It reads no more here: what it has not taken is to be sent over TCP.
    pub(crate) left: bool,
    /// It asks for what comes next to go elsewhere.
    pub(crate) asks_for_tcp: bool,
    /// It is about to say what it copies to TCP.
    pub(crate) copying: bool,
    /// It has said what it has copied.
    pub(crate) copied: bool,
    /// It is about to close.
    pub(crate) ending: bool,
    /// It has sent urgent data, over TCP.
    pub(crate) urgent: bool,
}

/// A part of the stream that is in TCP as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    /// Bytes that were written to TCP before.
    pub(crate) offset: u64,
    /// Position of its first byte, as [`Receiver::pos`] counts.
    pub(crate) start: u64,
    /// Its length.
    pub(crate) len: usize,
}

impl Copied {
    /// Nothing is copied yet. The reader has left, and gets all that it has not taken.
    pub(crate) const PROMISE: Self = Self { offset: 0, start: 0, len: usize::MAX };
}

impl Peer {
    /// Nothing more will come from it here.
    #[inline(always)]
    pub(crate) fn ended(self) -> bool {
        self.closed | self.done_writing | self.back_on_tcp
    }

    /// TCP tells of its end, or is about to.
    #[inline(always)]
    pub(crate) fn brings_end(self) -> bool {
        (self.closed | self.done_writing) & !self.back_on_tcp
    }

    /// It has asked for what this end sends, or has sent, to go elsewhere.
    #[inline(always)]
    pub(crate) fn wants_tcp(self) -> bool {
        self.left | self.asks_for_tcp
    }
}

/// The sending half, under the lock of its direction.
pub(crate) trait Sender {
    /// Takes as much as fits; large data is published in segments.
    fn put(&mut self, data: InBuf<'_>, segment: usize) -> Result<usize, RingError>;
    /// Publishes what was put and tells a peer that sleeps.
    fn flush(&mut self);
    /// Takes back what was put and is not published yet; how many bytes that were.
    fn unput(&mut self) -> usize;
    /// Memory for at most `n` bytes behind what was put, for a system call to fill.
    fn reserve(&mut self, n: usize) -> Result<[Piece; 2], Violation>;
    /// The first `n` bytes of the memory reserved last are data: publishes them, and tells.
    fn filled(&mut self, n: usize);
    /// Bytes that fit now, as far as is worth knowing: at most `enough` is looked for.
    fn room(&mut self) -> Result<usize, Violation>;
    /// The most room that a sender may wait for, and what "writable" means to poll.
    fn enough(&self) -> usize;
    /// Asks to be told of room; true: there is enough already.
    fn block(&mut self) -> Result<bool, Violation>;
    /// Position of the first byte that the peer has not taken, as far as it has said.
    fn taken(&mut self) -> Result<u64, Violation>;
    /// Copies what was published and had not been taken when [`Self::taken`] was last asked, after
    /// the first `skip` bytes of it.
    fn recall(&mut self, skip: usize, into: OutBuf<'_>) -> Result<usize, RingError>;
}

/// The receiving half, under the lock of its direction.
pub(crate) trait Receiver {
    /// Bytes that can be taken now, as far as known; it looks for news where that is 0.
    fn ready(&mut self) -> Result<usize, Violation>;
    /// All bytes that can be taken now.
    fn queued(&mut self) -> Result<usize, Violation>;
    /// Position of the next byte to take, as [`Link::filled`] counts.
    fn pos(&self) -> u64;
    /// Takes bytes, as many as are there and wanted.
    fn take(&mut self, into: OutBuf<'_>) -> Result<usize, RingError>;
    /// Copies bytes after the first `skip`, and leaves them.
    fn peek(&mut self, into: OutBuf<'_>, skip: usize) -> Result<usize, RingError>;
    /// Takes bytes unseen.
    fn discard(&mut self, n: usize) -> Result<usize, Violation>;
    /// After bytes were taken: tells a peer that waits for room, when that is due.
    fn done(&mut self);
    /// Bytes taken since a position; 0 if it is not within the last ring of them.
    fn since(&self, position: u64) -> usize;
    /// Says exactly how far this end has read.
    fn leave(&mut self);
}
