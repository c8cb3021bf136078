//! From TCP to the ring: each direction by itself, at a recorded offset, with the reader's word.
//!
//! A reader consents when every wait of its side looks at the ring: no thread is inside a kernel
//! wait for this socket, and the program waits by means that we see. The sender then records how
//! many bytes it wrote to TCP and goes on in the ring; the reader takes TCP up to that offset.
use super::Ctx;
use crate::arena::{flag, phase, Conn, Rx, MODE_HYBRID, MODE_TCP};
use crate::errno::Errno;
use crate::proto::{RxSwitch, TxSwitch, Wait};
use crate::reason::Reason;
use crate::shm::layout::{flags, Line};
use crate::sync::{fence_after_rmw, AtomicU32, Ordering};
use crate::sys::{raw, tcp};
use crate::transport::Link;

/// Counts a thread that is inside a kernel call, until dropped (also when it is cancelled).
#[derive(Debug)]
pub(crate) struct Inside<'a>(&'a AtomicU32);

impl<'a> Inside<'a> {
    pub(crate) fn enter(counter: &'a AtomicU32) -> Self {
        counter.fetch_add(1, Ordering::AcqRel);
        // Pairs with the fence in `consent` and `switch_tx`: either they see us inside, or we see
        // that they have decided.
        fence_after_rmw();
        Self(counter)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A kernel wait for data may begin: nobody has given the word that there are none.
///
/// The gate's two fields are words without a lock ([`ConsentGate`] says why that is enough): here
/// and in `consent` each is changed first, then the machine judges what both say.
///
/// [`ConsentGate`]: crate::proto::ConsentGate
pub(crate) fn enter_rx(conn: &Conn) -> Option<Inside<'_>> {
    let inside = Inside::enter(&conn.inside);
    match conn.gate().wait() {
        Wait::Kernel => Some(inside),
        Wait::RingAware => None,
    }
}

impl Ctx<'_> {
    /// Whether the program waits for this socket by means that we see.
    fn waits_are_seen(&self) -> bool {
        self.conn.has(flag::SEEN_WAIT) || !raw::is_nonblocking(self.fd())
    }

    /// The reader's word, if it can be given now.
    pub(crate) fn consent(&self) {
        let conn = self.conn;
        let attached = conn.phase() == phase::ATTACHED;
        if !attached
            || conn.has(flag::RX_TCP)
            || !conn.gate().may_raise(attached, self.waits_are_seen())
        {
            return;
        }
        if conn.raise(flag::CONSENTED) {
            return;
        }
        if conn.has(flag::RX_TCP) {
            // Another thread has just handed it to somebody else.
            conn.lower(flag::CONSENTED);
            return;
        }
        // Pairs with the fence in `Inside::enter`.
        fence_after_rmw();
        if !conn.gate().stands() {
            conn.lower(flag::CONSENTED);
            return;
        }
        conn.publish_rx(RxSwitch::Tcp);
        if conn.has(flag::IN_EPOLL) {
            self.process.epolls.now_shared(self);
        }
        let mut low_water: i32 = 1;
        let _ = raw::getsockopt(self.fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, &mut low_water);
        conn.low_water.store(low_water.unsigned_abs().max(1), Ordering::Relaxed);
        if let Some((own, _)) = self.lines() {
            // Release: pairs with the Acquire in `switch_tx` of the peer; all of the above is done.
            own.flags.fetch_or(flags::RX_CONSENT, Ordering::Release);
        }
        if conn.has(flag::RX_TCP) {
            // Another thread has asked for TCP meanwhile.
            self.ask_for_tcp();
        }
    }

    /// Sender: switches if it may. True: the ring is the way now.
    pub(crate) fn switch_tx(&self) -> bool {
        let conn = self.conn;
        let Some((own, peer)) = self.lines() else { return false };
        if peer.flags.load(Ordering::Acquire) & flags::ASKS_FOR_TCP != 0 {
            self.honour_ask();
            return false;
        }
        // Acquire: pairs with the Release in the peer's `consent`.
        let said = peer.flags.load(Ordering::Acquire);
        let agreed = said & (flags::RX_CONSENT | flags::LEFT) == flags::RX_CONSENT;
        let attached = conn.phase() == phase::ATTACHED;
        // Consent that stands, not one that is only raised: the waits for space are seen as well.
        let own_waits_seen = conn.rx_mode.load(Ordering::Acquire) != MODE_TCP;
        // None of this is ever taken back, so that the lock need not be held for it.
        let may = TxSwitch::Tcp.may_switch(attached, agreed, own_waits_seen);
        if !may || conn.has(flag::TX_SHUT | flag::PEER_GONE | flag::TX_TCP) {
            return false;
        }
        let mut tx = conn.lock_tx();
        if tx.switch.in_ring() {
            return true;
        }
        // From here on a thread that enters the kernel to send sees that it must not.
        conn.publish_tx(TxSwitch::Ring { offset: 0 });
        crate::sync::full_fence();
        let written = if conn.tx_inside.load(Ordering::Acquire) == 0 {
            tcp::written(self.fd(), conn.has(flag::CLIENT))
        } else {
            Err(Errno::AGAIN)
        };
        match written {
            Ok(written) => {
                own.switch_offset.store(written, Ordering::Relaxed);
                // Release: pairs with the Acquire in `see_switch`: the offset is there.
                own.flags.fetch_or(flags::SWITCHED, Ordering::Release);
                tx.switch.switched(written);
            }
            Err(_) => conn.publish_tx(TxSwitch::Tcp),
        }
        tx.switch.in_ring()
    }

    /// Reader: goes on to the ring if the peer has switched. The mode now.
    #[inline(always)]
    pub(crate) fn see_switch(&self) -> Result<u32, Errno> {
        match self.conn.rx_mode.load(Ordering::Acquire) {
            MODE_HYBRID => self.look_for_switch(),
            mode => Ok(mode),
        }
    }

    fn look_for_switch(&self) -> Result<u32, Errno> {
        let conn = self.conn;
        let mode = MODE_HYBRID;
        let Some((_, peer)) = self.lines() else { return Ok(mode) };
        // Acquire: pairs with the Release in `switch_tx`.
        if peer.flags.load(Ordering::Acquire) & flags::SWITCHED == 0 {
            return Ok(mode);
        }
        let mut rx = conn.lock_rx();
        if rx.switch == RxSwitch::Tcp {
            self.count_rest(&mut rx, peer)?;
        }
        Ok(conn.rx_mode.load(Ordering::Acquire))
    }

    /// Reader that finds TCP empty before the offset of the switch: whether the program has read
    /// the rest behind the library's back.
    pub(crate) fn count_again(&self) -> Result<u32, Errno> {
        if let Some((_, peer)) = self.lines() {
            self.count_rest(&mut self.conn.lock_rx(), peer)?;
        }
        Ok(self.conn.rx_mode.load(Ordering::Acquire))
    }

    fn count_rest(&self, rx: &mut Rx, peer: &Line) -> Result<(), Errno> {
        let offset = peer.switch_offset.load(Ordering::Relaxed);
        // Bytes that still arrive make the count unstable: the next look finds it.
        let Ok(read) = tcp::read_so_far(self.fd(), tcp::BY_FIONREAD) else { return Ok(()) };
        if let Err(reason) = rx.switch.on_peer_switched(offset, read) {
            self.fault(reason);
            return Err(Errno(libc::ECONNRESET));
        }
        self.conn.publish_rx(rx.switch);
        Ok(())
    }

    /// The peer's socket has vanished with bytes unread, of which the kernel knows nothing: makes the own socket what a reset leaves. The connection is
    /// aborted by the kernel's own means (`tcp_disconnect`, ECONNRESET pending), then both directions
    /// are shut, which fails on it and is done all the same.
    #[cold]
    pub(crate) fn become_reset(&self) {
        self.break_apart();
        if self.link().is_some_and(|link| link.peer().done_writing) {
            // A reset after the peer's FIN is EPIPE, which is what a send says now anyway.
            let mut error: i32 = 0;
            let _ = raw::getsockopt(self.fd(), libc::SOL_SOCKET, libc::SO_ERROR, &mut error);
        }
    }

    /// The same where bytes for this side are lost: whoever reads on gets the error, and no end.
    #[cold]
    pub(crate) fn break_apart(&self) {
        self.conn.raise(flag::PEER_GONE | flag::FIN);
        self.conn.tx_mode.store(MODE_TCP, Ordering::Release);
        // AF_UNSPEC.
        let _ = raw::connect(self.fd(), &[0; 16]);
        let _ = raw::shutdown(self.fd(), libc::SHUT_RDWR);
    }

    /// The peer broke the rules: resets the connection, for both ends.
    #[cold]
    pub(crate) fn fault(&self, reason: Reason) {
        self.conn.reason.store(reason.0, Ordering::Relaxed);
        self.conn.raise(flag::PEER_GONE);
        // Not the machine's: what is sent from now on is for the kernel to refuse.
        self.conn.tx_mode.store(MODE_TCP, Ordering::Release);
        self.reset_on_close();
        // SHUT_RDWR: the program's next calls see the end of the connection.
        let _ = raw::shutdown(self.fd(), libc::SHUT_RDWR);
    }
}
