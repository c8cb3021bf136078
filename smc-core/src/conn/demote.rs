//! Back to TCP in mid-stream.
//!
//! *Sending*: this side says that its ring ends where it is filled to and goes on over TCP; the
//! reader drains the ring, then reads TCP. *Receiving*: this side says how far it has read the ring;
//! the peer sends what lies behind that once more, over TCP, and goes on there. Neither waits for
//! the other, so a process may do both and be replaced by another program at once; see
//! [`super::copies`] for what the peer does that cannot be asked any more. *Asking*: this side goes on
//! living and reads its ring to the end; the peer goes back to TCP with its next call.
use super::Ctx;
use crate::arena::{flag, phase, MODE_HYBRID, MODE_RING, MODE_TCP};
use crate::proto::{Stop, TxSwitch};
use crate::reason::Reason;
use crate::shm::layout::flags;
use crate::sync::Ordering;
use crate::sys::tcp;
use crate::transport::{Copied, Link, Receiver};

/// Longest wait for room in the TCP socket, at a time, and how often without progress.
const ROOM_NS: u64 = 100_000_000;
const WAITS: u32 = 10;
/// For a server that has asked whether this client takes an ACCEPT, and sends it.
const GRACE_NS: u64 = 1_000_000;

impl Ctx<'_> {
    /// Hands the connection to somebody who knows nothing of rings.
    pub(crate) fn leave(&self, reason: Reason) {
        if self.conn.phase() == phase::VIRGIN && self.conn.has(flag::MARKED) {
            self.forget_mark();
        }
        if self.conn.phase() != phase::ATTACHED {
            self.withdraw(reason);
            return;
        }
        if matches!(reason, Reason::STDIO | Reason::EXEC | Reason::CONFINED) && self.cannot_come_again() {
            // Whoever reads it by calls that we see loses nothing.
            return;
        }
        self.await_room();
        self.stop_sending_in_ring();
        self.stop_reading_the_ring();
        self.conn.reason.store(reason.0, Ordering::Relaxed);
        // Threads of this side that wait for the ring.
        if let Some(group) = self.group() {
            group.announce_own(self.conn, &self.process.device);
        }
    }

    /// Whether bytes lie unread in the ring that the peer cannot send again: it has ended its stream,
    /// and laid no copies.
    pub(crate) fn cannot_come_again(&self) -> bool {
        if self.conn.phase() != phase::ATTACHED || self.conn.has(flag::RX_TCP) {
            return false;
        }
        let Some(link) = self.link() else { return false };
        let peer = link.peer();
        (peer.done_writing || peer.closed)
            && !peer.copying
            && link.receiver(&mut self.conn.lock_rx()).queued().is_ok_and(|n| n > 0)
    }

    /// A client that has read nothing yet: no ACCEPT will be taken out for it any more.
    fn forget_mark(&self) {
        self.look_for_accept();
        self.unmark_all();
        if self.conn.tx_tcp_bytes.load(Ordering::Relaxed) > 0 {
            super::wait::poll_fds(self.process, &mut [], Some(GRACE_NS)).ok();
        }
        self.look_for_accept();
    }

    /// From now on what this side sends goes over TCP.
    pub(crate) fn stop_sending_in_ring(&self) {
        let conn = self.conn;
        let _tx = self.lay_copies(0);
        conn.raise(flag::TX_TCP);
        if conn.tx_mode.load(Ordering::Acquire) == MODE_RING {
            if let Some(link) = self.link() {
                link.say_back_on_tcp();
            }
            self.went_back();
            self.sends_over_tcp();
        }
    }

    /// The ring is the way no more. Under the direction's lock.
    pub(super) fn sends_over_tcp(&self) {
        self.cork_goes_back();
        self.conn.tx_mode.store(MODE_TCP, Ordering::Release);
    }

    /// Bytes that went to TCP behind the library's back since this side switched come before those
    /// that it sends from now on.
    pub(crate) fn sends_behind_what_tcp_has(&self) {
        let switched = self.conn.lock_tx().switch;
        let TxSwitch::Ring { offset } = switched else { return };
        let written = tcp::written(self.fd(), self.conn.has(flag::CLIENT));
        if written.is_ok_and(|written| written > offset) {
            self.stop_sending_in_ring();
        }
    }

    /// This process has ended, but what comes behind its end may still send, as libc's streams do
    /// with what they hold: over TCP, behind what was copied there.
    pub(crate) fn ends_sending(&self) {
        let conn = self.conn;
        let _tx = conn.lock_tx();
        if conn.tx_mode.load(Ordering::Acquire) == MODE_RING {
            conn.raise(flag::TX_TCP | flag::LATE);
            self.sends_over_tcp();
        }
    }

    /// Something is sent there.
    #[cold]
    pub(super) fn sends_late(&self) {
        let _tx = self.conn.lock_tx();
        self.conn.lower(flag::LATE);
        if let Some(link) = self.link() {
            link.say_back_on_tcp();
        }
        self.went_back();
    }

    fn stop_reading_the_ring(&self) {
        let conn = self.conn;
        let mut rx = conn.lock_rx();
        conn.raise(flag::RX_TCP);
        if !conn.has(flag::CONSENTED) {
            return;
        }
        let Some(link) = self.link() else { return };
        if conn.rx_mode.load(Ordering::Acquire) == MODE_RING {
            self.went_back();
        }
        let mut receiver = link.receiver(&mut rx);
        // Also goes to the lap where the peer stands.
        let _ = receiver.queued();
        receiver.leave();
        link.say_left();
        let whole = self.finds_the_rest(&mut rx);
        conn.rx_mode.store(MODE_TCP, Ordering::Release);
        conn.lower(flag::CONSENTED);
        if !whole {
            // Bytes are lost with a peer that died; whoever reads on must not take it for an end.
            self.break_apart();
        }
    }

    /// The handshake ends, wherever it stood.
    fn withdraw(&self, reason: Reason) {
        match self.handshake(|setup| setup.stop(reason)) {
            Stop::Done => {}
            Stop::Cancel | Stop::Leave => {
                self.cancel_request();
                self.leave_slot();
            }
        }
    }

    /// The peer reads the ring no more: what it has not read goes over TCP, as far as there is room,
    /// and the rest too. True: all of it has gone.
    #[cold]
    fn honour_leave(&self) -> bool {
        let conn = self.conn;
        let mut tx = conn.lock_tx();
        if conn.tx_mode.load(Ordering::Acquire) != MODE_RING {
            return true;
        }
        let Some(link) = self.link() else { return true };
        conn.raise(flag::TX_TCP);
        self.peer_went_back();
        if tx.again.is_some_and(|again| again.copies) {
            // Also where a process of this side has died in the middle of that.
            self.lay_copies_now(&mut tx, 0);
        }
        // What was copied when this side shut down is there already.
        let laid = link.said_copied().is_some_and(|copied| copied != Copied::PROMISE);
        if !laid && !self.pay(&mut tx) {
            return false;
        }
        link.say_back_on_tcp();
        self.sends_over_tcp();
        true
    }

    /// The peer shall send over TCP from now on. What the ring holds is read from it first, and then the
    /// kernel's calls are the program's own again.
    pub(crate) fn ask_for_tcp(&self) {
        self.conn.raise(flag::RX_TCP);
        if self.conn.rx_mode.load(Ordering::Acquire) == MODE_RING {
            self.went_back();
        }
        if let Some(link) = self.link().filter(|_| self.conn.has(flag::CONSENTED)) {
            link.say_ask_for_tcp();
        }
    }

    /// Whether the peer has gone back to TCP, and all that it sent by the ring is read: from here on
    /// the kernel's calls will do.
    #[cold]
    pub(crate) fn is_done_with_the_ring(&self) -> bool {
        let conn = self.conn;
        // First of all: the peer does not switch after it.
        if !self.link().is_some_and(|link| link.peer().back_on_tcp) {
            return conn.rx_mode.load(Ordering::Acquire) == MODE_TCP;
        }
        match self.see_switch() {
            Ok(MODE_TCP) => return true,
            Ok(MODE_HYBRID) => {}
            Ok(MODE_RING) if !self.has_unread() => {}
            _ => return false,
        }
        let mut rx = conn.lock_rx();
        if self.pass_copies(&mut rx) != usize::MAX {
            return false;
        }
        if conn.tx_mode.load(Ordering::Acquire) == MODE_RING {
            // Who waits for room has to look at the ring, as long as there is one to fill.
            return true;
        }
        conn.rx_mode.store(MODE_TCP, Ordering::Release);
        conn.lower(flag::CONSENTED);
        true
    }

    /// Sender: the peer has asked for TCP.
    #[cold]
    pub(crate) fn honour_ask(&self) {
        let conn = self.conn;
        let Some((own, _)) = self.lines() else { return };
        if own.flags.load(Ordering::Relaxed) & flags::BACK_ON_TCP != 0 {
            return;
        }
        let mut tx = conn.lock_tx();
        conn.raise(flag::TX_TCP);
        if conn.tx_mode.load(Ordering::Acquire) == MODE_RING {
            self.peer_went_back();
            if !self.lay_copies_now(&mut tx, 0) {
                return;
            }
        }
        if let Some(link) = self.link() {
            link.say_back_on_tcp();
        }
        self.sends_over_tcp();
    }

    /// Whether the peer has left the ring and is owed bytes of it.
    #[inline(always)]
    pub(crate) fn is_owing(&self) -> bool {
        self.link().is_some_and(|link| link.peer().left)
            && self.conn.tx_mode.load(Ordering::Acquire) == MODE_RING
    }

    /// Does what a peer that has left the ring asks for, as far as TCP has room now. False: it is
    /// still owed bytes, and nothing may be sent before those.
    #[inline(always)]
    pub(crate) fn see_leave(&self) -> bool {
        let peer = self.link().map(Link::peer).unwrap_or_default();
        if !peer.wants_tcp() {
            return true;
        }
        if peer.left && self.conn.tx_mode.load(Ordering::Acquire) == MODE_RING {
            return self.honour_leave();
        }
        if peer.asks_for_tcp {
            self.honour_ask();
        }
        true
    }

    /// Before this side's last chance to send what it owes: waits for room as long as the peer
    /// reads, then breaks the connection off.
    pub(crate) fn await_room(&self) {
        let mut waits = 0;
        let mut before = 0;
        while !self.see_leave() {
            let recalled = self.conn.lock_tx().recalled;
            waits = if recalled > before { 0 } else { waits + 1 };
            before = recalled;
            if waits > WAITS {
                self.fault(Reason::PEER_GONE);
                return;
            }
            let mut fds = [libc::pollfd { fd: self.fd(), events: libc::POLLOUT, revents: 0 }];
            super::wait::poll_fds(self.process, &mut fds, Some(ROOM_NS)).ok();
        }
    }

    /// Counts, once, that this side took the connection back.
    fn went_back(&self) {
        if !self.conn.raise(flag::WENT_BACK) {
            self.process.page().back.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts, once, that the peer did.
    pub(super) fn peer_went_back(&self) {
        if !self.conn.raise(flag::PEER_WENT_BACK) {
            self.process.page().peer_back.fetch_add(1, Ordering::Relaxed);
        }
    }
}
