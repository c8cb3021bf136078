//! Putting bytes into the ring: what sending, `sendfile` and `splice` have in common.
use super::spin::Spin;
use super::wait::{Deadline, Patience, Woken};
use super::Ctx;
use crate::arena::{flag, TxGuard, MODE_RING};
use crate::errno::Errno;
use crate::reason::Reason;
use crate::sync::Ordering;
use crate::sys::{clock, raw};
use crate::transport::loopback::{Loopback, LoopbackTx};
use crate::transport::{Link, Sender};

/// Longest time between two looks at the TCP socket of a busy sender or receiver.
pub(super) const LOOK_US: u64 = 1_000;
/// The same for a sender that is registered in an epoll instance, which has its end from the kernel: of
/// a thousand connections each would be looked at before each reply.
const LOOK_IN_EPOLL_US: u64 = 100_000;

static SPIN: Spin = Spin::new();

/// How far a source has filled the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// All that it has to give.
    All,
    /// As much as fits.
    Part,
    /// The source cannot be read.
    Failed(Errno),
    /// The peer breaks the rules.
    Violation,
}

/// What a try to put bytes into the ring came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fed {
    /// All bytes are there.
    All,
    /// The ring is full; the consumer stood here.
    Full(u64),
    /// The kernel's business: the peer is gone or this direction is shut.
    Kernel,
    /// The source cannot be read.
    Failed(Errno),
}

/// A try to put bytes into the ring, under the lock.
#[derive(Debug)]
pub(super) struct Feeding<'c> {
    ctx: &'c Ctx<'c>,
    link: Loopback<'c>,
    tx: TxGuard<'c>,
    drained: u64,
}

impl Ctx<'_> {
    /// Begins to put bytes into the ring, if that is the way now.
    #[inline(always)]
    pub(super) fn feed(&self) -> Result<Feeding<'_>, Fed> {
        let conn = self.conn;
        let Some(link) = self.link() else { return Err(Fed::Kernel) };
        if link.peer().wants_tcp() && !self.see_leave() {
            return Err(Fed::Full(link.drained()));
        }
        let mut tx = conn.lock_tx();
        if !self.is_current() {
            return Err(Fed::Failed(Errno::BADF));
        }
        self.look_at_peer(&mut tx);
        if conn.tx_mode.load(Ordering::Acquire) != MODE_RING {
            return Err(Fed::Kernel);
        }
        let peer = link.peer();
        // First: it has left since it was asked and is owed what it has not read, which nothing may
        // overtake; a socket that was passed on is closed here at once, and the stream goes on.
        if peer.left {
            return Err(Fed::Full(link.drained()));
        }
        if peer.closed {
            conn.raise(flag::PEER_GONE);
        }
        if conn.has(flag::TX_SHUT | flag::PEER_GONE) {
            return Err(Fed::Kernel);
        }
        // Before the copy: what the consumer frees meanwhile is seen as progress.
        let drained = link.drained();
        Ok(Feeding { ctx: self, link, tx, drained })
    }

    /// Looks whether the peer is still there, now and then and when there was news.
    #[inline(always)]
    fn look_at_peer(&self, tx: &mut TxGuard<'_>) {
        let now = clock::ticks();
        let passed = now.wrapping_sub(tx.looked);
        if self.conn.has(flag::TCP_NEWS)
            || (passed >= clock::us_to_ticks(LOOK_US)
                && (passed >= clock::us_to_ticks(LOOK_IN_EPOLL_US)
                    || !self.conn.has(flag::IN_EPOLL)))
        {
            tx.looked = now;
            self.look_at_tcp();
        }
    }

    #[cold]
    fn look_at_tcp(&self) {
        let revents = raw::poll_now(self.fd(), libc::POLLRDHUP);
        self.judge_end(revents);
    }

    /// What events of the TCP socket mean for the sending direction. True: the socket has changed
    /// by that, and is to be looked at again.
    pub(super) fn judge_end(&self, revents: i16) -> bool {
        let mut changed = false;
        if revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 {
            self.conn.raise(flag::PEER_GONE);
        } else if revents & libc::POLLRDHUP != 0 {
            // A peer that shuts its sending direction down says so in its line; one that closed
            // or died does not, and only TCP can answer what is sent to it.
            let peer = self.link().map(Link::peer).unwrap_or_default();
            if !peer.done_writing || peer.closed {
                self.conn.raise(flag::PEER_GONE);
            }
            let first = !self.conn.raise(flag::FIN);
            changed = self.has_died_unread(first);
        }
        if self.link().is_some_and(Link::is_gone) {
            self.conn.raise(flag::PEER_GONE);
        }
        changed
    }

    /// Asks the peer to tell when there is space; true: there is some already, or the kernel has
    /// to answer.
    fn block_tx(&self) -> bool {
        if self.is_owing() {
            return self.see_leave();
        }
        let mut tx = self.conn.lock_tx();
        if self.conn.tx_mode.load(Ordering::Acquire) != MODE_RING {
            // Another thread took it back to TCP.
            return true;
        }
        if self.conn.has(flag::TCP_NEWS) {
            self.look_at_tcp();
        }
        if self.conn.has(flag::PEER_GONE | flag::TX_SHUT) {
            return true;
        }
        self.link().is_none_or(|link| {
            if link.is_gone() {
                // After the FIN of one that has shut its sending direction down TCP tells nothing
                // of its death.
                self.has_died_unread(false);
                self.conn.raise(flag::PEER_GONE);
                return true;
            }
            // A peer that reads the ring no more makes no room there.
            link.sender(&mut tx).block().unwrap_or(true) || link.peer().left
        })
    }

    /// Sleeps until there may be room: in the ring, or in TCP for what a peer that left is owed.
    fn sleep_for_room(&self, deadline: Deadline) -> Result<Woken, Errno> {
        let owing = self.is_owing();
        let end = if self.conn.has(flag::FIN) { 0 } else { libc::POLLRDHUP };
        let room = if owing { libc::POLLOUT } else { 0 };
        self.sleep(end | room, deadline, || self.block_tx() || self.is_owing() != owing)
    }
}

impl Feeding<'_> {
    /// What takes the bytes.
    #[inline(always)]
    pub(super) fn sender(&mut self) -> LoopbackTx<'_> {
        self.link.sender(&mut self.tx)
    }

    /// So many bytes have been put.
    #[inline(always)]
    pub(super) fn end(self, bytes: usize, put: Put) -> Fed {
        let Self { ctx, link, tx, drained } = self;
        ctx.conn.count_tx(&tx, bytes);
        drop(tx);
        if link.peer().wants_tcp() {
            ctx.see_leave();
        }
        match put {
            Put::All => Fed::All,
            Put::Part => Fed::Full(drained),
            Put::Failed(errno) => Fed::Failed(errno),
            Put::Violation => {
                ctx.fault(Reason::PROTOCOL);
                Fed::Kernel
            }
        }
    }
}

/// The waits of one call, which holds its connection, for room in the ring.
#[derive(Debug)]
pub(super) struct Waits<'c> {
    ctx: &'c Ctx<'c>,
    patience: Patience<'c>,
    deadline: Option<Deadline>,
}

impl<'c> Waits<'c> {
    /// `nowait`: by the call's own flags; else the descriptor's count.
    pub(super) fn new(ctx: &'c Ctx<'c>, nowait: bool) -> Self {
        Self { ctx, patience: Patience::new(ctx, nowait), deadline: None }
    }

    /// Waits until there may be room, the consumer having stood at `full`. EAGAIN: the call must not
    /// wait, or not any longer.
    pub(super) fn wait(&mut self, full: u64) -> Result<Woken, Errno> {
        let ctx = self.ctx;
        let link = ctx.link();
        let moved = || link.is_none_or(|link| link.drained() != full);
        let spins = self.patience.may_spin();
        if (spins && SPIN.run(ctx.process, moved)) || ctx.block_tx() {
            return Ok(Woken::Look);
        }
        if !self.patience.may_sleep() {
            return Err(Errno::AGAIN);
        }
        let of_socket = || Deadline::of_socket(ctx.fd(), libc::SO_SNDTIMEO);
        match ctx.sleep_for_room(*self.deadline.get_or_insert_with(of_socket))? {
            Woken::Timeout => Err(Errno::AGAIN),
            woken => Ok(woken),
        }
    }
}
