//! Receiving.
//!
//! In each mode the order is the stream's: what TCP still holds from before the peer's switch, then
//! the ring, then what a peer wrote to TCP behind its own library's back, then the end.
mod fill;
mod soon;

use super::feed::LOOK_US;
use super::switch::enter_rx;
use super::wait::{Deadline, Patience, Woken};
use super::Ctx;
use crate::arena::{flag, phase, Rx, MODE_DRAIN, MODE_HYBRID, MODE_RING, MODE_TCP};
use crate::errno::{Errno, Ret};
use crate::proto::ReadFrom;
use crate::reason::Reason;
use crate::ring::RingError;
use crate::sync::Ordering;
use crate::sys::iov::{output, Bufs};
use crate::sys::thread::outside;
use crate::sys::{clock, raw};
use crate::transport::loopback::LoopbackRx;
use crate::transport::{Link, Receiver};
use core::ops::{Deref, DerefMut};
use fill::Fill;
use soon::{soon, Soon, SPIN};
use libc::c_int;

/// Flags of `recv` that only the kernel can answer.
const KERNEL_ONLY: c_int = libc::MSG_OOB | libc::MSG_ERRQUEUE;
/// Flags of a call that may have to do more than take what is there.
const SPECIAL: c_int = KERNEL_ONLY | libc::MSG_PEEK | libc::MSG_TRUNC | libc::MSG_WAITALL;

/// `read`, `recv` and their kin: one buffer.
#[inline(always)]
pub(crate) fn recv(
    ctx: &Ctx<'_>,
    (base, len): (*mut u8, usize),
    flags: c_int,
    real: impl FnOnce() -> isize,
) -> Ret {
    let bufs = Bufs::One(base, len);
    if flags & SPECIAL == 0 && ctx.conn.rx_mode.load(Ordering::Acquire) == MODE_RING {
        let total = bufs.total()?;
        let take = |receiver: &mut LoopbackRx<'_>| receiver.take(output(base, total)).ok();
        match soon(ctx, total, flags, take) {
            Soon::Got(got) => return Ok(got),
            Soon::Not { looked } => return in_any_case(ctx, &bufs, flags, looked, real),
        }
    }
    in_any_case(ctx, &bufs, flags, false, real)
}

/// `readv`, `recvmsg` and their kin: several.
#[inline(always)]
pub(crate) fn recv_vec(
    ctx: &Ctx<'_>,
    bufs: &Bufs,
    flags: c_int,
    real: impl FnOnce() -> isize,
) -> Ret {
    if flags & SPECIAL == 0 && ctx.conn.rx_mode.load(Ordering::Acquire) == MODE_RING {
        let total = bufs.total()?;
        let mut fill = Fill::new(bufs, flags, total);
        let take = |receiver: &mut LoopbackRx<'_>| {
            fill.take(receiver).ok()?;
            Some(fill.done)
        };
        match soon(ctx, total, flags, take) {
            Soon::Got(got) => return Ok(got),
            Soon::Not { looked } => return in_any_case(ctx, bufs, flags, looked, real),
        }
    }
    in_any_case(ctx, bufs, flags, false, real)
}

/// `looked`: the call has waited for the ring for a while already.
#[inline(never)]
fn in_any_case(
    ctx: &Ctx<'_>,
    bufs: &Bufs,
    flags: c_int,
    looked: bool,
    real: impl FnOnce() -> isize,
) -> Ret {
    if flags & KERNEL_ONLY != 0 {
        Ok(real())
    } else if ctx.conn.rx_mode.load(Ordering::Acquire) == MODE_TCP {
        over_tcp(ctx, bufs, flags, real)
    } else {
        past_consent(ctx, bufs, flags, looked, real)
    }
}

#[inline(never)]
fn over_tcp(ctx: &Ctx<'_>, bufs: &Bufs, flags: c_int, real: impl FnOnce() -> isize) -> Ret {
    let conn = ctx.conn;
    if matches!(conn.phase(), phase::PLAIN | phase::FRESH | phase::LISTENER) {
        return Ok(ctx.received_tcp(real()));
    }
    let _pin = ctx.pin()?;
    match conn.phase() {
        phase::VIRGIN => {
            let peek = |bytes: &mut [u8; crate::wire::clc::loopback::ACCEPT_LEN], flags| {
                let inside = enter_rx(conn);
                // SAFETY: requires a valid buffer: it is a local of the caller.
                let got = outside(|| unsafe {
                    (ctx.process.real.recv)(ctx.fd(), bytes.as_mut_ptr().cast(), bytes.len(), flags)
                });
                drop(inside);
                got
            };
            let first = ctx.first_bytes(flags & libc::MSG_DONTWAIT != 0, peek);
            if let Err(answer) = first {
                return answer;
            }
            if ctx.has_lost_its_number() {
                // The program's own call has nothing to go by any more.
                return past_consent(ctx, bufs, flags, false, real);
            }
        }
        phase::IDLE => ctx.offer_aside(),
        _ => {}
    }
    ctx.progress();
    if conn.rx_mode.load(Ordering::Acquire) != MODE_TCP {
        return past_consent(ctx, bufs, flags, false, real);
    }
    let Some(inside) = enter_rx(conn) else { return past_consent(ctx, bufs, flags, false, real) };
    let got = real();
    drop(inside);
    if let (Ok(bytes), 0) = (usize::try_from(got), flags & libc::MSG_PEEK) {
        ctx.traffic(bytes, true);
    }
    Ok(ctx.received_by(flags, got))
}

impl<'a> Ctx<'a> {
    pub(crate) fn received_tcp(&self, got: isize) -> isize {
        if let Ok(bytes) = u64::try_from(got) {
            self.conn.rx_tcp_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.process.page().tcp_rx.add(bytes);
        }
        got
    }

    /// What a call with these flags has brought over TCP.
    fn received_by(&self, flags: c_int, got: isize) -> isize {
        if flags & libc::MSG_PEEK == 0 {
            self.received_tcp(got)
        } else {
            got
        }
    }

    /// The receiving half of the transport.
    #[inline(always)]
    pub(crate) fn receiver<'t>(&self, rx: &'t mut Rx) -> Option<impl Receiver + use<'t, 'a>>
    where
        Self: 't,
    {
        Some(self.link()?.receiver(rx))
    }
}

/// A receiving call after this side has consented.
struct Call<'c> {
    ctx: &'c Ctx<'c>,
    fill: Fill<'c>,
    /// Bytes that make the call return without waiting.
    target: usize,
    /// What TCP said of the end of the stream; final if the ring is empty afterwards.
    end: Option<Errno>,
    /// TCP held something when it was last looked at.
    tcp_there: bool,
}

impl<'c> Deref for Call<'c> {
    type Target = Fill<'c>;
    #[inline(always)]
    fn deref(&self) -> &Fill<'c> {
        &self.fill
    }
}

impl DerefMut for Call<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.fill
    }
}

/// "The stream ended with a FIN": no error number.
const FIN: Errno = Errno(0);

enum Step {
    Return,
    Again,
    Empty,
}

#[inline(never)]
fn past_consent(
    ctx: &Ctx<'_>,
    bufs: &Bufs,
    flags: c_int,
    mut looked: bool,
    real: impl FnOnce() -> isize,
) -> Ret {
    let total = bufs.total()?;
    let low = ctx.conn.low_water.load(Ordering::Relaxed) as usize;
    let wanted = if flags & libc::MSG_WAITALL != 0 { total } else { low.min(total) };
    let fill = Fill::new(bufs, flags, total);
    let mut call = Call { ctx, fill, target: wanted.max(1), end: None, tcp_there: false };
    let mut deadline = None;
    let mut patience = Patience::new(ctx, flags & libc::MSG_DONTWAIT != 0);
    let _pin = ctx.pin()?;
    loop {
        if flags & libc::MSG_PEEK != 0 {
            // Each look is a whole one.
            call.restart();
        }
        if ctx.conn.has(flag::RX_TCP) && call.done == 0 && ctx.is_done_with_the_ring() {
            return Ok(ctx.received_by(flags, real()));
        }
        let step = match call.step() {
            Ok(step) => step,
            Err(errno) => return call.or(errno),
        };
        match step {
            Step::Return => return Ok(call.done.cast_signed()),
            Step::Again => continue,
            Step::Empty => {}
        }
        if !patience.may_spin() {
            return call.or(Errno::AGAIN);
        }
        let link = ctx.link();
        let known = link.map_or(0, |link| link.receiver(&mut ctx.conn.lock_rx()).pos());
        let skip = if flags & libc::MSG_PEEK != 0 { call.done as u64 } else { 0 };
        // What a peer that left is owed waits for room in TCP.
        let owing = ctx.is_owing();
        let came = || {
            link.is_none_or(|link| link.filled() != known.wrapping_add(skip) || link.peer().closed)
                || (!owing && ctx.is_owing())
        };
        let ring = ctx.conn.rx_mode.load(Ordering::Acquire) == MODE_RING;
        let looks = ring && call.flags & libc::MSG_PEEK == 0 && !core::mem::take(&mut looked);
        if looks && SPIN.run(ctx.process, came) {
            continue;
        }
        if !patience.may_sleep() {
            return call.or(Errno::AGAIN);
        }
        let deadline =
            *deadline.get_or_insert_with(|| Deadline::of_socket(ctx.fd(), libc::SO_RCVTIMEO));
        // The offset of a switch counts as news as well.
        let news = || came() || (!ring && ctx.see_switch() == Ok(MODE_RING));
        let events = libc::POLLIN | libc::POLLRDHUP | if owing { libc::POLLOUT } else { 0 };
        match ctx.sleep(events, deadline, news) {
            Ok(Woken::Restart) if call.done > 0 => return call.or(Errno::INTR),
            Ok(Woken::Look | Woken::Restart) => {}
            Ok(Woken::Timeout) => return call.or(Errno::AGAIN),
            Err(errno) => return call.or(errno),
        }
    }
}

impl Call<'_> {
    #[inline]
    fn step(&mut self) -> Result<Step, Errno> {
        self.ctx.see_leave();
        match self.ctx.see_switch()? {
            MODE_RING => self.read_ring(),
            MODE_DRAIN => self.drain(),
            MODE_HYBRID => self.read_tcp(usize::MAX),
            // Back on TCP for good.
            _ => match self.end.take() {
                Some(FIN) => Ok(Step::Return),
                Some(errno) => Err(errno),
                None => self.read_tcp(usize::MAX),
            },
        }
    }

    /// The ring, then the end of the stream.
    #[inline]
    fn read_ring(&mut self) -> Result<Step, Errno> {
        let ctx = self.ctx;
        let mut rx = ctx.conn.lock_rx();
        if ctx.conn.rx_mode.load(Ordering::Acquire) != MODE_RING {
            // Another thread has just left the ring.
            return Ok(Step::Again);
        }
        if rx.error != 0 {
            let error = core::mem::take(&mut rx.error);
            return Err(Errno(error));
        }
        let before = self.done;
        let Some(link) = ctx.link() else { return Err(Errno(libc::ECONNRESET)) };
        let mut receiver = link.receiver(&mut rx);
        let taken = self.fill.take(&mut receiver);
        receiver.done();
        if self.done > before && !self.peeks() {
            ctx.conn.count_rx(&rx, self.done - before);
            ctx.process.page().smc_rx.add((self.done - before) as u64);
            let copied = link.peer().copying && !ctx.conn.has(flag::COPIES_PASSED);
            if copied && link.receiver(&mut rx).queued() == Ok(0) {
                // At once: with them unread the end of this process would be a reset.
                ctx.pass_copies(&mut rx);
            }
        }
        match taken {
            Ok(()) => {}
            Err(RingError::Fault(_)) => return Err(Errno::FAULT),
            Err(RingError::Violation(_)) => {
                drop(rx);
                ctx.fault(Reason::PROTOCOL);
                return Err(Errno(libc::ECONNRESET));
            }
        }
        if self.done >= self.target.min(self.total) && (self.done > 0 || self.total == 0) {
            if self.total > 0 {
                return Ok(Step::Return);
            }
            // No room was offered: returns at once if there is anything.
            if matches!(link.receiver(&mut rx).ready(), Ok(n) if n > 0) {
                return Ok(Step::Return);
            }
        }
        if let Some(end) = self.end.take() {
            // The ring was empty after TCP had told of the end.
            if end == FIN || self.done > 0 {
                rx.error = if self.done > 0 { end.0 } else { 0 };
                return Ok(Step::Return);
            }
            return Err(end);
        }
        if core::mem::take(&mut self.tcp_there) {
            // The ring was empty after TCP had been seen to hold something: nothing is overtaken.
            return match ctx.pass_copies(&mut rx) {
                0 => Ok(Step::Empty),
                usize::MAX => {
                    drop(rx);
                    self.read_tcp(usize::MAX)
                }
                // Under the lock: what is behind is not the program's.
                most => self.read_tcp(most),
            };
        }
        if self.must_look(&mut rx) && raw::poll_now(ctx.fd(), libc::POLLIN | libc::POLLRDHUP) != 0 {
            self.tcp_there = true;
            return Ok(Step::Again);
        }
        Ok(Step::Empty)
    }

    /// Whether it is time to look at the TCP socket although the ring is the way.
    #[inline]
    fn must_look(&self, rx: &mut Rx) -> bool {
        let ctx = self.ctx;
        let over = ctx.link().is_some_and(|link| link.peer().ended());
        let now = clock::ticks();
        if over
            || ctx.conn.has(flag::TCP_NEWS | flag::FIN | flag::PEER_GONE | flag::RX_SHUT)
            || now.wrapping_sub(rx.looked) >= clock::us_to_ticks(LOOK_US)
        {
            rx.looked = now;
            ctx.conn.lower(flag::TCP_NEWS);
            return true;
        }
        false
    }

    /// What TCP holds from before the switch.
    fn drain(&mut self) -> Result<Step, Errno> {
        let conn = self.ctx.conn;
        let ReadFrom::Tcp { at_most: Some(rest) } = conn.lock_rx().switch.where_to_read() else {
            return Ok(Step::Again);
        };
        let before = self.done;
        let step = self.read_tcp(usize::try_from(rest).unwrap_or(usize::MAX))?;
        if !self.peeks() && self.done > before {
            let mut rx = conn.lock_rx();
            rx.switch.took((self.done - before) as u64);
            conn.publish_rx(rx.switch);
        }
        let end = self.end.take();
        if end.is_some_and(|end| end != FIN) {
            return Err(Errno(libc::ECONNRESET));
        }
        if end.is_some() || matches!(step, Step::Empty) {
            if self.ctx.count_again()? == MODE_RING {
                return Ok(Step::Again);
            }
            if end.is_some() {
                // The peer said that it wrote more than it did.
                self.ctx.fault(Reason::PROTOCOL);
                return Err(Errno(libc::ECONNRESET));
            }
        }
        Ok(step)
    }

    /// The TCP socket, without waiting; at most `limit` bytes.
    fn read_tcp(&mut self, limit: usize) -> Result<Step, Errno> {
        let ctx = self.ctx;
        let hybrid = ctx.conn.rx_mode.load(Ordering::Acquire) == MODE_HYBRID;
        while self.done < self.total || self.total == 0 {
            let (base, len) = self.bufs.part(self.buffer, self.skip, self.total - self.done)?;
            if len == 0 && self.total > 0 {
                self.buffer += 1;
                self.skip = 0;
                continue;
            }
            let passed = self.flags & (libc::MSG_PEEK | libc::MSG_TRUNC);
            match raw::recv_user(ctx.fd(), base, len.min(limit), passed) {
                Ok(0) if self.total == 0 => return Ok(Step::Return),
                Ok(0) => {
                    let first = !ctx.conn.raise(flag::FIN);
                    if ctx.has_died_unread(first) {
                        continue;
                    }
                    // The peer may have switched, or sent more through the ring, before it ended.
                    if hybrid && ctx.see_switch()? == MODE_HYBRID {
                        return Ok(Step::Return);
                    }
                    self.end = Some(FIN);
                    return Ok(Step::Again);
                }
                Ok(n) => {
                    self.done += n;
                    self.skip += n;
                    if !self.peeks() {
                        ctx.received_tcp(n.cast_signed());
                        if hybrid {
                            ctx.traffic(n, true);
                        }
                    }
                    let more = !self.peeks() && self.done < self.target && n < limit;
                    let full = self.skip >= len && n < limit && !self.peeks();
                    if more || (full && self.done < self.total) {
                        continue;
                    }
                    let enough = self.done >= self.target;
                    return Ok(if enough || self.peeks() { Step::Return } else { Step::Again });
                }
                Err(Errno::AGAIN) => {
                    if self.done >= self.target {
                        return Ok(Step::Return);
                    }
                    // The switch is looked for once more before anybody sleeps.
                    if hybrid && ctx.see_switch()? != MODE_HYBRID {
                        return Ok(Step::Again);
                    }
                    return Ok(Step::Empty);
                }
                Err(errno) if hybrid || errno == Errno::FAULT => return Err(errno),
                Err(errno) => {
                    // Said once; what is left of the socket is the kernel's to tell.
                    ctx.conn.raise(flag::PEER_GONE);
                    self.end = Some(errno);
                    return Ok(Step::Again);
                }
            }
        }
        Ok(Step::Return)
    }
}
