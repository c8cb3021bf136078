//! The end of a connection.
use super::Ctx;
use crate::arena::{flag, phase, MODE_RING, MODE_TCP};
use crate::errno::Ret;
use crate::proto::Stop;
use crate::reason::Reason;
use crate::shm::layout::flags;
use crate::sync::Ordering;
use crate::sys::raw;
use crate::transport::{Link, Receiver};
use libc::c_int;

/// Looks at a socket whose end has arrived before it is gone.
const DYING: u32 = 256;

impl Ctx<'_> {
    /// `shutdown`: what was sent is in the ring already; TCP carries the FIN.
    pub(crate) fn shutdown(&self, how: c_int, real: impl FnOnce() -> isize) -> Ret {
        let conn = self.conn;
        if conn.phase() != phase::ATTACHED {
            return Ok(real());
        }
        let ends_tx = how == libc::SHUT_WR || how == libc::SHUT_RDWR;
        let ends_rx = how == libc::SHUT_RD || how == libc::SHUT_RDWR;
        if ends_tx {
            // Under the lock: what other threads send is before this, or fails. The FIN follows.
            let _tx = self.lay_copies(libc::MSG_MORE);
            conn.raise(flag::TX_SHUT);
            self.say_the_end(flags::DONE_WRITING);
        }
        let ended_tx = ends_tx || conn.has(flag::TX_SHUT);
        let ended_rx = ends_rx || conn.has(flag::RX_SHUT);
        if ended_tx && ended_rx {
            self.await_copies();
        }
        let result = real();
        if result == 0 && ends_rx {
            conn.raise(flag::RX_SHUT);
        }
        // Threads of this side that wait in a call on it; the kernel tells the epoll instances.
        if let Some(group) = self.group() {
            group.announce_own(conn, &self.process.device);
        }
        Ok(result)
    }

    /// The peer's readers learn of the end, which TCP is about to bring, and are told of it before what
    /// other connections bring later.
    fn say_the_end(&self, how: u32) {
        let Some(group) = self.group() else { return };
        let (own, _) = group.lines(self.conn);
        // Release: pairs with the Acquire of a reader; all that was sent is there.
        own.flags.fetch_or(how, Ordering::Release);
        group.note_end(self.conn);
    }

    /// The last descriptor of the last process is about to be closed.
    pub(crate) fn last_close(&self) {
        let conn = self.conn;
        if conn.phase() == phase::ATTACHED {
            self.send_last();
            self.say_the_end(flags::CLOSED | flags::DONE_WRITING);
        }
        if matches!(conn.phase(), phase::OFFERED | phase::PLAIN) && !conn.has(flag::CLIENT) {
            self.process.forecast.lived_short();
        }
        self.count();
        self.process.device.asides.drop_of(self.index);
        let stop = conn.lock_setup().stop(Reason::PEER_GONE);
        match stop {
            Stop::Done => {}
            Stop::Cancel | Stop::Leave => {
                self.cancel_request();
                self.leave_slot();
            }
        }
        conn.tx_mode.store(MODE_TCP, Ordering::Release);
        // Calls of one step are over, and who comes later sees that the number has gone.
        drop(conn.lock_tx());
        drop(conn.lock_rx());
        self.process.device.arena.release(self.index);
    }

    /// `connect` to no address has taken the connection apart, and TCP has sent a reset. The socket may
    /// connect again; it stays on TCP then.
    #[cold]
    pub(crate) fn disconnected(&self) {
        let conn = self.conn;
        if matches!(conn.phase(), phase::FRESH | phase::LISTENER) {
            return;
        }
        self.count();
        if conn.has(flag::MARKED) {
            self.unmark_all();
        }
        if conn.phase() == phase::ATTACHED {
            self.say_the_end(flags::CLOSED | flags::DONE_WRITING);
        }
        self.process.device.asides.drop_of(self.index);
        {
            let _tx = conn.lock_tx();
            let _rx = conn.lock_rx();
            conn.raise(flag::TX_TCP | flag::RX_TCP);
            conn.lower(flag::CONSENTED | flag::PEER_GONE | flag::FIN);
            conn.lower(flag::TX_SHUT | flag::RX_SHUT | flag::TCP_NEWS);
            self.sends_over_tcp();
            conn.rx_mode.store(MODE_TCP, Ordering::Release);
        }
        let group = self.group().filter(|_| conn.phase() == phase::ATTACHED);
        let stop = conn.lock_setup().stop(Reason::PEER_GONE);
        self.handshake(|setup| setup.connects(Some(Reason::RECONNECTED)));
        if let Some(group) = group {
            group.announce_own(conn, &self.process.device);
        }
        match stop {
            Stop::Done => {}
            Stop::Cancel | Stop::Leave => {
                self.cancel_request();
                self.leave_slot();
            }
        }
    }

    /// The socket is about to be closed: what the peer has not read is on TCP as well, or it is reset.
    pub(crate) fn send_last(&self) {
        // Without a descriptor: the socket is closed already, by an exec.
        if self.conn.phase() != phase::ATTACHED || self.fd() < 0 {
            return;
        }
        if self.has_unread() {
            self.reset_on_close();
            return;
        }
        self.lay_last();
        self.read_last();
    }

    /// What the peer has not read is on TCP as well.
    pub(crate) fn lay_last(&self) {
        if self.conn.phase() != phase::ATTACHED {
            return;
        }
        drop(self.lay_copies(libc::MSG_MORE));
    }

    /// Whether the peer's socket is no more although the peer has not closed it, and bytes of this
    /// side lie unread in the ring: the kernel, which knows nothing of those, sent an end where it
    /// sends a reset. Then the own socket is made what a reset leaves; true. `first`: the end has
    /// just been seen, and the socket may be on its way.
    #[cold]
    pub(crate) fn has_died_unread(&self, first: bool) -> bool {
        let unread = || {
            self.link().is_some_and(|link| {
                let peer = link.peer();
                // One that has only shut its sending direction down may read on, if it lives.
                let ended = peer.closed || (peer.ended() && !link.is_gone());
                !ended && !peer.left && link.is_unread()
            })
        };
        if self.conn.tx_mode.load(Ordering::Acquire) != MODE_RING || !unread() {
            return false;
        }
        for _ in 0..if first { DYING } else { 1 } {
            let gone = match self.peer_socket() {
                Ok(found) => found.is_none_or(|found| found.inode == 0),
                Err(_) => self.link().is_some_and(Link::is_gone),
            };
            if gone {
                // What it said or read last is seen now.
                let reset = unread();
                if reset {
                    self.become_reset();
                }
                return reset;
            }
            raw::yield_now();
        }
        false
    }

    /// Whether the program leaves bytes unread: then TCP sends a reset, not an end.
    pub(crate) fn has_unread(&self) -> bool {
        if self.conn.rx_mode.load(Ordering::Acquire) != MODE_RING {
            return false;
        }
        let mut rx = self.conn.lock_rx();
        let queued = self.receiver(&mut rx).map(|mut receiver| {
            receiver.ready().map_or(0, |n| n)
        });
        queued.is_some_and(|n| n > 0)
    }

    /// Takes the connection apart: who reads it next gets an error, not an end that looks like that of
    /// the stream.
    #[cold]
    pub(crate) fn break_off(&self) {
        // AF_UNSPEC.
        let _ = raw::connect(self.fd(), &[0; 16]);
    }

    /// Makes the kernel send a reset when the socket is closed.
    pub(crate) fn reset_on_close(&self) {
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        let _ = raw::setsockopt(self.fd(), libc::SOL_SOCKET, libc::SO_LINGER, &linger);
    }

    /// Counts how the connection ended up, once.
    pub(crate) fn count(&self) {
        let conn = self.conn;
        if matches!(conn.phase(), phase::FRESH | phase::LISTENER) || conn.raise(flag::COUNTED) {
            return;
        }
        let reason = match Reason(conn.reason.load(Ordering::Relaxed)) {
            Reason(0) => Reason::PEERNOSMC,
            reason => reason,
        };
        self.process.page().count_fallback(reason);
    }
}
