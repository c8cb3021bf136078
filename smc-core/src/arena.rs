//! Memory that all processes of one fork family share: the records of their connections and the
//! statistics page of each process.
//!
//! It is a memfd, mapped by the constructor and inherited over `fork`, so that both sides of a fork
//! see one truth about a connection they share; the peer never sees it. The tools find it through
//! `/proc/PID/fd` under the name [`NAME`], and nothing is left behind when the last process ends.
//! This file and the ring halves' users rely on one rule: what is in an `UnsafeCell` here is only
//! touched under the lock beside it.
mod births;
mod conn;
mod handover;
mod image;
mod proc;

pub use births::Births;
pub use conn::{
    flag, phase, Again, Conn, Rx, RxGuard, Setup, SetupGuard, Tx, TxGuard, MODE_DRAIN, MODE_HYBRID,
    MODE_RING, MODE_TCP, NO_GROUP,
};
pub use handover::{is_carrier, GroupRow, Handover, Heir, Manifest, Packed};
pub use image::{ConnImage, Image, Moved, ProcessImage};
pub use proc::{Counters, ProcPage, REASONS};

use crate::errno::Errno;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::sys::mem::Mapping;
use crate::sys::{growth, raw};
use libc::c_int;

/// Name of the memfd.
pub const NAME: &core::ffi::CStr = c"smc-stats";
/// "SMCARENA"
pub const MAGIC: u64 = u64::from_le_bytes(*b"SMCARENA");
/// Version of this layout, for the tools.
pub const VERSION: u32 = 3;
/// Processes of a fork family that have a page of their own.
pub const PROCS: usize = 512;
/// Connections of a fork family.
pub const CONNS: usize = 1 << 16;

/// Marks the page of a child that is being born, with its parent's pid.
pub const UNBORN: u32 = 1 << 31;

const PROC_OFFSET: usize = 4096;
/// Offset of the connection records.
pub const CONN_OFFSET: usize = PROC_OFFSET + PROCS * core::mem::size_of::<ProcPage>();
/// Length of the whole.
pub const LEN: usize = CONN_OFFSET + CONNS * core::mem::size_of::<Conn>();
const _: () = assert!(CONN_OFFSET.is_multiple_of(core::mem::align_of::<Conn>()));

/// Head of the arena.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Head {
    /// [`MAGIC`], stored last.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// Where the search for a free record starts.
    pub hint: AtomicU32,
    /// Records from this one on have never been used.
    pub high: AtomicU32,
    /// The user of the process that made it.
    pub user: AtomicU32,
}

/// The arena, mapped.
#[derive(Debug)]
pub struct Arena {
    map: Mapping,
    /// The memfd, kept open for the tools.
    pub fd: c_int,
}

impl Arena {
    /// Makes one for a process that has none. `raise` moves a descriptor out of the program's way.
    pub fn create(raise: impl FnOnce(c_int) -> c_int) -> Result<Self, Errno> {
        let fd = raise(raw::memfd(NAME)?);
        let map = growth::ftruncate(fd, LEN).and_then(|_| Mapping::of(fd, LEN));
        match map {
            Ok(map) => {
                let arena = Self { map, fd };
                if let Some(head) = arena.head() {
                    head.version.store(VERSION, Ordering::Relaxed);
                    head.user.store(raw::getuid(), Ordering::Relaxed);
                    // Release: whoever sees it sees the version.
                    head.magic.store(MAGIC, Ordering::Release);
                }
                Ok(arena)
            }
            Err(errno) => {
                raw::close(fd);
                Err(errno)
            }
        }
    }

    /// Maps the one of the image before this one, whose descriptor it has left.
    pub fn inherit(fd: c_int) -> Option<Self> {
        if raw::file_size(fd) != Ok(LEN as u64) {
            return None;
        }
        let arena = Self { map: Mapping::of(fd, LEN).ok()?, fd };
        let head = arena.head()?;
        // Acquire: pairs with the Release in `create`.
        let whole = head.magic.load(Ordering::Acquire) == MAGIC;
        (whole && head.version.load(Ordering::Relaxed) == VERSION).then_some(arena)
    }

    /// The head.
    pub fn head(&self) -> Option<&Head> {
        // SAFETY: requires a structure of atomics; `Head` is one.
        unsafe { self.map.view(0) }
    }

    /// Page of the n-th process.
    pub fn proc_page(&self, index: usize) -> Option<&ProcPage> {
        if index >= PROCS {
            return None;
        }
        Some(self.page_at(index))
    }

    /// As above, for the index of a page that there is.
    #[inline(always)]
    pub(crate) fn page_at(&self, index: usize) -> &ProcPage {
        let offset = PROC_OFFSET + (index % PROCS) * core::mem::size_of::<ProcPage>();
        // SAFETY: requires a structure of atomics at an aligned offset inside the mapping: the pages
        // begin at a multiple of 4096, and `LEN` bytes are mapped.
        unsafe { self.map.part(offset) }
    }

    /// The n-th record.
    #[inline(always)]
    pub fn conn(&self, index: u32) -> Option<&Conn> {
        let index = index as usize;
        if index >= CONNS {
            return None;
        }
        // SAFETY: requires that any bytes are valid for a record: its fields are atomics, and what
        // is behind its locks is written before anybody who has claimed it reads it. And an aligned
        // offset inside the mapping, of which `LEN` bytes are mapped.
        Some(unsafe { self.map.part(CONN_OFFSET + index * core::mem::size_of::<Conn>()) })
    }

    /// Records that have ever been used.
    pub fn conns(&self) -> impl Iterator<Item = (u32, &Conn)> {
        let high = self.head().map_or(0, |head| head.high.load(Ordering::Acquire));
        (0..high).filter_map(|index| self.conn(index).map(|conn| (index, conn)))
    }

    /// Takes a free record for this process. Records of processes that died without closing are
    /// taken when there is no other.
    pub fn allocate(&self, pid: u32) -> Option<(u32, &Conn)> {
        let head = self.head()?;
        // Relaxed: a hint.
        let hint = head.hint.load(Ordering::Relaxed);
        let high = head.high.load(Ordering::Acquire);
        // A bounded look at what was freed last, then fresh records, then everything.
        let near = (0..32).map(|step| hint.wrapping_add(step)).filter(|index| *index < high);
        for index in near {
            if let Some(conn) = self.conn(index).filter(|conn| conn.claim(pid)) {
                return Some((index, conn));
            }
        }
        let fresh = head.high.fetch_add(1, Ordering::AcqRel);
        if let Some(conn) = self.conn(fresh).filter(|conn| conn.claim(pid)) {
            return Some((fresh, conn));
        }
        head.high.store(CONNS as u32, Ordering::Release);
        for (index, conn) in self.conns() {
            if conn.claim(pid) || (!raw::exists(conn.owner()) && conn.reclaim(pid)) {
                return Some((index, conn));
            }
        }
        None
    }

    /// Gives a record back.
    pub fn release(&self, index: u32) {
        if let (Some(conn), Some(head)) = (self.conn(index), self.head()) {
            conn.free();
            head.hint.store(index, Ordering::Relaxed);
        }
    }

    /// Takes a page for this process: that of its image before an `exec`, a free one, or a dead
    /// process's.
    pub fn enter_process(&self, pid: u32) -> Option<usize> {
        let pages = || (0..PROCS).filter_map(|n| self.proc_page(n).map(|page| (n, page)));
        let own = pages().find(|(_, page)| page.pid() == pid && page.claim(pid, pid));
        own.map(|(index, _)| index).or_else(|| self.enter_anew(pid))
    }

    /// Takes another page, whether this process has one or not.
    pub fn enter_anew(&self, pid: u32) -> Option<usize> {
        let pages = || (0..PROCS).filter_map(|n| self.proc_page(n).map(|page| (n, page)));
        let free = pages().find(|(_, page)| page.claim(0, pid));
        let found = free.or_else(|| {
            pages().find(|(_, page)| {
                let owner = page.pid();
                owner != 0 && !raw::exists(owner & !UNBORN) && page.claim(owner, pid)
            })
        });
        found.map(|(index, _)| index)
    }
}
