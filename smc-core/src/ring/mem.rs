//! The bytes of a ring.
use super::cursor;
use crate::sys::copy::{Fault, InBuf, OutBuf};

#[cfg(not(loom))]
type Cell = u8;
#[cfg(loom)]
type Cell = loom::cell::UnsafeCell<u8>;

/// Smallest ring.
pub const MIN_SIZE: usize = 16;

/// Where the bytes of a ring are, and how many: private knowledge, never read from shared memory.
#[derive(Clone, Copy, Debug)]
pub struct RingMem {
    base: *mut Cell,
    size: usize,
    /// Offset of position 0.
    first: usize,
}

/// A contiguous part of a ring, for a system call to read into or write from.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Its first byte.
    pub ptr: *mut u8,
    /// Bytes, 0 if there is no such piece.
    pub len: usize,
}

impl RingMem {
    /// The ring of `size` bytes at `base`.
    ///
    /// # Safety
    /// `size` is a power of two of at least [`MIN_SIZE`]. The memory is mapped, readable and
    /// writable for as long as the value is used, and no reference to any byte of it exists.
    #[inline(always)]
    pub const unsafe fn new(base: *mut Cell, size: usize) -> Self {
        Self { base, size, first: 0 }
    }

    /// The same memory, with its laps beginning at the offset `first`.
    #[inline(always)]
    pub const fn beginning_at(mut self, first: usize) -> Self {
        self.first = first;
        self
    }

    /// Bytes.
    #[inline(always)]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Where `len` bytes from a position on are: as [`cursor::span`].
    #[inline(always)]
    pub(super) fn span(&self, pos: u64, len: usize) -> [(usize, usize); 2] {
        cursor::span(pos.wrapping_add(self.first as u64), len, self.size)
    }

    /// Copies `src` to `offset`; the range lies within the ring.
    #[cfg(not(loom))]
    #[inline(always)]
    pub(super) fn copy_in(&self, offset: usize, src: InBuf<'_>) -> Result<(), Fault> {
        debug_assert!(offset + src.len() <= self.size);
        // SAFETY: requires a range within the ring: it comes from `cursor::span`. The rest is
        // the promise of `new`.
        unsafe { crate::sys::copy::copy_in(self.base.add(offset), src) }
    }

    /// Fills `dst` from `offset`; the range lies within the ring.
    #[cfg(not(loom))]
    #[inline(always)]
    pub(super) fn copy_out(&self, offset: usize, dst: OutBuf<'_>) -> Result<(), Fault> {
        debug_assert!(offset + dst.len() <= self.size);
        // SAFETY: as in `copy_in`.
        unsafe { crate::sys::copy::copy_out(dst, self.base.add(offset)) }
    }

    /// The pieces that `span` names.
    #[cfg(not(loom))]
    #[inline(always)]
    pub(super) fn pieces(&self, span: [(usize, usize); 2]) -> [Piece; 2] {
        span.map(|(offset, len)| Piece { ptr: self.base.wrapping_add(offset), len })
    }

    /// As above, byte by byte through cells in which loom finds races.
    #[cfg(loom)]
    pub(super) fn copy_in(&self, offset: usize, src: InBuf<'_>) -> Result<(), Fault> {
        for i in 0..src.len() {
            // SAFETY: requires a cell within the ring and a readable byte: see above.
            let (cell, byte) = unsafe { (&*self.base.add(offset + i), *src.as_ptr().add(i)) };
            // SAFETY: requires exclusive access for the store: loom panics otherwise.
            cell.with_mut(|to| unsafe { *to = byte });
        }
        Ok(())
    }

    /// As above, byte by byte through cells in which loom finds races.
    #[cfg(loom)]
    pub(super) fn copy_out(&self, offset: usize, dst: OutBuf<'_>) -> Result<(), Fault> {
        for i in 0..dst.len() {
            // SAFETY: requires a cell within the ring: see above.
            let cell = unsafe { &*self.base.add(offset + i) };
            // SAFETY: requires that nobody writes the cell: loom panics otherwise; the target is
            // writable by the promise of OutBuf.
            cell.with(|from| unsafe { *dst.as_ptr().add(i) = *from });
        }
        Ok(())
    }
}
