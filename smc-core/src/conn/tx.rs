//! Sending.
use super::feed::{Fed, Put, Waits};
use super::switch::Inside;
use super::wait::Woken;
use super::Ctx;
use crate::arena::{flag, phase, MODE_RING};
use crate::errno::{Errno, Ret};
use crate::reason::Reason;
use crate::ring::RingError;
use crate::sync::Ordering;
use crate::sys::iov::{input, Bufs};
use crate::sys::raw;
use crate::sys::thread::{keep_errno, outside};
use crate::transport::loopback::Loopback;
use crate::transport::{Link, Sender};
use libc::c_int;

/// Calls that only the kernel can make: urgent data, fast open, zero copy.
const KERNEL_ONLY: c_int = libc::MSG_OOB | libc::MSG_FASTOPEN | libc::MSG_ZEROCOPY;

/// `write`, `send` and their kin: one buffer.
#[inline(always)]
pub(crate) fn send(
    ctx: &Ctx<'_>,
    (base, len): (*mut u8, usize),
    flags: c_int,
    real: impl FnOnce() -> isize,
) -> Ret {
    let bufs = || Bufs::One(base, len);
    if !ctx.sends_through_ring(flags) {
        return over_tcp(ctx, &bufs(), flags, real);
    }
    let total = bufs().total()?;
    if total > ctx.process.config.autosplit_size as usize {
        return through_ring(ctx, &bufs(), flags, real);
    }
    match put_one(ctx, base, total) {
        (done, Fed::All) => Ok(ctx.sent_ring(done)),
        (done, fed) => {
            let place = Place { buffer: 0, skip: done, done };
            go_on(ctx, &bufs(), (flags, total), place, fed, real)
        }
    }
}

/// `writev`, `sendmsg` and their kin: several.
#[inline(always)]
pub(crate) fn send_vec(
    ctx: &Ctx<'_>,
    bufs: &Bufs,
    flags: c_int,
    real: impl FnOnce() -> isize,
) -> Ret {
    if ctx.sends_through_ring(flags) {
        through_ring(ctx, bufs, flags, real)
    } else {
        over_tcp(ctx, bufs, flags, real)
    }
}

#[inline(never)]
fn over_tcp(ctx: &Ctx<'_>, bufs: &Bufs, flags: c_int, real: impl FnOnce() -> isize) -> Ret {
    let conn = ctx.conn;
    if matches!(conn.phase(), phase::PLAIN | phase::FRESH | phase::LISTENER) {
        return Ok(ctx.sent_tcp(real()));
    }
    let urgent = flags & KERNEL_ONLY != 0;
    if urgent && conn.tx_mode.load(Ordering::Acquire) == MODE_RING {
        if flags & libc::MSG_OOB != 0 {
            ctx.link().into_iter().for_each(Link::say_urgent);
        }
        ctx.stop_sending_in_ring();
    }
    let _pin = ctx.pin()?;
    if conn.has(flag::LATE) {
        ctx.sends_late();
    }
    if conn.phase() == phase::IDLE {
        if urgent {
            ctx.fall_back(Reason::OPTUNSUPP);
        } else if bufs.total().is_ok_and(|total| total > 0) {
            ctx.offer(libc::MSG_MORE);
        }
    } else {
        ctx.progress();
        if !urgent && ctx.switch_tx() {
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
    /// Whether a call with these flags begins with the ring.
    #[inline(always)]
    fn sends_through_ring(&self, flags: c_int) -> bool {
        // Acquire: pairs with the store in `switch_tx`; looked at again under the lock.
        flags & KERNEL_ONLY == 0 && self.conn.tx_mode.load(Ordering::Acquire) == MODE_RING
    }

    pub(crate) fn sent_tcp(&self, sent: isize) -> isize {
        if let Ok(bytes) = u64::try_from(sent) {
            self.conn.tx_tcp_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.process.page().tcp_tx.add(bytes);
        }
        sent
    }

    /// A call has moved so many bytes through the ring.
    #[inline(always)]
    pub(super) fn sent_ring(&self, bytes: usize) -> isize {
        self.process.page().smc_tx.add(bytes as u64);
        bytes.cast_signed()
    }

    /// This end of the transport, once attached: the one place that says which.
    #[inline(always)]
    pub(crate) fn link(&self) -> Option<Loopback<'a>> {
        Some(Loopback::new(self.conn, &self.process.device, self.group()?))
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

#[inline(never)]
fn through_ring(ctx: &Ctx<'_>, bufs: &Bufs, flags: c_int, real: impl FnOnce() -> isize) -> Ret {
    let total = bufs.total()?;
    let mut place = Place::default();
    match put(ctx, bufs, total, &mut place) {
        Fed::All => Ok(ctx.sent_ring(place.done)),
        fed => go_on(ctx, bufs, (flags, total), place, fed, real),
    }
}

/// The rest of a call, after its first try.
#[inline(never)]
fn go_on(
    ctx: &Ctx<'_>,
    bufs: &Bufs,
    (flags, total): (c_int, usize),
    mut place: Place,
    mut fed: Fed,
    real: impl FnOnce() -> isize,
) -> Ret {
    let _pin = match ctx.pin() {
        Ok(pin) => pin,
        Err(errno) => return place.or(errno).map(|done| ctx.sent_ring(done)),
    };
    let mut waits = Waits::new(ctx, flags & libc::MSG_DONTWAIT != 0);
    loop {
        match fed {
            Fed::All => return Ok(ctx.sent_ring(place.done)),
            Fed::Kernel if place.done > 0 => {
                ctx.sent_ring(place.done);
                return Ok(rest_over_tcp(ctx, bufs, total, place, flags).cast_signed());
            }
            Fed::Kernel => return Ok(ctx.sent_tcp(real())),
            Fed::Failed(errno) => return place.or(errno).map(|done| ctx.sent_ring(done)),
            Fed::Full(full) => match waits.wait(full) {
                Ok(Woken::Restart) if place.done > 0 => return Ok(ctx.sent_ring(place.done)),
                Ok(_) => {}
                Err(errno) => return place.or(errno).map(|done| ctx.sent_ring(done)),
            },
        }
        fed = put_again(ctx, bufs, total, &mut place);
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

/// Copies what fits.
#[inline(always)]
fn put(ctx: &Ctx<'_>, bufs: &Bufs, total: usize, place: &mut Place) -> Fed {
    let mut feeding = match ctx.feed() {
        Ok(feeding) => feeding,
        Err(fed) => return fed,
    };
    let before = place.done;
    let segment = ctx.process.config.autosplit_size as usize;
    let end = fill(&mut feeding.sender(), bufs, total, segment, place);
    feeding.end(place.done - before, end)
}

#[inline(never)]
fn put_again(ctx: &Ctx<'_>, bufs: &Bufs, total: usize, place: &mut Place) -> Fed {
    put(ctx, bufs, total, place)
}

/// The first try of a call with one buffer that is no longer than a segment; how much was put.
#[inline(always)]
fn put_one(ctx: &Ctx<'_>, base: *const u8, total: usize) -> (usize, Fed) {
    let mut feeding = match ctx.feed() {
        Ok(feeding) => feeding,
        Err(fed) => return (0, fed),
    };
    let mut sender = feeding.sender();
    match sender.put(input(base, total), total) {
        Ok(done) => {
            sender.flush();
            let end = if done < total { Put::Part } else { Put::All };
            (done, feeding.end(done, end))
        }
        Err(RingError::Fault(_)) => (0, feeding.end(0, Put::Failed(Errno::FAULT))),
        Err(RingError::Violation(_)) => (0, feeding.end(0, Put::Violation)),
    }
}

/// Puts the program's bytes from `place` on, and publishes them.
#[inline(always)]
fn fill<S: Sender>(
    sender: &mut S,
    bufs: &Bufs,
    total: usize,
    segment: usize,
    place: &mut Place,
) -> Put {
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
                return Put::Failed(errno);
            }
        };
        match sender.put(input(base, len), segment) {
            Ok(n) => {
                place.done += n;
                place.skip += n;
                if n < len {
                    sender.flush();
                    return Put::Part;
                }
            }
            Err(RingError::Fault(_)) => {
                take_back(sender, place);
                return Put::Failed(Errno::FAULT);
            }
            Err(RingError::Violation(_)) => return Put::Violation,
        }
    }
    sender.flush();
    Put::All
}

/// After a bad buffer: what was put and is not published is not sent, as the kernel drops the packet
/// that it was filling.
#[cold]
fn take_back<S: Sender>(sender: &mut S, place: &mut Place) {
    place.done = place.done.saturating_sub(sender.unput());
}

#[cfg(test)]
mod tests;
