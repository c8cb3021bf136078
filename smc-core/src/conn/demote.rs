//! Back to TCP in mid-stream.
//!
//! *Sending*: this side says that its ring ends where it is filled to and goes on over TCP; the
//! reader drains the ring, then reads TCP. *Receiving*: this side says how far it has read the ring;
//! the peer sends what lies behind that once more, over TCP, and goes on there. Neither waits for
//! the other, so a process may do both and be replaced by another program at once. *Asking*: this side
//! goes on living and reads its ring to the end; the peer goes back to TCP with its next call.
use super::Ctx;
use crate::arena::{flag, phase, MODE_HYBRID, MODE_RING, MODE_TCP};
use crate::errno::Errno;
use crate::proto::Stop;
use crate::reason::Reason;
use crate::shm::layout::flags;
use crate::sync::Ordering;
use crate::sys::iov::output;
use crate::sys::raw;
use crate::transport::{Link, Peer, Receiver, Sender};

/// Bytes that go back to TCP at a time.
const CHUNK: usize = 16 << 10;
/// Longest wait for room in the TCP socket, at a time, and how often.
const ROOM_NS: u64 = 100_000_000;
const WAITS: u32 = 300;
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
        if matches!(reason, Reason::STDIO | Reason::EXEC) && self.cannot_come_again() {
            // Whoever reads it by calls that we see loses nothing.
            return;
        }
        self.stop_sending_in_ring();
        self.stop_reading_the_ring();
        self.conn.reason.store(reason.0, Ordering::Relaxed);
    }

    /// Whether bytes lie unread in the ring that the peer cannot send again: it has ended its stream.
    pub(crate) fn cannot_come_again(&self) -> bool {
        if self.conn.phase() != phase::ATTACHED || self.conn.has(flag::RX_TCP) {
            return false;
        }
        let Some(link) = self.link() else { return false };
        let peer = link.peer();
        (peer.done_writing || peer.closed)
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
        let _tx = conn.lock_tx();
        conn.raise(flag::TX_TCP);
        if conn.tx_mode.load(Ordering::Acquire) == MODE_RING {
            if let Some(link) = self.link() {
                link.say_back_on_tcp();
            }
            conn.tx_mode.store(MODE_TCP, Ordering::Release);
        }
    }

    fn stop_reading_the_ring(&self) {
        let conn = self.conn;
        let mut rx = conn.lock_rx();
        conn.raise(flag::RX_TCP);
        if !conn.has(flag::CONSENTED) {
            return;
        }
        if let Some(link) = self.link() {
            link.receiver(&mut rx).leave();
            link.say_left();
        }
        conn.rx_mode.store(MODE_TCP, Ordering::Release);
        conn.lower(flag::CONSENTED);
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

    /// The peer reads the ring no more: what it has not read goes over TCP, and the rest too.
    #[cold]
    pub(crate) fn honour_leave(&self) {
        let conn = self.conn;
        let mut tx = conn.lock_tx();
        conn.raise(flag::TX_TCP);
        if conn.tx_mode.load(Ordering::Acquire) != MODE_RING {
            return;
        }
        let Some(link) = self.link() else { return };
        let mut buffer = [0_u8; CHUNK];
        let mut done = 0;
        let mut waits = 0;
        loop {
            let room = output(buffer.as_mut_ptr(), CHUNK);
            let Ok(n) = link.sender(&mut tx).recall(done, room) else {
                drop(tx);
                self.fault(Reason::PROTOCOL);
                return;
            };
            if n == 0 {
                break;
            }
            match raw::send_user(self.fd(), buffer.as_ptr(), n, 0) {
                Ok(sent) => done += sent,
                Err(Errno::AGAIN) if waits < WAITS => {
                    let events = libc::POLLOUT;
                    let mut fds = [libc::pollfd { fd: self.fd(), events, revents: 0 }];
                    super::wait::poll_fds(self.process, &mut fds, Some(ROOM_NS)).ok();
                    waits += 1;
                }
                // Nobody reads it, for very long: it must not look as if this were all.
                Err(Errno::AGAIN) => {
                    drop(tx);
                    self.fault(Reason::INTERR);
                    return;
                }
                // Nobody can.
                Err(_) => break,
            }
        }
        link.say_back_on_tcp();
        conn.tx_mode.store(MODE_TCP, Ordering::Release);
    }

    /// The peer shall send over TCP from now on. What the ring holds is read from it first, and then the
    /// kernel's calls are the program's own again.
    pub(crate) fn ask_for_tcp(&self) {
        self.conn.raise(flag::RX_TCP);
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
        let _rx = conn.lock_rx();
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
        let _tx = conn.lock_tx();
        conn.raise(flag::TX_TCP);
        if let Some(link) = self.link() {
            link.say_back_on_tcp();
        }
        conn.tx_mode.store(MODE_TCP, Ordering::Release);
    }

    /// Honours it if the peer has said that it leaves, or asks for TCP: before anything is put into the ring, and after. What is
    /// put while the peer leaves is seen by one of the two.
    #[inline(always)]
    pub(crate) fn see_leave(&self) {
        let peer = self.link().map(Link::peer).unwrap_or_default();
        if peer.asks_for_tcp {
            self.honour_ask();
        }
        if self.must_leave(peer) {
            self.honour_leave();
        }
    }

    /// Whether it has said so and that is not honoured yet.
    #[inline(always)]
    pub(crate) fn must_leave(&self, peer: Peer) -> bool {
        peer.left && self.conn.tx_mode.load(Ordering::Acquire) == MODE_RING
    }
}
