//! Connections: setting up, sending, receiving, options.
use super::life::count_connection;
use super::Ret;
use crate::arena::{flag, phase, Setup};
use crate::conn::{file, rx, tx, Ctx};
use crate::errno::Errno;
use crate::fdtable::{self, Entry};
use crate::process;
use crate::reason::Reason;
use crate::sys::iov::{store, Bufs};
use crate::sys::thread;
use libc::{c_int, c_ulong, c_void, iovec, msghdr, sockaddr, socklen_t};

#[inline(always)]
fn context(fd: c_int) -> Option<Ctx<'static>> {
    Ctx::of(process::get()?, fd)
}

/// `connect`.
pub fn connect(
    fd: c_int,
    _addr: *const sockaddr,
    _len: socklen_t,
    real: impl FnOnce() -> isize,
) -> Ret {
    let Some(ctx) = context(fd) else { return Ok(real()) };
    if ctx.conn.phase() == phase::FRESH {
        ctx.mark();
    }
    let result = real();
    if ctx.conn.phase() == phase::FRESH && (result == 0 || is_under_way()) {
        count_connection(ctx.process);
        let plain = if ctx.conn.has(flag::MARKED) { None } else { Some(Reason::MODE_OFF) };
        ctx.handshake(|setup| setup.connects(plain));
    }
    Ok(result)
}

/// Whether a connect that failed goes on by itself.
fn is_under_way() -> bool {
    matches!(thread::last_errno().0, libc::EINPROGRESS | libc::EINTR)
}

/// `listen`.
pub fn listen(fd: c_int, real: impl FnOnce() -> isize) -> Ret {
    let result = real();
    if let (Some(ctx), 0) = (context(fd), result) {
        ctx.handshake(Setup::listens);
    }
    Ok(result)
}
/// `shutdown`.
pub fn shutdown(fd: c_int, how: c_int, real: impl FnOnce() -> isize) -> Ret {
    match context(fd) {
        Some(ctx) => ctx.shutdown(how, real),
        None => Ok(real()),
    }
}

/// One buffer in.
#[inline]
pub fn recv(
    fd: c_int,
    buf: *mut c_void,
    len: usize,
    flags: c_int,
    real: impl FnOnce() -> isize,
) -> Ret {
    match context(fd) {
        Some(ctx) => rx::recv(&ctx, &Bufs::One(buf.cast(), len), flags, real),
        None => Ok(real()),
    }
}
/// Several buffers in.
pub fn recv_vec(
    fd: c_int,
    iov: *const iovec,
    count: c_int,
    flags: c_int,
    real: impl FnOnce() -> isize,
) -> Ret {
    match context(fd) {
        Some(ctx) => rx::recv(&ctx, &Bufs::vector(iov, count)?, flags, real),
        None => Ok(real()),
    }
}
/// `recvmsg`, and each message of `recvmmsg`.
pub fn recv_msg(
    fd: c_int,
    msg: *mut msghdr,
    flags: c_int,
    real: impl FnOnce() -> isize,
) -> Ret {
    let Some(ctx) = context(fd) else { return Ok(real()) };
    let (bufs, mut header) = Bufs::message(msg)?;
    let mut kernel = false;
    let got = rx::recv(&ctx, &bufs, flags, || {
        kernel = true;
        real()
    })?;
    if !kernel && got >= 0 {
        header.msg_namelen = 0;
        header.msg_controllen = 0;
        header.msg_flags = flags & libc::MSG_CMSG_CLOEXEC;
        store(msg, &header)?;
    }
    Ok(got)
}
/// One buffer out.
#[inline]
pub fn send(
    fd: c_int,
    buf: *const c_void,
    len: usize,
    flags: c_int,
    real: impl FnOnce() -> isize,
) -> Ret {
    match context(fd) {
        Some(ctx) => tx::send(&ctx, &Bufs::One(buf.cast_mut().cast(), len), flags, real),
        None => Ok(real()),
    }
}
/// Several buffers out.
pub fn send_vec(
    fd: c_int,
    iov: *const iovec,
    count: c_int,
    flags: c_int,
    real: impl FnOnce() -> isize,
) -> Ret {
    match context(fd) {
        Some(ctx) => tx::send(&ctx, &Bufs::vector(iov, count)?, flags, real),
        None => Ok(real()),
    }
}
/// `sendmsg`, and each message of `sendmmsg`.
pub fn send_msg(
    fd: c_int,
    msg: *const msghdr,
    flags: c_int,
    real: impl FnOnce() -> isize,
) -> Ret {
    let Some(ctx) = context(fd) else { return Ok(real()) };
    let (bufs, _) = Bufs::message(msg)?;
    tx::send(&ctx, &bufs, flags, real)
}
/// `sendfile` to a socket of ours.
pub fn sendfile(
    out: c_int,
    input: c_int,
    offset: *mut i64,
    count: usize,
    real: impl FnOnce() -> isize,
) -> Ret {
    match context(out) {
        Some(ctx) => file::sendfile(&ctx, input, offset, count, real),
        None => Ok(real()),
    }
}
/// `splice` with a socket of ours at one end (`from` or `to`).
pub fn splice(
    _from: c_int,
    _from_offset: *mut i64,
    _to: c_int,
    _to_offset: *mut i64,
    _len: usize,
    _flags: u32,
    real: impl FnOnce() -> isize,
) -> Ret {
    Ok(real())
}

/// `getsockopt`.
pub fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
    real: impl FnOnce() -> isize,
) -> Ret {
    match context(fd) {
        Some(ctx) => ctx.getsockopt((level, name), value, len, real),
        None => Ok(real()),
    }
}
/// `setsockopt`.
pub fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
    real: impl FnOnce() -> isize,
) -> Ret {
    match context(fd) {
        Some(ctx) => ctx.setsockopt((level, name), value, len, real),
        None => Ok(real()),
    }
}
/// `fcntl` on a tracked fd; `F_DUPFD` and `F_DUPFD_CLOEXEC` are told by [`duplicated`] as well.
pub fn fcntl(fd: c_int, _cmd: c_int, _arg: usize, real: impl FnOnce() -> isize) -> Ret {
    if fdtable::entry(fd) == Entry::internal() {
        return Err(Errno::BADF);
    }
    Ok(real())
}
/// `ioctl` on a tracked fd.
pub fn ioctl(fd: c_int, request: c_ulong, arg: usize, real: impl FnOnce() -> isize) -> Ret {
    match context(fd) {
        Some(ctx) => ctx.ioctl(request, arg, real),
        None => Ok(real()),
    }
}
