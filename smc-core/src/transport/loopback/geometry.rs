//! How large the rings of a link group are, and where they lie in its region.
use crate::shm::layout::{CONNS, DMB_OFFSET};
use core::ops::Range;

const PAGE: usize = 4096;
const HALF_PAGE: usize = PAGE / 2;

/// Sizes of the two rings of each connection, as codes: bytes = 16 KiB << code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) c2s: u8,
    pub(crate) s2c: u8,
}

/// Where a ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// In the region.
    pub(crate) offset: usize,
    pub(crate) size: usize,
    /// Offset in the ring at which its laps begin.
    pub(crate) first: usize,
}

impl Geometry {
    /// Bytes of a ring of this code.
    pub(crate) fn bytes(code: u8) -> usize {
        (16 << 10) << code.min(6)
    }

    fn slot_len(self) -> usize {
        Self::bytes(self.c2s) + Self::bytes(self.s2c)
    }

    /// Bytes of the region.
    pub(crate) fn region_len(self) -> usize {
        DMB_OFFSET + CONNS * self.slot_len() + PAGE
    }

    /// The pages of a slot's rings; half of the first and of the last are those of its neighbours.
    pub(crate) fn slot(self, slot: usize) -> Range<usize> {
        let start = DMB_OFFSET + slot * self.slot_len();
        start..start + self.slot_len() + PAGE
    }

    /// The rings that the client (`c2s`) or the server fills.
    ///
    /// The laps of the one ring of a slot begin half a page before its end, those of the other at its
    /// start, and the two meet in the middle of a page: it is all that a connection of small messages
    /// touches.
    pub(crate) fn rings(self, c2s: bool) -> Rings {
        let start = DMB_OFFSET + HALF_PAGE;
        let size = Self::bytes(self.c2s);
        let first = if c2s {
            Place { offset: start, size, first: size - HALF_PAGE }
        } else {
            Place { offset: start + size, size: Self::bytes(self.s2c), first: 0 }
        };
        Rings { first, stride: self.slot_len() }
    }
}

/// The rings of one direction, at equal distances.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rings {
    first: Place,
    stride: usize,
}

impl Rings {
    /// That of a slot.
    #[inline(always)]
    pub(crate) fn at(&self, slot: usize) -> Place {
        Place { offset: self.first.offset + slot % CONNS * self.stride, ..self.first }
    }
}

impl Place {
    /// The pages that belong to this ring alone.
    pub(crate) fn inner(self) -> Range<usize> {
        self.offset.next_multiple_of(PAGE)..(self.offset + self.size) / PAGE * PAGE
    }
}

#[cfg(test)]
mod tests {
    use super::{Geometry, PAGE};
    use crate::shm::layout::CONNS;

    #[test]
    fn rings_do_not_overlap_and_both_begin_in_one_page() {
        for (c2s, s2c) in [(0, 0), (3, 6), (6, 1)] {
            let geometry = Geometry { c2s, s2c };
            let mut end = 0;
            for slot in 0..CONNS {
                let [a, b] = [true, false].map(|c2s| geometry.rings(c2s).at(slot));
                assert!(a.offset >= end && a.offset + a.size == b.offset);
                assert_eq!((a.offset + a.first) / PAGE, (b.offset + b.first) / PAGE);
                end = b.offset + b.size;
                let pages = geometry.slot(slot);
                assert!(pages.start <= a.offset && end <= pages.end);
                assert!(a.inner().end <= b.offset + b.first && b.inner().end <= end);
            }
            assert!(end <= geometry.region_len());
        }
    }
}
