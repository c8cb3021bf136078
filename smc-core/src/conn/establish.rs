//! The handshake, as the calls of a program drive it: what both ends have in common.
//!
//! Server: the first bytes out have an ACCEPT in front if the client's socket bears the mark.
//! Client: the first bytes in are looked at and an ACCEPT is taken out; when the connection has
//! shown that it pays, the client asks for a slot (CONFIRM), and the server attaches it at its next
//! call. Until then every call is the kernel's own. What is done when is decided by the machines of
//! [`crate::proto`]; here they are asked, and what they say is done.
use super::Ctx;
use crate::arena::{flag, phase, Setup};
use crate::reason::Reason;
use crate::shm::layout::flags;
use crate::sync::Ordering;

/// A ring through which no more than this has passed keeps its memory for the next connection: to
/// give it back costs a system call.
const RETAINED: u64 = 256 << 10;

impl Ctx<'_> {
    /// Moves the handshake, under its lock.
    pub(crate) fn handshake<T>(&self, step: impl FnOnce(&mut Setup) -> T) -> T {
        let result = step(&mut self.conn.lock_setup());
        // From now on the kernel alone knows of its events.
        if self.conn.phase() == phase::PLAIN && self.conn.has(flag::IN_EPOLL) {
            self.process.epolls.now_plain(self);
        }
        result
    }

    /// Stays on TCP for good.
    pub(crate) fn fall_back(&self, reason: Reason) {
        self.handshake(|setup| setup.stop(reason));
    }

    /// What the handshake can do at this call, of either kind.
    pub(crate) fn progress(&self) {
        match self.conn.phase() {
            phase::ACCEPTED => self.request_if_it_pays(),
            phase::REQUESTED => self.see_answer(),
            phase::OFFERED => self.look_for_request(),
            phase::DEFERRED => self.offer_aside(),
            _ => {}
        }
        if self.conn.phase() == phase::ATTACHED && !self.conn.has(flag::CONSENTED) {
            self.consent();
        }
    }

    /// Whether to look at the control channel at this call. A look costs a system call: often at
    /// first, then seldom.
    pub(super) fn is_worth_a_look(&self) -> bool {
        let looks = self.handshake(|setup| {
            setup.looks = setup.looks.wrapping_add(1);
            setup.looks
        });
        looks < 64 || looks.is_multiple_of(64)
    }

    /// Joins the record to a slot of a link group.
    pub(super) fn join(&self, group_index: usize, slot: usize) {
        let Some(group) = self.process.device.groups.get(group_index) else { return };
        let conn = self.conn;
        conn.slot.store(slot as u32, Ordering::Relaxed);
        // For the tools.
        conn.tx_size.store(group.ring_size(true) as u32, Ordering::Relaxed);
        conn.rx_size.store(group.ring_size(false) as u32, Ordering::Relaxed);
        // Release: pairs with the Acquire in `group`; the slot is there.
        conn.group.store(group_index as u32, Ordering::Release);
    }

    /// Counts the connection as one of SMC, once.
    pub(super) fn count_attached(&self) {
        if !self.conn.raise(flag::COUNTED) {
            self.process.page().smcd.fetch_add(1, Ordering::Relaxed);
            if !self.conn.has(flag::CLIENT) {
                self.process.forecast.lived_long();
            }
        }
    }

    /// Gives the slot back.
    pub(crate) fn leave_slot(&self) {
        if let Some(group) = self.group() {
            let slot = self.conn.slot.load(Ordering::Relaxed) as usize;
            // A peer that is to send again what this side has not read takes it from there.
            let needed = self.lines().is_some_and(|(own, peer)| {
                own.flags.load(Ordering::Acquire) & flags::LEFT != 0
                    && peer.flags.load(Ordering::Acquire) & flags::BACK_ON_TCP == 0
            });
            if !needed && self.conn.rx_ring_bytes.load(Ordering::Relaxed) > RETAINED {
                group.forget_ring(slot);
            }
            group.release_conn(slot);
        }
    }
}

