//! `splice` between a pipe and a connection.
//!
//! Into a ring the pipe is read straight into the peer's memory; out of one the bytes are looked
//! at, written to the pipe, and taken as far as the pipe took them.
use super::feed::{Fed, Waits};
use super::file::load;
use super::wait::poll_fds;
use super::{rx, Ctx};
use crate::arena::{phase, MODE_RING};
use crate::errno::{Errno, Ret};
use crate::ring::Piece;
use crate::sync::Ordering;
use crate::sys::iov::{output, Bufs};
use crate::sys::{raw, tcp};
use crate::transport::{Link, Receiver};
use libc::{c_int, pollfd};

/// Bytes that leave a ring at a time.
const CHUNK: usize = 16 << 10;
/// A pipe has room for pages; one that can be written to has one at least.
const PAGE: usize = 4096;

/// How much a pipe takes for certain: what waits in it lies in pages that may be full or not, so that
/// only of an empty one more than one page is known to be free. A write that is longer than its room
/// would wait, which `splice` does not.
struct Room(usize);

impl Room {
    fn of(pipe: c_int) -> Self {
        if raw::is_nonblocking(pipe) {
            return Self(usize::MAX);
        }
        let empty = raw::poll_now(pipe, libc::POLLOUT) != 0 && tcp::queued_in(pipe) == Ok(0);
        let size = raw::fcntl(pipe, libc::F_GETPIPE_SZ, 0);
        Self(size.ok().filter(|_| empty).unwrap_or(PAGE))
    }

    /// What may be written once the pipe is writable.
    fn now(&self) -> usize {
        self.0.max(PAGE)
    }

    fn take(&mut self, written: usize) {
        if self.0 != usize::MAX {
            self.0 = self.0.saturating_sub(written.next_multiple_of(PAGE));
        }
    }
}

/// Waits until the pipe is readable or writable; EAGAIN if nothing may wait.
fn await_pipe(ctx: &Ctx<'_>, pipe: c_int, events: i16, nowait: bool) -> Result<(), Errno> {
    if raw::poll_now(pipe, events) != 0 {
        return Ok(());
    }
    if nowait || raw::is_nonblocking(pipe) {
        return Err(Errno::AGAIN);
    }
    let mut fds = [pollfd { fd: pipe, events, revents: 0 }];
    poll_fds(ctx.process, &mut fds, None).map(|_| ())
}

/// From a pipe to a connection.
pub(crate) fn to_conn(
    ctx: &Ctx<'_>,
    pipe: c_int,
    len: usize,
    flags: u32,
    real: impl FnOnce() -> isize,
) -> Ret {
    if let Some(inside) = ctx.file_over_tcp() {
        let sent = real();
        drop(inside);
        return Ok(ctx.sent_tcp_counted(sent));
    }
    let nowait = flags & libc::SPLICE_F_NONBLOCK != 0;
    let mut moved = 0;
    // SPLICE_F_NONBLOCK speaks of the pipe alone.
    let mut waits = Waits::new(ctx, false);
    while moved < len {
        // Only the first bytes are waited for.
        match await_pipe(ctx, pipe, libc::POLLIN, nowait || moved > 0) {
            Ok(()) => {}
            Err(_) if moved > 0 => break,
            Err(errno) => return Err(errno),
        }
        let (n, fed) = fill(ctx, pipe, len - moved);
        moved += n;
        match fed {
            Fed::All if n == 0 => break,
            Fed::All => {}
            Fed::Kernel if moved == 0 => return Ok(ctx.sent_tcp_counted(real())),
            Fed::Failed(errno) if moved == 0 => return Err(errno),
            Fed::Full(full) if moved == 0 => {
                waits.wait(full)?;
            }
            Fed::Kernel | Fed::Failed(_) | Fed::Full(_) => break,
        }
    }
    if moved > 0 {
        ctx.sent_ring(moved);
    }
    Ok(moved.cast_signed())
}

/// Reads what the pipe holds and the ring has room for; how much. Nothing: the pipe has ended.
fn fill(ctx: &Ctx<'_>, pipe: c_int, want: usize) -> (usize, Fed) {
    let want = want.min(ctx.process.config.autosplit_size as usize);
    // A pipe may hold more than fits before the ring's end: one read at a time.
    let read = |piece: Piece, skip: usize| match skip {
        0 => raw::read_nowait(pipe, piece.ptr, piece.len),
        _ => Ok(0),
    };
    match ctx.feed() {
        Ok(mut feeding) => {
            let (moved, put) = load(&mut feeding.sender(), want, read);
            (moved, feeding.end(moved, put))
        }
        Err(fed) => (0, fed),
    }
}

/// From a connection to a pipe.
pub(crate) fn from_conn(
    ctx: &Ctx<'_>,
    pipe: c_int,
    len: usize,
    flags: u32,
    real: impl FnOnce() -> isize,
) -> Ret {
    if matches!(ctx.conn.phase(), phase::PLAIN | phase::FRESH | phase::LISTENER) {
        return Ok(ctx.received_tcp(real()));
    }
    let nowait = flags & libc::SPLICE_F_NONBLOCK != 0;
    let mut buffer = [0_u8; CHUNK];
    let mut moved = 0;
    let mut room = Room::of(pipe);
    while moved < len {
        let want = Bufs::One(buffer.as_mut_ptr(), CHUNK.min(room.now()).min(len - moved));
        // Whether the socket waits is told by its own flag.
        let wait = if moved > 0 { libc::MSG_DONTWAIT } else { 0 };
        let seen = recv_self(ctx, &want, wait | libc::MSG_PEEK);
        let seen = match seen {
            Ok(0) => break,
            Ok(n) => n,
            Err(_) if moved > 0 => break,
            Err(errno) => return Err(errno),
        };
        match await_pipe(ctx, pipe, libc::POLLOUT, nowait || moved > 0) {
            Ok(()) => {}
            Err(_) if moved > 0 => break,
            Err(errno) => return Err(errno),
        }
        let taken = match hand_over(ctx, pipe, buffer.as_mut_ptr(), seen) {
            Ok(Some(n)) => n,
            // Somebody else has taken it, or it comes again over TCP.
            Ok(None) => continue,
            Err(_) if moved > 0 => break,
            Err(errno) => return Err(errno),
        };
        moved += taken;
        room.take(taken);
        if taken < seen {
            break;
        }
    }
    Ok(moved.cast_signed())
}

/// Puts up to `len` bytes, which have just been looked at, into the pipe, and takes them out of the
/// connection. `None`: they are not there any more.
fn hand_over(
    ctx: &Ctx<'_>,
    pipe: c_int,
    buffer: *mut u8,
    len: usize,
) -> Result<Option<usize>, Errno> {
    let mut rx = ctx.conn.lock_rx();
    if ctx.conn.rx_mode.load(Ordering::Acquire) == MODE_RING {
        // Under the lock: who leaves the ring meanwhile would get what has been put into the pipe again.
        let Some(link) = ctx.link() else { return Err(Errno::PROTO) };
        let mut receiver = link.receiver(&mut rx);
        let queued = receiver.ready().unwrap_or(0);
        if queued > 0 {
            let seen = receiver.peek(output(buffer, len.min(queued)), 0);
            let seen = seen.map_err(|_| Errno::PROTO)?;
            let put = raw::write_nowait(pipe, buffer, seen)?;
            let _ = receiver.discard(put);
            receiver.done();
            ctx.conn.count_rx(&rx, put);
            drop(rx);
            ctx.process.page().smc_rx.add(put as u64);
            return Ok(Some(put));
        }
    }
    drop(rx);
    // A pipe that can be written to takes a page.
    match recv_self(ctx, &Bufs::One(buffer, len.min(PAGE)), libc::MSG_DONTWAIT) {
        Ok(0) | Err(Errno::AGAIN) => Ok(None),
        Ok(got) => {
            let mut put = 0;
            while put < got {
                // Unless somebody else has filled it.
                await_pipe(ctx, pipe, libc::POLLOUT, false)?;
                put += raw::write_nowait(pipe, buffer.wrapping_add(put), got - put)?;
            }
            Ok(Some(got))
        }
        Err(errno) => Err(errno),
    }
}

/// A receiving call of ours on the program's behalf.
fn recv_self(ctx: &Ctx<'_>, bufs: &Bufs, flags: c_int) -> Result<usize, Errno> {
    let (base, len) = bufs.get(0)?;
    let got = rx::recv_vec(ctx, bufs, flags, || {
        // SAFETY: requires a valid buffer: the caller's own.
        unsafe { (ctx.process.real.recv)(ctx.fd(), base.cast(), len, flags) }
    })?;
    usize::try_from(got).map_err(|_| crate::sys::thread::last_errno())
}
