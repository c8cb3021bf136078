//! Sending.
use super::switch::Inside;
use super::spin::Spin;
use super::wait::{Deadline, Woken};
use super::Ctx;
use crate::arena::{flag, phase, TxGuard, MODE_RING};
use crate::errno::{Errno, Ret};
use crate::reason::Reason;
use crate::ring::RingError;
use crate::sync::Ordering;
use crate::sys::iov::{input, Bufs};
use crate::sys::thread::{keep_errno, outside};
use crate::sys::{clock, raw};
use crate::transport::loopback::Loopback;
use crate::transport::{Link, Sender};
use libc::c_int;

/// Longest time between two looks at the TCP socket of a busy sender or receiver.
pub(crate) const LOOK_US: u64 = 1_000;

static SPIN: Spin = Spin::new();

/// `write`, `send` and their kin.
#[inline]
pub(crate) fn send(ctx: &Ctx<'_>, bufs: &Bufs, flags: c_int, real: impl FnOnce() -> isize) -> Ret {
    // Acquire: pairs with the store in `switch_tx`; looked at again under the lock.
    if ctx.conn.tx_mode.load(Ordering::Acquire) == MODE_RING {
        if flags & KERNEL_ONLY != 0 {
            if flags & libc::MSG_OOB != 0 {
                ctx.link().into_iter().for_each(Link::say_urgent);
            }
            ctx.stop_sending_in_ring();
            return over_tcp(ctx, bufs, flags, real);
        }
        through_ring(ctx, bufs, flags, real)
    } else {
        over_tcp(ctx, bufs, flags, real)
    }
}

/// Calls that only the kernel can make: urgent data, fast open, zero copy.
const KERNEL_ONLY: c_int = libc::MSG_OOB | libc::MSG_FASTOPEN | libc::MSG_ZEROCOPY;

fn over_tcp(ctx: &Ctx<'_>, bufs: &Bufs, flags: c_int, real: impl FnOnce() -> isize) -> Ret {
    let conn = ctx.conn;
    if matches!(conn.phase(), phase::PLAIN | phase::FRESH | phase::LISTENER) {
        return Ok(ctx.sent_tcp(real()));
    }
    let _pin = ctx.pin();
    if conn.has(flag::LATE) {
        ctx.sends_late();
    }
    if conn.phase() == phase::IDLE {
        if flags & KERNEL_ONLY != 0 {
            ctx.fall_back(Reason::OPTUNSUPP);
        } else if bufs.total().is_ok_and(|total| total > 0) {
            ctx.offer(libc::MSG_MORE);
        }
    } else {
        ctx.progress();
        if flags & KERNEL_ONLY == 0 && ctx.switch_tx() {
            return through_ring(ctx, bufs, flags, real);
        }
    }
    let inside = Inside::enter(&conn.tx_inside);
    if conn.tx_mode.load(Ordering::Acquire) == MODE_RING {
        drop(inside);
        return through_ring(ctx, bufs, flags, real);
    }
    let sent = real();
    drop(inside);
    if let Ok(bytes) = usize::try_from(sent) {
        ctx.traffic(bytes, false);
    }
    Ok(ctx.sent_tcp(sent))
}

impl<'a> Ctx<'a> {
    pub(crate) fn sent_tcp(&self, sent: isize) -> isize {
        if let Ok(bytes) = u64::try_from(sent) {
            self.conn.tx_tcp_bytes.fetch_add(bytes, Ordering::Relaxed);
            if let Some(page) = self.process.page() {
                page.tcp_tx.add(bytes);
            }
        }
        sent
    }

    fn sent_ring(&self, bytes: usize) -> isize {
        self.conn.tx_ring_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if let Some(page) = self.process.page() {
            page.smc_tx.add(bytes as u64);
        }
        bytes.cast_signed()
    }

    /// This end of the transport, once attached: the one place that says which.
    #[inline(always)]
    pub(crate) fn link(&self) -> Option<Loopback<'a>> {
        Loopback::new(self.conn, &self.process.device, self.group()?)
    }

    /// Looks whether the peer is still there, now and then and when there was news.
    fn look_at_peer(&self, tx: &mut TxGuard<'_>) {
        let now = clock::ticks();
        let news = self.conn.has(flag::TCP_NEWS);
        if !news && now.wrapping_sub(tx.looked) < clock::us_to_ticks(LOOK_US) {
            return;
        }
        tx.looked = now;
        let revents = raw::poll_now(self.fd(), libc::POLLRDHUP);
        self.judge_end(revents);
    }

    /// What events of the TCP socket mean for the sending direction. True: the socket has changed
    /// by that, and is to be looked at again.
    pub(crate) fn judge_end(&self, revents: i16) -> bool {
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

    /// Sleeps until there may be room: in the ring, or in TCP for what a peer that left is owed.
    pub(crate) fn sleep_for_room(&self, deadline: Deadline) -> Result<Woken, Errno> {
        let owing = self.is_owing();
        let end = if self.conn.has(flag::FIN) { 0 } else { libc::POLLRDHUP };
        let room = if owing { libc::POLLOUT } else { 0 };
        self.sleep(end | room, deadline, || self.block_tx() || self.is_owing() != owing)
    }
}

/// Which way bytes go that are sent now.
pub(super) enum Way<'a> {
    Ring(Loopback<'a>),
    /// The peer has left the ring since it was asked, and is owed what it has not read there: nothing
    /// may overtake that.
    Owes(Loopback<'a>),
    /// The peer is gone or this direction is shut, or on TCP again.
    Kernel,
}

impl<'a> Ctx<'a> {
    /// Where to send, under the lock.
    #[inline(always)]
    pub(super) fn way(&self, _tx: &TxGuard<'_>) -> Way<'a> {
        if self.conn.tx_mode.load(Ordering::Acquire) != MODE_RING {
            return Way::Kernel;
        }
        let Some(link) = self.link() else { return Way::Kernel };
        let peer = link.peer();
        // First: a socket that was passed on is closed here at once, and the stream goes on.
        if peer.left {
            return Way::Owes(link);
        }
        if peer.closed {
            self.conn.raise(flag::PEER_GONE);
        }
        if self.conn.has(flag::TX_SHUT | flag::PEER_GONE) {
            return Way::Kernel;
        }
        Way::Ring(link)
    }
}

/// Where a copy stands in the program's buffers.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    buffer: usize,
    skip: usize,
    done: usize,
}

impl Place {
    /// How a call ends that cannot go on: with what it moved, if it moved any.
    fn or(&self, errno: Errno) -> Result<usize, Errno> {
        match self.done {
            0 => Err(errno),
            done => Ok(done),
        }
    }
}

fn through_ring(ctx: &Ctx<'_>, bufs: &Bufs, flags: c_int, real: impl FnOnce() -> isize) -> Ret {
    let total = bufs.total()?;
    let mut place = Place::default();
    let mut deadline = None;
    let mut nonblocking = None;
    let mut pin = None;
    loop {
        let full = match step(ctx, bufs, total, &mut place) {
            Step::Done => return Ok(ctx.sent_ring(place.done)),
            Step::Full(cons) => cons,
            Step::Kernel if place.done > 0 => {
                ctx.sent_ring(place.done);
                return Ok(rest_over_tcp(ctx, bufs, total, place, flags).cast_signed());
            }
            Step::Kernel => return Ok(ctx.sent_tcp(real())),
            Step::Failed(errno) => return place.or(errno).map(|done| ctx.sent_ring(done)),
        };
        let dontwait = flags & libc::MSG_DONTWAIT != 0
            || *nonblocking.get_or_insert_with(|| raw::is_nonblocking(ctx.fd()));
        if dontwait {
            if ctx.block_tx() {
                continue;
            }
            return place.or(Errno::AGAIN).map(|done| ctx.sent_ring(done));
        }
        if pin.is_none() {
            pin = Some(ctx.pin()?);
        }
        let link = ctx.link();
        let moved = || link.is_none_or(|link| link.drained() != full);
        if SPIN.run(ctx.process, moved) || ctx.block_tx() {
            continue;
        }
        let deadline =
            *deadline.get_or_insert_with(|| Deadline::of_socket(ctx.fd(), libc::SO_SNDTIMEO));
        match ctx.sleep_for_room(deadline) {
            Ok(Woken::Restart) if place.done > 0 => return Ok(ctx.sent_ring(place.done)),
            Ok(Woken::Look | Woken::Restart) => {}
            Ok(Woken::Timeout) => return place.or(Errno::AGAIN).map(|done| ctx.sent_ring(done)),
            Err(errno) => return place.or(errno).map(|done| ctx.sent_ring(done)),
        }
    }
}

/// A part is in the ring, or was sent again after the peer has left that: where the call may wait
/// the rest goes over TCP, since the kernel sends all of it then. How much was sent in all.
#[cold]
fn rest_over_tcp(ctx: &Ctx<'_>, bufs: &Bufs, total: usize, mut place: Place, flags: c_int) -> usize {
    let waits = flags & libc::MSG_DONTWAIT == 0 && !raw::is_nonblocking(ctx.fd());
    if !waits || ctx.conn.has(flag::TX_SHUT | flag::PEER_GONE) {
        return place.done;
    }
    while place.done < total {
        let part = bufs.part(place.buffer, place.skip, total - place.done);
        let Ok((base, len)) = part else { break };
        if len == 0 {
            place.buffer += 1;
            place.skip = 0;
            continue;
        }
        let send = || ctx.process.real.send_part(ctx.fd(), base, len, flags);
        let Ok(sent) = usize::try_from(keep_errno(|| outside(send))) else { break };
        ctx.sent_tcp(sent.cast_signed());
        place.done += sent;
        place.skip += sent;
    }
    place.done
}

enum Step {
    Done,
    /// The ring is full; the consumer stood here.
    Full(u64),
    /// The kernel's business: the peer is gone or this direction is shut.
    Kernel,
    Failed(Errno),
}

/// Copies what fits.
#[inline]
fn step(ctx: &Ctx<'_>, bufs: &Bufs, total: usize, place: &mut Place) -> Step {
    let conn = ctx.conn;
    if !ctx.see_leave() {
        return Step::Full(ctx.link().map_or(0, Link::drained));
    }
    let mut tx = conn.lock_tx();
    ctx.look_at_peer(&mut tx);
    let link = match ctx.way(&tx) {
        Way::Ring(link) => link,
        Way::Owes(link) => return Step::Full(link.drained()),
        Way::Kernel => return Step::Kernel,
    };
    // Before the copy: what the consumer frees meanwhile is seen as progress.
    let drained = link.drained();
    let segment = ctx.process.config.autosplit_size as usize;
    let filled = fill(&mut link.sender(&mut tx), bufs, total, segment, place);
    drop(tx);
    ctx.see_leave();
    match filled {
        Fill::All => Step::Done,
        Fill::Part => Step::Full(drained),
        Fill::Failed(errno) => Step::Failed(errno),
        Fill::Violation => {
            ctx.fault(Reason::PROTOCOL);
            Step::Kernel
        }
    }
}

enum Fill {
    All,
    /// As much as fits.
    Part,
    /// The program's buffers are not there.
    Failed(Errno),
    Violation,
}

/// Puts the program's bytes from `place` on, and publishes them.
#[inline]
fn fill<S: Sender>(
    sender: &mut S,
    bufs: &Bufs,
    total: usize,
    segment: usize,
    place: &mut Place,
) -> Fill {
    while place.done < total {
        let part = bufs.part(place.buffer, place.skip, total - place.done);
        let (base, len) = match part {
            Ok((_, 0)) => {
                place.buffer += 1;
                place.skip = 0;
                continue;
            }
            Ok(part) => part,
            Err(errno) => {
                take_back(sender, place);
                return Fill::Failed(errno);
            }
        };
        match sender.put(input(base, len), segment) {
            Ok(n) => {
                place.done += n;
                place.skip += n;
                if n < len {
                    sender.flush();
                    return Fill::Part;
                }
            }
            Err(RingError::Fault(_)) => {
                take_back(sender, place);
                return Fill::Failed(Errno::FAULT);
            }
            Err(RingError::Violation(_)) => return Fill::Violation,
        }
    }
    sender.flush();
    Fill::All
}

/// After a bad buffer: what was put and is not published is not sent, as the kernel drops the packet
/// that it was filling.
#[cold]
fn take_back<S: Sender>(sender: &mut S, place: &mut Place) {
    place.done = place.done.saturating_sub(sender.unput());
}

impl Ctx<'_> {
    /// Asks the peer to tell when there is space; true: there is some already, or the kernel has
    /// to answer.
    pub(crate) fn block_tx(&self) -> bool {
        if self.is_owing() {
            return self.see_leave();
        }
        let mut tx = self.conn.lock_tx();
        if self.conn.tx_mode.load(Ordering::Acquire) != MODE_RING {
            // Another thread took it back to TCP.
            return true;
        }
        if self.conn.has(flag::PEER_GONE | flag::TX_SHUT | flag::TCP_NEWS) {
            let news = self.conn.has(flag::TCP_NEWS);
            if news {
                let revents = raw::poll_now(self.fd(), libc::POLLRDHUP);
                self.judge_end(revents);
            }
            if self.conn.has(flag::PEER_GONE | flag::TX_SHUT) {
                return true;
            }
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
}

#[cfg(test)]
mod tests;
