//! The receiving half.
#![forbid(unsafe_code)]

use super::{cursor, RingError, RingMem, Violation};
use crate::shm::layout::{flags, Line};
use crate::sync::{full_fence, Ordering};
use crate::sys::copy::OutBuf;

/// What the consumer remembers; all zero is the start. The caller's lock guards it.
#[derive(Debug, Default)]
#[repr(C)]
pub struct RxHalf {
    /// The next byte to take.
    pos: u64,
    /// How far the ring is filled, as far as we know; validated.
    prod: u64,
    /// The position that we last published.
    published: u64,
    /// The position from which on a quarter of the ring is counted until we next look whether the
    /// producer is blocked.
    checked: u64,
}

impl RxHalf {
    /// A half that starts at `pos`, which both lines must show.
    pub fn at(pos: u64) -> Self {
        Self { pos, prod: pos, published: pos, checked: pos }
    }

    /// The position of the next byte.
    pub fn pos(&self) -> u64 {
        self.pos
    }

    #[inline(always)]
    fn known(&self) -> usize {
        cursor::distance(self.pos, self.prod) as usize
    }

    /// Learns how far the ring is filled.
    #[inline(always)]
    fn refresh(&mut self, peer: &Line, size: usize) -> Result<usize, Violation> {
        // Acquire: pairs with the Release in Producer::commit; payload and base are there.
        let prod = peer.prod.load(Ordering::Acquire);
        if prod == self.prod {
            return Ok(self.known());
        }
        if self.prod == self.pos {
            // Relaxed: ordered by the Acquire above. Only from an empty ring does the producer
            // skip, and with news in it there was no later skip.
            let base = peer.base.load(Ordering::Relaxed);
            if cursor::skips(self.pos, base, prod, size) {
                // The producer counts all before the base as taken: so do we.
                *self = Self::at(base);
            }
        }
        self.prod = cursor::validate_peer_prod(self.pos, self.prod, prod, size)?;
        Ok(self.known())
    }
}

/// The receiving half at work, under its lock.
#[derive(Debug)]
pub struct Consumer<'a> {
    line: &'a Line,
    peer: &'a Line,
    half: &'a mut RxHalf,
    ring: RingMem,
}

impl<'a> Consumer<'a> {
    /// `line` is this side's, `peer` the other's.
    #[inline(always)]
    pub fn new(line: &'a Line, peer: &'a Line, half: &'a mut RxHalf, ring: RingMem) -> Self {
        Self { line, peer, half, ring }
    }

    /// The position of the next byte.
    #[inline(always)]
    pub fn pos(&self) -> u64 {
        self.half.pos
    }

    /// Bytes that were taken since a position; 0 if it is not within the last ring of them.
    pub fn since(&self, position: u64) -> usize {
        let distance = cursor::distance(position, self.half.pos);
        if distance <= self.ring.size() as u64 {
            distance as usize
        } else {
            0
        }
    }

    /// Takes up to `dst.len()` bytes. The caller then calls [`Self::publish_cons`], once for
    /// several reads. An error that comes after the first bytes shows as a short count.
    #[inline(always)]
    pub fn read(&mut self, mut dst: OutBuf<'_>) -> Result<usize, RingError> {
        let n = self.peek(dst.reborrow(), 0)?;
        self.half.pos = self.half.pos.wrapping_add(n as u64);
        Ok(n)
    }

    /// Copies up to `dst.len()` bytes that follow the first `skip`, and leaves them.
    #[inline(always)]
    pub fn peek(&mut self, mut dst: OutBuf<'_>, skip: usize) -> Result<usize, RingError> {
        let n = self.at_hand(dst.len(), skip)?;
        let [(offset, first), (_, second)] =
            self.ring.span(self.half.pos.wrapping_add(skip as u64), n);
        self.ring.copy_out(offset, dst.reborrow().first(first))?;
        if second != 0 && self.ring.copy_out(0, dst.skip(first).first(second)).is_err() {
            return Ok(first);
        }
        Ok(n)
    }

    /// Takes up to `n` bytes unseen: those of [`Self::pieces`], MSG_TRUNC, or of a closed
    /// connection.
    #[inline]
    pub fn discard(&mut self, n: usize) -> Result<usize, Violation> {
        let n = self.at_hand(n, 0)?;
        self.half.pos = self.half.pos.wrapping_add(n as u64);
        Ok(n)
    }

    /// Up to `n` bytes as they lie, for a system call to write from. They stay.
    #[cfg(not(loom))]
    pub fn pieces(&mut self, n: usize) -> Result<[super::Piece; 2], Violation> {
        let n = self.at_hand(n, 0)?;
        Ok(self.ring.pieces(self.ring.span(self.half.pos, n)))
    }

    /// Bytes to take: what is known, or, if that is nothing, what the producer says now.
    #[inline(always)]
    pub fn available(&mut self) -> Result<usize, Violation> {
        match self.known() {
            0 => self.refresh(),
            n => Ok(n),
        }
    }

    /// Bytes to take, as the producer says now: FIONREAD.
    pub fn queued(&mut self) -> Result<usize, Violation> {
        self.refresh()
    }

    /// Publishes our position if that is due, and tells whether the caller must wake the producer:
    /// it waits for space, and a quarter of the ring is free.
    ///
    /// To be called after every read. Why a blocked producer is never forgotten: see
    /// [the module](super).
    #[inline(always)]
    pub fn publish_cons(&mut self) -> bool {
        if cursor::distance(self.half.checked, self.half.pos) >= cursor::quarter(self.ring.size()) {
            return publish_fenced(self.half, self.line, self.peer, self.ring.size());
        }
        if self.half.pos == self.half.prod && self.half.pos != self.half.published {
            self.half.published = self.half.pos;
            // Release: pairs with the Acquire in Producer::refresh; our reads are done.
            self.line.cons.store(self.half.pos, Ordering::Release);
        }
        false
    }

    /// Publishes our position whatever is due: nothing more is taken.
    pub fn publish_exactly(&mut self) {
        self.half.published = self.half.pos;
        // Release: pairs with the Acquire in Producer::refresh; our reads are done.
        self.line.cons.store(self.half.pos, Ordering::Release);
    }

    /// How many of the `n` bytes behind the first `skip` are there.
    #[inline(always)]
    fn at_hand(&mut self, n: usize, skip: usize) -> Result<usize, Violation> {
        let mut known = self.known();
        if known < n.saturating_add(skip) {
            known = self.refresh()?;
        }
        Ok(known.saturating_sub(skip).min(n))
    }

    #[inline(always)]
    fn known(&self) -> usize {
        self.half.known()
    }

    /// Learns how far the ring is filled.
    #[inline(always)]
    fn refresh(&mut self) -> Result<usize, Violation> {
        self.half.refresh(self.peer, self.ring.size())
    }
}

/// Publishes the position of the half and looks whether the producer is blocked.
#[inline(never)]
fn publish_fenced(half: &mut RxHalf, line: &Line, peer: &Line, size: usize) -> bool {
    let pos = half.pos;
    half.published = pos;
    half.checked = pos;
    // Release: pairs with the Acquire in Producer::refresh; our reads are done.
    line.cons.store(pos, Ordering::Release);
    // Pairs with the fence in Producer::mark_blocked: either we see the flag, or the
    // producer's second look sees our position.
    full_fence();
    // Acquire: pairs with the Release in Producer::mark_blocked.
    if peer.flags.load(Ordering::Acquire) & flags::WRITE_BLOCKED == 0 {
        return false;
    }
    // Relaxed: a number for the decision below and no more; it is at least what the producer
    // had published when it blocked, by the Acquire above.
    let used = cursor::distance(pos, peer.prod.load(Ordering::Relaxed));
    let quarter = cursor::quarter(size);
    let size = size as u64;
    // A distance beyond the ring is a new lap, or a lie that the next refresh finds.
    let free = size.saturating_sub(used);
    if free >= quarter || used > size {
        return true;
    }
    // Too little to be worth a wake-up: look again when a quarter is free.
    half.checked = pos.wrapping_sub(free);
    false
}
