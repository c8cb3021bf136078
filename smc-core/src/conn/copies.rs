//! Copies on TCP of what the peer has not read in the ring.
//!
//! Who stops sending through the ring - it leaves, shuts down, closes - cannot be asked any more for
//! what lies unread there. So it lays a copy of that on TCP first, and says where: a reader that
//! stays reads the ring and passes over the copy, one that leaves passes over the part of it that
//! it has read, and whoever goes on with TCP alone finds the rest. Nobody waits for anybody.
use super::Ctx;
use crate::arena::{flag, Again, RxGuard, TxGuard, MODE_RING};
use crate::errno::Errno;
use crate::sync::Ordering;
use crate::sys::iov::output;
use crate::sys::{raw, tcp};
use crate::transport::{Copied, Link, Receiver, Sender};
use libc::c_int;

/// Bytes that go to TCP at a time.
pub(super) const CHUNK: usize = 16 << 10;
/// Looks at a count of the kernel's, or at a word of the peer's, that is just changing.
const LOOKS: u32 = 3_000;
/// After so many of them a pause is made between two.
const YIELDS: u32 = 1_000;
const PAUSE_NS: u64 = 1_000_000;

/// What a read up to an offset came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    All,
    /// Not all is there yet.
    NotYet,
    /// TCP ends before.
    Ended,
}

impl Ctx<'_> {
    /// Before this side sends its last through the ring: lays the copy, as far as TCP has room, once
    /// the peer is not owed anything, and gives the lock back under which nothing else is sent.
    /// `flags` are those of the sends.
    pub(super) fn lay_copies(&self, flags: c_int) -> TxGuard<'_> {
        loop {
            self.await_room();
            let mut tx = self.conn.lock_tx();
            if self.lay_copies_now(&mut tx, flags) {
                return tx;
            }
        }
    }

    /// False: the peer has just left, and is owed all that it has not read.
    pub(super) fn lay_copies_now(&self, tx: &mut TxGuard<'_>, flags: c_int) -> bool {
        let Some(link) = self.link() else { return true };
        if self.conn.tx_mode.load(Ordering::Acquire) != MODE_RING || link.said_copied().is_some() {
            return true;
        }
        if let Some(begun) = tx.again.filter(|again| again.copies) {
            // By a process of this side that has died in the middle: no more is copied than that.
            let len = self.gone_again(begun).unwrap_or(0);
            link.say_copied(Copied { offset: begun.offset, start: begun.start, len });
            return true;
        }
        link.say_copying();
        // After that word: if the peer has not left yet, it will hear of the copy.
        if link.peer().left {
            link.say_copied(Copied::PROMISE);
            return false;
        }
        let copied = self.copy_unread(tx, flags).unwrap_or_default();
        link.say_copied(copied);
        true
    }

    /// `None`: nothing could be copied, or nothing is unread.
    fn copy_unread(&self, tx: &mut TxGuard<'_>, flags: c_int) -> Option<Copied> {
        let link = self.link()?;
        let start = link.sender(tx).taken().ok()?;
        let nothing = Copied { offset: 0, start, len: 0 };
        let gone = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
        if !link.is_unread() || link.peer().ending || raw::poll_now(self.fd(), 0) & gone != 0 {
            return Some(nothing);
        }
        let Some(offset) = self.written() else { return Some(nothing) };
        tx.again = Some(Again { offset, start, copies: true });
        let mut done = 0;
        while let Ok(sent) = self.recall_some(tx, done, flags) {
            if sent == 0 {
                break;
            }
            done += sent;
        }
        if flags & libc::MSG_MORE == 0 {
            tcp::push(self.fd());
        }
        Some(Copied { offset, len: done, ..nothing })
    }

    /// Bytes that were written to TCP.
    fn written(&self) -> Option<u64> {
        let client = self.conn.has(flag::CLIENT);
        let written = (0..LOOKS).find_map(|_| match tcp::written(self.fd(), client) {
            Err(Errno::AGAIN) => {
                raw::yield_now();
                None
            }
            other => Some(other),
        });
        written?.ok()
    }

    /// How much of that has gone.
    fn gone_again(&self, begun: Again) -> Option<usize> {
        usize::try_from(self.written()?.checked_sub(begun.offset)?).ok()
    }

    /// Sends what the peer, which has left, has not taken, as far as TCP has room; true: all of it.
    pub(super) fn pay(&self, tx: &mut TxGuard<'_>) -> bool {
        let Some(link) = self.link() else { return true };
        let Ok(start) = link.sender(tx).taken() else { return true };
        if raw::poll_now(self.fd(), 0) & (libc::POLLERR | libc::POLLHUP) != 0 {
            // Nobody reads it.
            return true;
        }
        let begun = match tx.again {
            Some(begun) => begun,
            None => {
                let Some(offset) = self.written() else { return false };
                *tx.again.insert(Again { offset, start, copies: false })
            }
        };
        let Some(mut done) = self.gone_again(begun) else { return false };
        loop {
            tx.recalled = done;
            match self.recall_some(tx, done, 0) {
                Ok(0) => return true,
                Ok(sent) => done += sent,
                // The number goes in another thread: who closes the connection sends the rest.
                Err(Errno::AGAIN | Errno::BADF) => return false,
                // Nobody reads it.
                Err(_) => return true,
            }
        }
    }

    /// Sends a part of what the peer has not taken over TCP, without waiting; 0: nothing is left.
    fn recall_some(
        &self,
        tx: &mut TxGuard<'_>,
        done: usize,
        flags: c_int,
    ) -> Result<usize, Errno> {
        let mut buffer = [0_u8; CHUNK];
        let link = self.link().ok_or(Errno::PROTO)?;
        let room = output(buffer.as_mut_ptr(), CHUNK);
        let n = link.sender(tx).recall(done, room).map_err(|_| Errno::PROTO)?;
        if n == 0 {
            return Ok(0);
        }
        raw::send_user(self.fd(), buffer.as_ptr(), n, flags)
    }

    /// Reader that has taken all that the ring will ever hold: passes over the copies in TCP. How
    /// many bytes may be read there now.
    pub(super) fn pass_copies(&self, _rx: &mut RxGuard<'_>) -> usize {
        let Some(link) = self.link() else { return usize::MAX };
        let peer = link.peer();
        if peer.back_on_tcp {
            self.peer_went_back();
        }
        if !peer.copying || self.conn.has(flag::COPIES_PASSED) {
            return usize::MAX;
        }
        if !peer.copied {
            return self.pass_what_comes();
        }
        let copied = link.copied();
        if copied.len > 0 {
            // Bytes that are just coming: the next look finds them.
            let Ok(read) = self.tcp_read() else { return 0 };
            if read < copied.offset {
                // Written behind the peer's back before: the program's.
                return usize::try_from(copied.offset - read).unwrap_or(usize::MAX);
            }
            let end = copied.offset.saturating_add(copied.len as u64);
            if self.read_up_to(end, 0) == Read::NotYet {
                return 0;
            }
        }
        self.conn.raise(flag::COPIES_PASSED);
        usize::MAX
    }

    /// The peer is just copying, and has not said yet what. Before it says so it sends nothing else
    /// and does not end, unless it dies in the middle: then all that came are copies, and all that
    /// comes.
    fn pass_what_comes(&self) -> usize {
        if !self.died_copying() || self.read_up_to(u64::MAX, 0) != Read::Ended {
            return 0;
        }
        self.conn.raise(flag::COPIES_PASSED);
        usize::MAX
    }

    /// Whether the peer, which was copying, has died before it could say what it copied. TCP does not
    /// tell as long as its end is behind more copies than there is room for here.
    fn died_copying(&self) -> bool {
        let Some(link) = self.link() else { return false };
        (link.is_gone() || self.is_tcp_ended()) && !link.peer().copied
    }

    /// Whether TCP has told of the end of what the peer sends.
    pub(super) fn is_tcp_ended(&self) -> bool {
        let ends = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR;
        raw::poll_now(self.fd(), libc::POLLRDHUP) & ends != 0
    }

    /// Bytes that were read from TCP.
    fn tcp_read(&self) -> Result<u64, Errno> {
        let urgent = self.link().is_some_and(|link| link.peer().urgent);
        let mut inline: c_int = 0;
        let _ = raw::getsockopt(self.fd(), libc::SOL_SOCKET, libc::SO_OOBINLINE, &mut inline);
        let by_diag = || match self.own_socket() {
            Ok(Some(found)) => Ok(found.queued),
            _ => Err(Errno::AGAIN),
        };
        tcp::read_so_far(self.fd(), (urgent && inline == 0).then_some(by_diag))
    }

    /// Passes over copies if the ring is empty. True: nothing that TCP holds now is the program's.
    pub(super) fn pass_copies_of_empty(&self) -> bool {
        let Some(link) = self.link() else { return false };
        if !link.peer().copying || self.conn.has(flag::COPIES_PASSED) {
            return false;
        }
        let mut rx = self.conn.lock_rx();
        self.conn.rx_mode.load(Ordering::Acquire) == MODE_RING
            && link.receiver(&mut rx).queued() == Ok(0)
            && self.pass_copies(&mut rx) == 0
    }

    /// Bytes in the receive queue of TCP that are copies.
    pub(super) fn copies_queued(&self, queued: usize) -> usize {
        let peer = self.link().map(|link| (link.peer().copied, link.copied()));
        let Some((true, copied)) = peer else { return 0 };
        if copied.len == 0 || self.conn.has(flag::COPIES_PASSED) {
            return 0;
        }
        let Ok(read) = self.tcp_read() else { return 0 };
        let from = read.max(copied.offset);
        let end = copied.offset.saturating_add(copied.len as u64);
        let end = end.min(read.saturating_add(queued as u64));
        usize::try_from(end.saturating_sub(from)).unwrap_or(0)
    }

    /// Reads TCP up to an offset and drops it. `waits`: how often to wait for more, which is on its
    /// way already.
    fn read_up_to(&self, end: u64, mut waits: u32) -> Read {
        loop {
            let left = match self.tcp_read() {
                Ok(read) if read >= end => return Read::All,
                Ok(read) => usize::try_from(end - read).unwrap_or(usize::MAX),
                Err(_) => 0,
            };
            let ended = self.is_tcp_ended();
            let queued = tcp::queued_in(self.fd()).unwrap_or(0);
            // A read from an empty queue would take a pending error from the program. MSG_TRUNC: TCP
            // drops the bytes.
            if left > 0 && queued > 0 {
                let left = left.min(queued);
                let got = raw::recv_user(self.fd(), core::ptr::null_mut(), left, libc::MSG_TRUNC);
                if got.is_ok_and(|got| got > 0) {
                    continue;
                }
            }
            if ended && queued == 0 {
                return Read::Ended;
            }
            if waits == 0 {
                return Read::NotYet;
            }
            waits -= 1;
            let mut fds = [libc::pollfd { fd: self.fd(), events: libc::POLLIN, revents: 0 }];
            super::wait::poll_fds(self.process, &mut fds, Some(PAUSE_NS)).ok();
        }
    }

    /// Waits until a peer that is just copying has said what; it waits for nothing itself. False: it
    /// has died in the middle, or does not run.
    fn await_copied(&self) -> bool {
        let Some(link) = self.link() else { return false };
        for look in 0..LOOKS {
            if link.peer().copied {
                return true;
            }
            if look < YIELDS {
                raw::yield_now();
                continue;
            }
            if self.died_copying() {
                return false;
            }
            super::wait::poll_fds(self.process, &mut [], Some(PAUSE_NS)).ok();
        }
        false
    }

    /// This side is about to close and has read the ring: takes the peer's copies out of TCP, which
    /// would answer them with a reset.
    pub(super) fn read_last(&self) {
        let Some(link) = self.link() else { return };
        // Where it has left, or never came to the ring, TCP is somebody else's, or the program's.
        if self.conn.rx_mode.load(Ordering::Acquire) != MODE_RING {
            return;
        }
        link.say_ending();
        if !link.peer().copying || self.conn.has(flag::COPIES_PASSED) {
            return;
        }
        self.await_copied();
        let mut rx = self.conn.lock_rx();
        if self.pass_copies(&mut rx) == 0 {
            let copied = link.copied();
            self.read_up_to(copied.offset.saturating_add(copied.len as u64), LOOKS);
        }
    }

    /// Both directions are about to be shut: what comes over TCP from then on the kernel answers with a
    /// reset (`tcp_rcv_state_process`, RFC 1122 4.2.2.13). So the peer lays no copies from now on, and
    /// those that are on their way are waited for, and taken out: the ring has the same bytes.
    pub(super) fn await_copies(&self) {
        let Some(link) = self.link() else { return };
        if self.conn.rx_mode.load(Ordering::Acquire) != MODE_RING {
            return;
        }
        link.say_ending();
        if !link.peer().copying || self.conn.has(flag::COPIES_PASSED) || !self.await_copied() {
            return;
        }
        let _rx = self.conn.lock_rx();
        let copied = link.copied();
        if copied == Copied::PROMISE {
            return;
        }
        let begins = || self.tcp_read().is_ok_and(|read| read >= copied.offset);
        let end = copied.offset.saturating_add(copied.len as u64);
        if copied.len == 0 || (begins() && self.read_up_to(end, LOOKS) == Read::All) {
            self.conn.raise(flag::COPIES_PASSED);
        }
    }

    /// Reader that has said that it has left: whether TCP has, or will have, every byte from where
    /// it stands on, and nothing else.
    pub(super) fn finds_the_rest(&self, rx: &mut RxGuard<'_>) -> bool {
        let Some(link) = self.link() else { return true };
        let unread = |rx: &mut RxGuard<'_>| link.receiver(rx).queued().unwrap_or(usize::MAX);
        if !link.peer().copying {
            // The peer will see that we have left, and send again what we have not read, if it lives.
            let ended = self.is_tcp_ended();
            // Since it was asked it may have copied, or sent all again, and ended by the rules.
            let now = link.peer();
            if !now.copying {
                return !ended || now.back_on_tcp || unread(rx) == 0;
            }
        }
        if !self.await_copied() {
            return unread(rx) == 0;
        }
        let copied = link.copied();
        if copied == Copied::PROMISE {
            return true;
        }
        let taken = link.receiver(rx).since(copied.start).min(copied.len);
        if unread(rx) > copied.len - taken {
            return false;
        }
        if self.conn.has(flag::COPIES_PASSED) {
            // Taken out while the ring still had them, if it has any.
            return unread(rx) == 0;
        }
        let passed = taken == 0;
        let begun = || self.tcp_read().is_ok_and(|read| read >= copied.offset);
        let end = copied.offset.saturating_add(taken as u64);
        passed || (begun() && self.read_up_to(end, LOOKS) == Read::All)
    }
}
