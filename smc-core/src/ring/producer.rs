//! The sending half.
#![forbid(unsafe_code)]

use super::{cursor, RingError, RingMem, Violation};
use crate::shm::layout::{flags, Line};
use crate::sync::{fence_after_rmw, Ordering};
use crate::sys::copy::InBuf;
#[cfg(not(loom))]
use crate::sys::copy::OutBuf;

/// What the producer remembers; all zero is the start. The caller's lock guards it.
#[derive(Debug, Default)]
#[repr(C)]
pub struct TxHalf {
    /// Where the next byte goes. Ahead of what is published only while a call runs.
    pos: u64,
    /// Where the consumer stands, as far as we know; validated.
    cons: u64,
    /// The word in which it last said so: behind `cons` once we have skipped to a new lap.
    raw_cons: u64,
    /// The position from which on it is worth a look whether the ring is empty.
    look_at: u64,
    /// How far apart the last two such looks were, if the last one was in vain.
    backoff: u64,
    /// [`flags::WRITE_BLOCKED`] is set.
    blocked: bool,
}

impl TxHalf {
    /// A half that starts at `pos`, which both lines must show.
    pub fn at(pos: u64) -> Self {
        Self { pos, cons: pos, raw_cons: pos, look_at: pos, ..Self::default() }
    }

    /// The position of the next byte.
    pub fn pos(&self) -> u64 {
        self.pos
    }

    /// Whether the producer waits for space.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Learns where the consumer stands.
    #[inline]
    fn refresh(&mut self, peer: &Line) -> Result<(), Violation> {
        // Acquire: pairs with the Release stores of Consumer::publish_cons and publish_fenced;
        // the consumer has done reading what we overwrite.
        let raw = peer.cons.load(Ordering::Acquire);
        if raw != self.raw_cons {
            self.cons = cursor::validate_peer_cons(self.pos, self.cons, raw)?;
            self.raw_cons = raw;
        }
        Ok(())
    }

    /// Takes the wish to be told of space back, if there is as much as anybody may wait for.
    #[cold]
    fn unblock(&mut self, line: &Line, peer: &Line, size: usize) -> bool {
        let enough = cursor::quarter(size);
        let free =
            |half: &Self| (size as u64).saturating_sub(cursor::distance(half.cons, half.pos));
        if free(self) < enough && self.refresh(peer).is_err() {
            return false;
        }
        if free(self) < enough {
            return false;
        }
        self.blocked = false;
        // Relaxed: a consumer that still sees the flag rings once in vain.
        line.flags.fetch_and(!flags::WRITE_BLOCKED, Ordering::Relaxed);
        true
    }
}

/// The sending half at work, under its lock.
#[derive(Debug)]
pub struct Producer<'a> {
    line: &'a Line,
    peer: &'a Line,
    half: &'a mut TxHalf,
    ring: RingMem,
    /// Bytes behind `half.pos` that are copied but not published.
    staged: usize,
}

impl<'a> Producer<'a> {
    /// `line` is this side's, `peer` the other's.
    #[inline(always)]
    pub fn new(line: &'a Line, peer: &'a Line, half: &'a mut TxHalf, ring: RingMem) -> Self {
        Self { line, peer, half, ring, staged: 0 }
    }

    /// What it remembers. Nothing is staged.
    #[inline(always)]
    pub fn half(&mut self) -> &mut TxHalf {
        self.half
    }

    /// Copies as much of `src` as fits and publishes it in segments of `segment` bytes (at most
    /// half the ring), so that the consumer copies one while we copy the next. `published` is
    /// called after each, to wake the consumer. An error that comes after the first segment shows
    /// as a short count.
    #[inline]
    pub fn write(
        &mut self,
        src: InBuf<'_>,
        segment: usize,
        mut published: impl FnMut(),
    ) -> Result<usize, RingError> {
        let segment = segment.clamp(1, self.ring.size() >> 1);
        let mut done = 0;
        while done < src.len() {
            match self.stage(src.skip(done).first(segment)) {
                Ok(0) => break,
                Ok(n) => {
                    done += n;
                    self.commit();
                    published();
                }
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Copies as much of `src` as fits behind what is staged already, without publishing it.
    #[inline(always)]
    pub fn stage(&mut self, src: InBuf<'_>) -> Result<usize, RingError> {
        let n = self.room(src.len())?;
        let [(offset, first), (_, second)] =
            self.ring.span(self.half.pos.wrapping_add(self.staged as u64), n);
        self.ring.copy_in(offset, src.first(first))?;
        if second != 0 {
            self.ring.copy_in(0, src.skip(first).first(second))?;
        }
        self.staged += n;
        Ok(n)
    }

    /// Publishes what is staged.
    #[inline(always)]
    pub fn commit(&mut self) {
        if self.staged != 0 {
            self.half.pos = self.half.pos.wrapping_add(self.staged as u64);
            self.staged = 0;
            // Release: pairs with the Acquire in Consumer::refresh; the payload and the base are
            // visible to whoever sees this position.
            self.line.prod.store(self.half.pos, Ordering::Release);
        }
    }

    /// Forgets what is staged.
    pub fn unstage(&mut self) {
        self.staged = 0;
    }

    /// Free memory for up to `n` bytes behind what is staged, for a system call to fill.
    #[cfg(not(loom))]
    pub fn reserve(&mut self, n: usize) -> Result<[super::Piece; 2], Violation> {
        let n = self.room(n)?;
        let pos = self.half.pos.wrapping_add(self.staged as u64);
        Ok(self.ring.pieces(self.ring.span(pos, n)))
    }

    /// Publishes what is staged and `n` bytes that were filled in after [`Self::reserve`].
    pub fn publish(&mut self, n: usize) {
        self.staged += n.min(self.free());
        self.commit();
    }

    /// Free bytes: what is known, or, if that is less than `want`, what the consumer says now.
    #[inline(always)]
    pub fn space(&mut self, want: usize) -> Result<usize, Violation> {
        let free = self.free();
        if free >= want {
            return Ok(free);
        }
        self.refresh()?;
        Ok(self.free())
    }

    /// Bytes that the consumer has not taken (or not yet said so): SIOCOUTQ.
    pub fn used(&mut self) -> Result<usize, Violation> {
        self.refresh()?;
        Ok(cursor::distance(self.half.cons, self.half.pos) as usize)
    }

    /// Position of the first byte that the consumer has not taken (or not yet said so).
    pub fn taken(&mut self) -> Result<u64, Violation> {
        self.refresh()?;
        Ok(self.half.cons)
    }

    /// Copies what is published and was not taken when [`Self::taken`] said so last, after the
    /// first `skip` bytes of it: to be sent by other means.
    #[cfg(not(loom))]
    pub fn recall(&mut self, skip: usize, dst: OutBuf<'_>) -> Result<usize, RingError> {
        let used = cursor::distance(self.half.cons, self.half.pos) as usize;
        let n = used.saturating_sub(skip).min(dst.len());
        let from = self.half.cons.wrapping_add(skip as u64);
        let [(offset, first), (_, second)] = self.ring.span(from, n);
        let mut dst = dst.first(n);
        self.ring.copy_out(offset, dst.reborrow().first(first))?;
        self.ring.copy_out(0, dst.skip(first).first(second))?;
        Ok(n)
    }

    /// The most space that a blocked producer may wait for, and what "writable" means to poll:
    /// with more than this the consumer could have drained the ring and not told.
    #[inline(always)]
    pub fn low_water(&self) -> usize {
        cursor::quarter(self.ring.size()) as usize
    }

    /// Tells the consumer that we wait for space. The caller then looks again, by
    /// [`Self::space`] with at most [`Self::low_water`], and only then may sleep.
    pub fn mark_blocked(&mut self) {
        self.half.blocked = true;
        // Release: pairs with the Acquire in Consumer::publish_fenced, which then also sees how
        // far we have filled the ring. The fence: pairs with the fence there. Either the consumer
        // sees the flag, or the caller's second look sees the consumer's position.
        self.line.flags.fetch_or(flags::WRITE_BLOCKED, Ordering::Release);
        fence_after_rmw();
    }

    /// Whether [`Self::mark_blocked`] stands.
    #[inline(always)]
    pub fn is_blocked(&self) -> bool {
        self.half.blocked
    }

    /// Takes [`Self::mark_blocked`] back, if there is as much space as anybody may wait for.
    ///
    /// To be called after a write. If it returns true, then another thread or epoll instance of
    /// this side may still wait for what the consumer will now not tell: the caller announces the
    /// connection to its own side. Otherwise the flag stays, so that the consumer tells.
    #[inline(always)]
    #[must_use]
    pub fn clear_blocked(&mut self) -> bool {
        self.half.blocked && self.half.unblock(self.line, self.peer, self.ring.size())
    }

    /// As much of `want` as fits; moves to a new lap where that is due.
    #[inline(always)]
    fn room(&mut self, want: usize) -> Result<usize, Violation> {
        if self.staged == 0
            && self.half.pos & (self.ring.size() as u64 - 1)
                >= cursor::restart_offset(self.ring.size())
            && cursor::distance(self.half.look_at, self.half.pos) >> 63 == 0
        {
            restart(self.half, self.line, self.peer, self.ring.size())?;
        }
        Ok(self.space(want)?.min(want))
    }

    #[inline(always)]
    fn free(&self) -> usize {
        let used = cursor::distance(self.half.cons, self.half.pos) as usize;
        self.ring.size().saturating_sub(used + self.staged)
    }

    /// Learns where the consumer stands.
    #[inline(always)]
    fn refresh(&mut self) -> Result<(), Violation> {
        self.half.refresh(self.peer)
    }
}

/// Starts a new lap if the ring is empty.
///
/// A ring that is not empty belongs to a stream, to which the consumer's line would be a cache
/// miss each time: the next look comes after twice as many bytes.
#[inline(never)]
fn restart(half: &mut TxHalf, line: &Line, peer: &Line, size: usize) -> Result<(), Violation> {
    if half.cons != half.pos {
        half.refresh(peer)?;
    }
    if half.cons == half.pos {
        let base = cursor::next_lap(half.pos, size);
        // Relaxed: published by the Release store of the next commit. Stored before our own
        // position moves: should we die in between, then the next producer goes on at the old
        // one, and the consumer takes the base for none of its business.
        line.base.store(base, Ordering::Relaxed);
        half.pos = base;
        half.cons = base;
        half.look_at = base;
        half.backoff = 0;
    } else {
        let longest = size as u64 >> 1;
        half.backoff = (half.backoff << 1).clamp(cursor::restart_offset(size), longest);
        half.look_at = half.pos.wrapping_add(half.backoff);
    }
    Ok(())
}
