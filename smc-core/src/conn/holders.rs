//! Which processes hold a connection: a fork makes one more, a close, an exec or an exit one less.
//!
//! A process that is killed counts itself out never; where that matters, the family is looked at.
use super::Ctx;
use crate::arena::{phase, Conn, CONNS};
use crate::fdtable;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::sys::thread::Critical;
use libc::c_int;

/// Connections from which this process has counted itself out although it still has a descriptor:
/// it exits, or is replaced. Private memory, so a fork's child goes on with a copy.
static GIVEN_UP: [AtomicU64; CONNS / 64] = [const { AtomicU64::new(0) }; CONNS / 64];

/// A connection of this process is, or was, held by another one as well. Private memory, like that.
static EVER_SHARED: AtomicBool = AtomicBool::new(false);

/// Whether a connection of this process may be held by another one as well.
pub(crate) fn any_shared() -> bool {
    // Relaxed: whoever sleeps is woken after a fork.
    EVER_SHARED.load(Ordering::Relaxed)
}

/// A descriptor of this process for a connection; `None`: it holds none.
pub(crate) fn descriptor(index: u32, conn: &Conn) -> Option<c_int> {
    let is = |fd: c_int| fdtable::entry(fd).as_socket() == Some(index);
    let known = conn.fd.load(Ordering::Relaxed).cast_signed();
    let search = || fdtable::all().map(|(fd, _)| fd).find(|fd| is(*fd));
    Some(known).filter(|fd| is(*fd)).or_else(search)
}

/// A record is new: nobody has given it up.
pub(crate) fn is_new(conn: u32) {
    if let Some(word) = GIVEN_UP.get(conn as usize / 64) {
        word.fetch_and(!(1 << (conn % 64)), Ordering::Relaxed);
    }
}

impl Ctx<'_> {
    /// One process more will hold the connection: before a fork.
    pub(crate) fn one_more(&self) {
        self.conn.procs.fetch_add(1, Ordering::AcqRel);
        self.note_shared();
    }

    /// Notes that another process holds it as well, where one does. A listener is never in a ring.
    pub(crate) fn note_shared(&self) {
        let several = self.conn.procs.load(Ordering::Acquire) > 1;
        if several && self.conn.phase() != phase::LISTENER {
            EVER_SHARED.store(true, Ordering::Relaxed);
        }
    }

    /// A child that was counted before it was there will not hold it; true: nobody does.
    pub(crate) fn one_less(&self) -> bool {
        self.conn.procs.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// This process holds it no more; true: nobody does.
    pub(crate) fn gives_up(&self) -> bool {
        let bit = 1_u64 << (self.index % 64);
        let again = GIVEN_UP
            .get(self.index as usize / 64)
            .is_none_or(|word| word.fetch_or(bit, Ordering::Relaxed) & bit != 0);
        if again {
            return false;
        }
        let _critical = Critical::enter();
        // Asked first: once this process is counted out, another may be the only holder, do what it
        // likes with the record, and end. No child is made between that and the count.
        let no_birth = self.process.births.none();
        let counted = self.conn.procs.load(Ordering::Acquire);
        let killed = no_birth.is_some() && counted > 1 && self.process.device.is_alone();
        // AcqRel: of several processes one is the last.
        self.conn.procs.fetch_sub(1, Ordering::AcqRel) == 1 || killed
    }

    /// It holds it all the same: the exec has failed.
    pub(crate) fn keeps(&self) {
        let bit = 1_u64 << (self.index % 64);
        let word = GIVEN_UP.get(self.index as usize / 64);
        if word.is_some_and(|word| word.fetch_and(!bit, Ordering::Relaxed) & bit != 0) {
            self.one_more();
        }
    }

    /// Whether other processes hold it.
    pub(crate) fn is_shared(&self) -> bool {
        if self.conn.procs.load(Ordering::Acquire) <= 1 {
            return false;
        }
        let _critical = Critical::enter();
        // No child is made, and counted, between the look and the correction: the one that held it at
        // the first look may have ended by the rules meanwhile.
        let Some(_no_birth) = self.process.births.none() else { return true };
        if !self.process.device.is_alone() {
            return true;
        }
        // The others were killed, or have ended.
        self.conn.procs.store(1, Ordering::Release);
        false
    }
}
