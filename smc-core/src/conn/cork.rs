//! TCP_CORK while the ring is the way.
//!
//! What is in the ring need not be held back until there is more of it, so the kernel is not told of
//! an option that servers set and clear for each reply. The program reads what it has set; when the
//! direction goes back to TCP, the kernel is told.
use super::Ctx;
use crate::arena::{flag, MODE_RING};
use crate::errno::{Errno, Ret};
use crate::sync::Ordering;
use crate::sys::iov::{fetch, store};
use crate::sys::raw;
use libc::{c_int, c_void, socklen_t};

const CORK: (c_int, c_int) = (libc::IPPROTO_TCP, libc::TCP_CORK);

impl Ctx<'_> {
    /// Takes the option in the kernel's place. `None`: it is the kernel's.
    pub(super) fn sets_cork(
        &self,
        option: (c_int, c_int),
        value: *const c_void,
        len: socklen_t,
    ) -> Option<Ret> {
        let conn = self.conn;
        if option != CORK
            || (len as usize) < size_of::<c_int>()
            || conn.tx_mode.load(Ordering::Acquire) != MODE_RING
        {
            return None;
        }
        let on = match fetch(value.cast::<c_int>()) {
            Ok(value) => value != 0,
            Err(errno) => return Some(Err(errno)),
        };
        // Under the lock: the direction leaves the ring before this, or finds what is kept.
        let _tx = conn.lock_tx();
        if conn.tx_mode.load(Ordering::Acquire) != MODE_RING {
            return None;
        }
        if !conn.has(flag::CORK_KEPT) {
            if self.is_corked() != Ok(false) {
                return None;
            }
            conn.raise(flag::CORK_KEPT);
        }
        if on {
            conn.raise(flag::CORKED);
        } else {
            conn.lower(flag::CORKED);
        }
        Some(Ok(0))
    }

    /// What the program has set, where the kernel was not told; the kernel has answered.
    pub(super) fn reads_cork(
        &self,
        option: (c_int, c_int),
        value: *mut c_void,
        len: *const socklen_t,
    ) -> Result<(), Errno> {
        if option != CORK || !self.conn.has(flag::CORK_KEPT) {
            return Ok(());
        }
        let own = c_int::from(self.conn.has(flag::CORKED)).to_ne_bytes();
        let written = fetch(len)? as usize;
        for (at, byte) in own.iter().enumerate().take(written) {
            store(value.cast::<u8>().wrapping_add(at), byte)?;
        }
        Ok(())
    }

    /// The sending direction is on TCP again: tells the kernel. Under the direction's lock.
    pub(super) fn cork_goes_back(&self) {
        let conn = self.conn;
        if !conn.has(flag::CORK_KEPT) {
            return;
        }
        if conn.has(flag::CORKED) {
            let _ = raw::setsockopt(self.fd(), CORK.0, CORK.1, &1);
        }
        conn.lower(flag::CORK_KEPT | flag::CORKED);
    }

    /// Whether the kernel holds back what is less than a segment.
    fn is_corked(&self) -> Result<bool, Errno> {
        let mut corked: c_int = 0;
        raw::getsockopt(self.fd(), CORK.0, CORK.1, &mut corked)?;
        Ok(corked != 0)
    }
}
