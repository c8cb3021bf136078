//! A ring with its two lines, between two pages that nobody may touch.
use smc_core::ring::{Consumer, Producer, RingMem, RxHalf, TxHalf};
use smc_core::shm::layout::Line;
use smc_core::sync::Ordering::Relaxed;

const PAGE: usize = 4096;

/// Memory that ends at an inaccessible page and begins behind one.
pub(crate) struct Guarded {
    map: *mut u8,
    mapped: usize,
    base: *mut u8,
    size: usize,
}

impl Guarded {
    pub(crate) fn new(size: usize) -> Self {
        let inner = size.next_multiple_of(PAGE);
        let mapped = inner + 2 * PAGE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: requires nothing: a new mapping.
        let map =
            unsafe { libc::mmap(std::ptr::null_mut(), mapped, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(map, libc::MAP_FAILED);
        let map = map.cast::<u8>();
        let inside = map.wrapping_add(PAGE);
        // SAFETY: requires a part of a mapping of ours: the middle of it.
        let rc =
            unsafe { libc::mprotect(inside.cast(), inner, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(rc, 0);
        Self { map, mapped, base: inside.wrapping_add(inner - size), size }
    }

    pub(crate) fn ring(&self) -> RingMem {
        // SAFETY: requires mapped memory without references for as long as it is used: `self`
        // owns it, and every value made here dies before it.
        unsafe { RingMem::new(self.base, self.size) }
    }

    /// What the ring holds from `offset` on.
    #[allow(dead_code, reason = "not every test file looks")]
    pub(crate) fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(offset + len <= self.size);
        let mut copy = vec![0; len];
        // SAFETY: requires a range of the mapping: checked above; nobody writes meanwhile.
        unsafe { self.base.add(offset).copy_to_nonoverlapping(copy.as_mut_ptr(), len) };
        copy
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: requires a mapping of ours that is used no more.
        let rc = unsafe { libc::munmap(self.map.cast(), self.mapped) };
        assert_eq!(rc, 0);
    }
}

/// One direction of a connection: side `a` sends, side `b` receives.
pub(crate) struct Duct {
    pub(crate) a: Line,
    pub(crate) b: Line,
    pub(crate) tx: TxHalf,
    pub(crate) rx: RxHalf,
    pub(crate) mem: Guarded,
}

impl Duct {
    pub(crate) fn new(size: usize, start: u64) -> Self {
        let (a, b) = (Line::default(), Line::default());
        a.prod.store(start, Relaxed);
        a.base.store(start, Relaxed);
        b.cons.store(start, Relaxed);
        Self { a, b, tx: TxHalf::at(start), rx: RxHalf::at(start), mem: Guarded::new(size) }
    }

    pub(crate) fn producer(&mut self) -> Producer<'_> {
        Producer::new(&self.a, &self.b, &mut self.tx, self.mem.ring())
    }

    pub(crate) fn consumer(&mut self) -> Consumer<'_> {
        Consumer::new(&self.b, &self.a, &mut self.rx, self.mem.ring())
    }
}
