//! From TCP to the ring: each direction by itself, at a recorded offset, with the reader's word.
//!
//! A reader consents when every wait of its side looks at the ring: no thread is inside a kernel
//! wait for this socket, and the program waits by means that we see. The sender then records how
//! many bytes it wrote to TCP and goes on in the ring; the reader takes TCP up to that offset.
use super::Ctx;
use crate::arena::{flag, phase, Conn, MODE_DRAIN, MODE_HYBRID, MODE_RING, MODE_TCP};
use crate::errno::Errno;
use crate::reason::Reason;
use crate::shm::layout::flags;
use crate::sync::{fence_after_rmw, AtomicU32, Ordering};
use crate::sys::{raw, tcp};

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
pub(crate) fn enter_rx(conn: &Conn) -> Option<Inside<'_>> {
    let inside = Inside::enter(&conn.inside);
    (!conn.has(flag::CONSENTED)).then_some(inside)
}

impl Ctx<'_> {
    /// Whether the program waits for this socket by means that we see.
    fn waits_are_seen(&self) -> bool {
        self.conn.has(flag::SEEN_WAIT) || !raw::is_nonblocking(self.fd)
    }

    /// The reader's word, if it can be given now.
    pub(crate) fn consent(&self) {
        let conn = self.conn;
        if conn.has(flag::CONSENTED) || conn.phase() != phase::ATTACHED || !self.waits_are_seen() {
            return;
        }
        if conn.raise(flag::CONSENTED) {
            return;
        }
        // Pairs with the fence in `Inside::enter`.
        fence_after_rmw();
        if conn.inside.load(Ordering::Acquire) != 0 {
            conn.lower(flag::CONSENTED);
            return;
        }
        conn.rx_mode.store(MODE_HYBRID, Ordering::Release);
        if conn.has(flag::IN_EPOLL) {
            self.process.epolls.now_shared(self);
        }
        let mut low_water: i32 = 1;
        let _ = raw::getsockopt(self.fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, &mut low_water);
        conn.low_water.store(low_water.unsigned_abs().max(1), Ordering::Relaxed);
        if let Some((own, _)) = conn.lines() {
            // Release: pairs with the Acquire in `switch_tx` of the peer; all of the above is done.
            own.flags.fetch_or(flags::RX_CONSENT, Ordering::Release);
        }
    }

    /// Sender: switches if it may. True: the ring is the way now.
    pub(crate) fn switch_tx(&self) -> bool {
        let conn = self.conn;
        let Some((own, peer)) = conn.lines() else { return false };
        // Acquire: pairs with the Release in the peer's `consent`.
        let agreed = peer.flags.load(Ordering::Acquire) & flags::RX_CONSENT != 0;
        let wrong = conn.has(flag::TX_SHUT | flag::PEER_GONE);
        if conn.phase() != phase::ATTACHED || !agreed || wrong || !conn.has(flag::CONSENTED) {
            return false;
        }
        let _tx = conn.lock_tx();
        if conn.tx_mode.load(Ordering::Acquire) == MODE_RING {
            return true;
        }
        // From here on a thread that enters the kernel to send sees that it must not.
        conn.tx_mode.store(MODE_RING, Ordering::SeqCst);
        crate::sync::full_fence();
        let written = if conn.tx_inside.load(Ordering::Acquire) == 0 {
            tcp::written(self.fd, conn.has(flag::CLIENT))
        } else {
            Err(Errno::AGAIN)
        };
        match written {
            Ok(written) => {
                own.switch_offset.store(written, Ordering::Relaxed);
                // Release: pairs with the Acquire in `see_switch`: the offset is there.
                own.flags.fetch_or(flags::SWITCHED, Ordering::Release);
                true
            }
            Err(_) => {
                conn.tx_mode.store(MODE_TCP, Ordering::SeqCst);
                false
            }
        }
    }

    /// Reader: goes on to the ring if the peer has switched. The mode now.
    pub(crate) fn see_switch(&self) -> Result<u32, Errno> {
        let conn = self.conn;
        let mode = conn.rx_mode.load(Ordering::Acquire);
        if mode != MODE_HYBRID {
            return Ok(mode);
        }
        let Some((_, peer)) = conn.lines() else { return Ok(mode) };
        // Acquire: pairs with the Release in `switch_tx`.
        if peer.flags.load(Ordering::Acquire) & flags::SWITCHED == 0 {
            return Ok(mode);
        }
        let mut rx = conn.lock_rx();
        if conn.rx_mode.load(Ordering::Acquire) != MODE_HYBRID {
            return Ok(conn.rx_mode.load(Ordering::Acquire));
        }
        let offset = peer.switch_offset.load(Ordering::Relaxed);
        // Bytes that still arrive make the count unstable: the next look finds it.
        let Ok(read) = tcp::read_so_far(self.fd) else { return Ok(mode) };
        let Some(rest) = offset.checked_sub(read) else {
            self.fault(Reason::PROTOCOL);
            return Err(Errno(libc::ECONNRESET));
        };
        rx.drain = rest;
        let next = if rest == 0 { MODE_RING } else { MODE_DRAIN };
        conn.rx_mode.store(next, Ordering::Release);
        Ok(next)
    }

    /// The peer broke the rules: resets the connection, for both ends.
    #[cold]
    pub(crate) fn fault(&self, reason: Reason) {
        self.conn.reason.store(reason.0, Ordering::Relaxed);
        self.conn.raise(flag::PEER_GONE);
        self.conn.tx_mode.store(MODE_TCP, Ordering::Release);
        self.reset_on_close();
        // SHUT_RDWR: the program's next calls see the end of the connection.
        let _ = raw::shutdown(self.fd, libc::SHUT_RDWR);
    }
}
