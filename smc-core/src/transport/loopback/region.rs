//! The region of a link group, mapped: what lies where, found without a check at each call.
use super::geometry::{Geometry, Rings};
use crate::errno::Errno;
use crate::ring::RingMem;
use crate::shm::layout::{
    ConnHeader, RegionHeader, WaitSlot, CONNS, CONN_OFFSET, MAGIC, VERSION, WAIT_OFFSET, WAIT_SLOTS,
};
use crate::sync::Ordering;
use crate::sys::mem::Mapping;
use libc::c_int;

/// Wait slots of one side.
type WaitSlots = [WaitSlot; WAIT_SLOTS];

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Region {
    geometry: Geometry,
    /// The rings that the server fills, and those that the client does.
    rings: [Rings; 2],
    /// At least as long as the geometry says.
    map: Mapping,
}

const _: () = {
    assert!(WAIT_OFFSET.is_multiple_of(align_of::<WaitSlots>()));
    assert!(CONN_OFFSET.is_multiple_of(align_of::<ConnHeader>()));
    assert!(WAIT_OFFSET + 2 * size_of::<WaitSlots>() <= CONN_OFFSET);
};

impl Region {
    /// Maps one.
    pub(crate) fn of(memfd: c_int, geometry: Geometry) -> Result<Self, Errno> {
        let map = Mapping::of(memfd, geometry.region_len())?;
        let rings = [false, true].map(|c2s| geometry.rings(c2s));
        Ok(Self { geometry, rings, map })
    }

    /// Writes the head of a new one.
    pub(crate) fn publish(&self) {
        let head = self.head();
        head.version.store(VERSION, Ordering::Relaxed);
        head.c2s_code.store(u32::from(self.geometry.c2s), Ordering::Relaxed);
        head.s2c_code.store(u32::from(self.geometry.s2c), Ordering::Relaxed);
        // Release: pairs with the Acquire in `is_published`.
        head.magic.store(MAGIC, Ordering::Release);
    }

    /// Whether one that a peer made is complete and as it said.
    pub(crate) fn is_published(&self) -> bool {
        let head = self.head();
        // Acquire: pairs with the Release in `publish`.
        head.magic.load(Ordering::Acquire) == MAGIC
            && head.version.load(Ordering::Relaxed) == VERSION
            && head.c2s_code.load(Ordering::Relaxed) == u32::from(self.geometry.c2s)
            && head.s2c_code.load(Ordering::Relaxed) == u32::from(self.geometry.s2c)
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The first page.
    pub(crate) fn head(&self) -> &RegionHeader {
        // SAFETY: requires a structure of atomics at an aligned offset inside the mapping;
        // `RegionHeader` is the first page.
        unsafe { self.map.part(0) }
    }

    /// Wait slots of the client or the server.
    #[inline(always)]
    pub(crate) fn wait_slots(&self, of_client: bool) -> &WaitSlots {
        let skip = if of_client { 0 } else { size_of::<WaitSlots>() };
        // SAFETY: as above; the layout's offsets are checked at compile time.
        unsafe { self.map.part(WAIT_OFFSET + skip) }
    }

    /// Header of a connection slot.
    #[inline(always)]
    pub(crate) fn header(&self, slot: usize) -> &ConnHeader {
        let offset = CONN_OFFSET + slot % CONNS * size_of::<ConnHeader>();
        // SAFETY: as above.
        unsafe { self.map.part(offset) }
    }

    /// The ring of a slot that the client (`c2s`) or the server fills.
    #[inline(always)]
    pub(crate) fn ring(&self, slot: usize, c2s: bool) -> RingMem {
        let place = self.rings[usize::from(c2s)].at(slot);
        // SAFETY: requires an offset inside the mapping: the geometry's.
        let base = unsafe { self.map.base().add(place.offset) };
        // SAFETY: requires a mapped range that nobody has references to: the ring of a slot of a
        // region that stays mapped while it has connections, touched by copies only.
        unsafe { RingMem::new(base, place.size) }.beginning_at(place.first)
    }

    /// Bytes of such a ring.
    pub(crate) fn ring_size(&self, c2s: bool) -> usize {
        self.rings[usize::from(c2s)].at(0).size
    }

    /// Gives the memory of a ring back, which nobody will read any more.
    pub(crate) fn forget_ring(&self, slot: usize, c2s: bool) {
        self.map.forget(self.rings[usize::from(c2s)].at(slot).inner());
    }
}
