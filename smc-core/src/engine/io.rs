//! Connections: setting up, sending, receiving, options.
use super::life::count_connection;
use super::Ret;
use crate::arena::{flag, phase, Setup};
use crate::config::Mode;
use crate::conn::numbers::Pin;
use crate::conn::{file, pipe, rx, tx, Ctx};
use crate::errno::Errno;
use crate::fdtable::{self, Entry};
use crate::process;
use crate::reason::Reason;
use crate::sys::iov::{fetch, probe, store, Bufs};
use crate::sys::raw;
use crate::sys::thread::{self, outside, Critical};
use libc::{c_int, c_ulong, c_void, iovec, msghdr, sockaddr, socklen_t};

/// The longest address (`struct sockaddr_storage`).
const ADDRESS_MAX: usize = 128;

/// The connection of a descriptor, and the section in which no signal handler runs.
#[inline(always)]
fn enter(fd: c_int) -> Option<(Ctx<'static>, Critical)> {
    let ctx = Ctx::of(process::get()?, fd)?;
    Some((ctx, Critical::enter()))
}

/// A call that is no way to move bytes: it may take long, and holds the connection.
struct Held {
    /// Ends first: with it the connection may.
    _pin: Pin<'static>,
    _critical: Critical,
}

/// As [`enter`], and nobody takes the connection away before the call is over.
fn hold(fd: c_int) -> Result<Option<(Ctx<'static>, Held)>, Errno> {
    let Some((ctx, critical)) = enter(fd) else { return Ok(None) };
    let pin = ctx.pin()?;
    Ok(Some((ctx, Held { _pin: pin, _critical: critical })))
}

/// `connect`.
pub fn connect(
    fd: c_int,
    addr: *const sockaddr,
    len: socklen_t,
    real: impl FnOnce() -> isize,
) -> Ret {
    let Some((ctx, _held)) = hold(fd)? else { return Ok(real()) };
    let from_birth = ctx.plain_from_birth();
    if ctx.conn.phase() == phase::FRESH && from_birth.is_none() {
        ctx.mark();
    }
    let result = outside(real);
    if !ctx.is_current() {
        // A handler that interrupted it has closed the number.
        return Ok(result);
    }
    if ctx.conn.phase() == phase::FRESH && (result == 0 || is_under_way()) {
        count_connection(ctx.process);
        ctx.conn.raise(flag::CLIENT);
        let plain = match ctx.process.config.mode {
            _ if from_birth.is_some() => from_birth,
            _ if ctx.conn.has(flag::MARKED) => None,
            Mode::Off | Mode::Rdma => Some(Reason::MODE_OFF),
            Mode::Auto | Mode::Loopback => Some(Reason::MARK),
        };
        ctx.handshake(|setup| setup.connects(plain));
    } else if result == 0 && takes_apart(addr, len) {
        ctx.disconnected();
    }
    Ok(result)
}

/// Whether a `connect` that succeeded has dissolved an association (AF_UNSPEC).
fn takes_apart(addr: *const sockaddr, len: socklen_t) -> bool {
    let family = size_of::<libc::sa_family_t>();
    len as usize >= family
        && fetch(addr.cast::<libc::sa_family_t>()) == Ok(libc::AF_UNSPEC as libc::sa_family_t)
}

/// Whether a connect that failed goes on by itself.
fn is_under_way() -> bool {
    matches!(thread::last_errno().0, libc::EINPROGRESS | libc::EINTR)
}

/// `listen`.
pub fn listen(fd: c_int, real: impl FnOnce() -> isize) -> Ret {
    let Some((ctx, _held)) = hold(fd)? else { return Ok(real()) };
    let result = real();
    if result == 0 {
        ctx.handshake(Setup::listens);
    }
    Ok(result)
}
/// `shutdown`.
pub fn shutdown(fd: c_int, how: c_int, real: impl FnOnce() -> isize) -> Ret {
    match hold(fd)? {
        Some((ctx, _held)) => ctx.shutdown(how, || outside(real)),
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
    match enter(fd) {
        Some((ctx, _critical)) => rx::recv(&ctx, (buf.cast(), len), flags, || outside(real)),
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
    let Some((ctx, _critical)) = enter(fd) else { return Ok(real()) };
    let bufs = Bufs::vector(iov, count)?;
    // A read of nothing is answered before TCP is asked (`sock_read_iter`).
    if bufs.total()? == 0 {
        return Ok(0);
    }
    rx::recv_vec(&ctx, &bufs, flags, || outside(real))
}
/// `recvmsg`, and each message of `recvmmsg`.
pub fn recv_msg(
    fd: c_int,
    msg: *mut msghdr,
    flags: c_int,
    real: impl FnOnce() -> isize,
) -> Ret {
    let Some((ctx, _critical)) = enter(fd) else { return Ok(real()) };
    let (bufs, mut header) = Bufs::message(msg)?;
    let mut kernel = false;
    let got = rx::recv_vec(&ctx, &bufs, flags, || {
        kernel = true;
        outside(real)
    })?;
    if !kernel && got >= 0 {
        if !header.msg_name.is_null() {
            header.msg_namelen = 0;
        }
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
    match enter(fd) {
        Some((ctx, _critical)) => tx::send(&ctx, (buf.cast_mut().cast(), len), flags, || outside(real)),
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
    match enter(fd) {
        Some((ctx, _critical)) => tx::send_vec(&ctx, &Bufs::vector(iov, count)?, flags, || outside(real)),
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
    let Some((ctx, _critical)) = enter(fd) else { return Ok(real()) };
    let (bufs, header) = Bufs::message(msg)?;
    // The kernel copies both in before it looks at them.
    if !header.msg_name.is_null() {
        probe(header.msg_name.cast(), (header.msg_namelen as usize).min(ADDRESS_MAX))?;
    }
    probe(header.msg_control.cast(), header.msg_controllen)?;
    tx::send_vec(&ctx, &bufs, flags, || outside(real))
}
/// `sendfile` to a socket of ours.
pub fn sendfile(
    out: c_int,
    input: c_int,
    offset: *mut i64,
    count: usize,
    real: impl FnOnce() -> isize,
) -> Ret {
    match hold(out)? {
        Some((ctx, _held)) => file::sendfile(&ctx, input, offset, count, || outside(real)),
        None => Ok(real()),
    }
}
/// `splice` with a socket of ours at one end (`from` or `to`).
pub fn splice(
    from: c_int,
    from_offset: *mut i64,
    to: c_int,
    to_offset: *mut i64,
    len: usize,
    flags: u32,
    real: impl FnOnce() -> isize,
) -> Ret {
    // Offsets are for files: the kernel refuses them, and anything but a pipe at the other end.
    let plain = from_offset.is_null() && to_offset.is_null();
    match (hold(from)?, hold(to)?) {
        (Some((ctx, _held)), None) if plain && raw::is_pipe(to) => {
            pipe::from_conn(&ctx, to, len, flags, || outside(real))
        }
        (None, Some((ctx, _held))) if plain && raw::is_pipe(from) => {
            pipe::to_conn(&ctx, from, len, flags, || outside(real))
        }
        _ => Ok(real()),
    }
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
    match hold(fd)? {
        Some((ctx, _held)) => ctx.getsockopt((level, name), value, len, real),
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
    match hold(fd)? {
        Some((ctx, _held)) => ctx.setsockopt((level, name), value, len, real),
        None => Ok(real()),
    }
}
/// `fcntl` on a tracked fd; `F_DUPFD` and `F_DUPFD_CLOEXEC` are told by [`super::duplicated`] as well.
pub fn fcntl(fd: c_int, cmd: c_int, arg: usize, real: impl FnOnce() -> isize) -> Ret {
    let result = describe(fd, real)?;
    if cmd == libc::F_SETFL && result == 0 {
        if let Ok(Some((ctx, _held))) = hold(fd) {
            // O_NONBLOCK may be set now.
            ctx.conn.lower(flag::BLOCKS);
            if arg & libc::O_ASYNC as usize != 0 {
                ctx.wants_signals();
            }
        }
    }
    Ok(result)
}
/// `fstat` and the like on a tracked fd: the kernel's answer, but for descriptors of ours.
pub fn describe(fd: c_int, real: impl FnOnce() -> isize) -> Ret {
    if fdtable::entry(fd) == Entry::internal() {
        return Err(Errno::BADF);
    }
    Ok(real())
}
/// `ioctl` on a tracked fd.
pub fn ioctl(fd: c_int, request: c_ulong, arg: usize, real: impl FnOnce() -> isize) -> Ret {
    match hold(fd)? {
        Some((ctx, _held)) => ctx.ioctl(request, arg, real),
        None => Ok(real()),
    }
}
