//! Which processes hold a connection: a fork makes one more, a close, an exec or an exit one less.
//!
//! A process that is killed counts itself out never; where that matters, the family is looked at.
use super::Ctx;
use crate::arena::CONNS;
use crate::sync::{AtomicU64, Ordering};

/// Connections from which this process has counted itself out although it still has a descriptor:
/// it exits, or is replaced. Private memory, so a fork's child goes on with a copy.
static GIVEN_UP: [AtomicU64; CONNS / 64] = [const { AtomicU64::new(0) }; CONNS / 64];

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
        // Asked first: once this process is counted out, another may be the only holder, do what it
        // likes with the record, and end.
        let killed = self.conn.procs.load(Ordering::Acquire) > 1 && self.process.device.is_alone();
        // AcqRel: of several processes one is the last.
        self.conn.procs.fetch_sub(1, Ordering::AcqRel) == 1 || killed
    }

    /// Whether other processes hold it.
    pub(crate) fn is_shared(&self) -> bool {
        if self.conn.procs.load(Ordering::Acquire) <= 1 {
            return false;
        }
        if !self.process.device.is_alone() {
            return true;
        }
        // The others were killed.
        self.conn.procs.store(1, Ordering::Release);
        false
    }
}
