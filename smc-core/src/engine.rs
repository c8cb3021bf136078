//! What the hooks call.
//!
//! A hook asks [`tracked`] first; an fd that is not ours costs one load. For ours it calls the
//! function of the same name here and hands over the real call as a closure, which the engine runs
//! at most once: a connection in TCP state is the kernel's business, and the engine only brackets
//! the call. `Ok(n)` is the C return value (with `errno` already set by the kernel's libc wrapper
//! where it is -1), `Err` an error of ours, which the hook stores in `errno`.
use crate::arena::{flag, phase};
use crate::config::Config;
use crate::conn::wait::Deadline;
use crate::conn::{file, rx, tx, Ctx};
use crate::errno::Errno;
use crate::fdtable::{self, Entry};
use crate::poll::set::{self, Sets};
use crate::process::{self, Process};
use crate::reason::Reason;
use crate::sync::{AtomicU32, Ordering};
use crate::sys::iov::{fetch, store, Bufs};
use crate::sys::real::RealCalls;
use crate::sys::{clock, raw, tcp};
use libc::{c_int, c_ulong, c_void, epoll_event, fd_set, iovec, msghdr, nfds_t, pollfd, sigset_t};
use libc::{sockaddr, socklen_t, timespec, timeval};

/// See the module's text.
pub type Ret = Result<isize, Errno>;

/// How long a readiness call may wait, in the form in which the program said it.
#[derive(Clone, Copy, Debug)]
pub enum Timeout {
    /// Milliseconds; negative: for ever.
    Millis(c_int),
    /// `ppoll`, `epoll_pwait2`, `pselect`: null is for ever.
    Spec(*const timespec),
    /// `select`: null is for ever; the time left is written back, as Linux does.
    Val(*mut timeval),
}

/// What an fd is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: the real function is called at once.
    Foreign,
    /// A TCP socket of the program.
    Socket,
    /// An epoll instance of the program.
    Epoll,
    /// A descriptor of the engine, which the program must not see.
    Internal,
}

/// Starts the engine; called once, by the constructor of the preload library.
pub fn start(real: RealCalls, config: &Config) {
    clock::start();
    if process::start(real, config) {
        adopt_inherited();
    }
}

/// Descriptors below this number are looked at when the process starts.
const INHERITED: c_int = 64;

/// Sockets that came over an exec: inetd, LISTEN_FDS, a server upgraded in place.
fn adopt_inherited() {
    let Some(process) = process::get() else { return };
    for fd in 0..INHERITED {
        if tcp::is_tcp(fd) {
            adopt(process, fd);
        }
    }
}

/// Takes a TCP socket in that somebody else made.
fn adopt(process: &Process, fd: c_int) {
    if tcp::is_listening(fd) {
        if let Some(ctx) = track(process, fd) {
            ctx.conn.set_phase(phase::LISTENER);
        }
    } else if tcp::is_connected(fd) {
        if let Some(ctx) = track(process, fd) {
            count_connection(process);
            ctx.conn.set_phase(phase::IDLE);
        }
    }
}

/// Whether an fd needs the engine at all: one load.
#[inline(always)]
pub fn tracked(fd: c_int) -> bool {
    fdtable::is_tracked(fd)
}

/// What the fd is to us.
pub fn kind(fd: c_int) -> Kind {
    fdtable::entry(fd).kind()
}

/// Descriptors of this process that share a record; private memory, so a fork's child has its own.
static REFS: [AtomicU32; crate::arena::CONNS] =
    [const { AtomicU32::new(0) }; crate::arena::CONNS];

/// Makes a record for a socket.
fn track(process: &Process, fd: c_int) -> Option<Ctx<'_>> {
    if fd < 0 || fd as usize >= fdtable::LIMIT {
        return None;
    }
    forget(process, fd);
    let (index, conn) = process.arena.allocate(process.pid())?;
    conn.fd.store(fd.unsigned_abs(), Ordering::Relaxed);
    REFS[index as usize].store(1, Ordering::Relaxed);
    fdtable::set(fd, Entry::socket(index));
    Some(Ctx { process, index, conn, fd })
}

/// A number that we know is closed, or taken by something new: lets go of what it was.
fn forget(process: &Process, fd: c_int) {
    let entry = fdtable::take(fd);
    match entry.kind() {
        Kind::Socket => {
            let Some(index) = entry.as_socket() else { return };
            let Some(conn) = process.arena.conn(index) else { return };
            let ctx = Ctx { process, index, conn, fd };
            // AcqRel: of two threads that close two numbers one is the last.
            let last = REFS[index as usize].fetch_sub(1, Ordering::AcqRel) == 1;
            if conn.has(flag::IN_EPOLL) {
                process.epolls.socket_closed(&ctx, last);
            }
            if last && conn.procs.fetch_sub(1, Ordering::AcqRel) == 1 {
                ctx.last_close();
            } else if conn.fd.load(Ordering::Relaxed) == fd.unsigned_abs() {
                let other = fdtable::all().find(|(_, other)| *other == entry);
                if let Some((other, _)) = other {
                    conn.fd.store(other.unsigned_abs(), Ordering::Relaxed);
                }
            }
        }
        Kind::Epoll => process.epolls.closed(process, entry, fd),
        // Ours, or nothing.
        Kind::Internal | Kind::Foreign => {}
    }
}

fn count_connection(process: &Process) {
    if let Some(page) = process.page() {
        page.connections.fetch_add(1, Ordering::Relaxed);
    }
}

// ---- birth and death of descriptors

/// `socket` returned `fd`.
pub fn socket_opened(fd: c_int, domain: c_int, kind: c_int, protocol: c_int) {
    let Some(process) = process::get() else { return };
    let stream = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) == libc::SOCK_STREAM;
    let ip = domain == libc::AF_INET || domain == libc::AF_INET6;
    let tcp = protocol == 0 || protocol == libc::IPPROTO_TCP;
    if stream && ip && tcp && !process.is_borrowed() {
        track(process, fd);
    } else {
        fd_born(fd);
    }
}
/// `accept` or `accept4` on `listener` returned `fd`.
pub fn accepted(listener: c_int, fd: c_int) {
    let Some(process) = process::get() else { return };
    let ours = Ctx::of(process, listener).is_some() || tcp::is_tcp(fd);
    if !ours || process.is_borrowed() {
        fd_born(fd);
        return;
    }
    if let Some(ctx) = track(process, fd) {
        count_connection(process);
        ctx.conn.set_phase(phase::IDLE);
    }
}
/// An epoll instance was made.
pub fn epoll_opened(fd: c_int) {
    let Some(process) = process::get() else { return };
    fd_born(fd);
    if !process.is_borrowed() {
        process.epolls.opened(fd);
    }
}
/// Some other call made this descriptor (open, pipe, eventfd, …): forgets what we knew of the number.
#[inline]
pub fn fd_born(fd: c_int) {
    if fdtable::is_tracked(fd) {
        stale(fd);
    }
}

#[cold]
fn stale(fd: c_int) {
    if let Some(process) = process::get() {
        if !process.is_borrowed() {
            forget(process, fd);
        }
    }
}

/// A descriptor came from another process (SCM_RIGHTS, `pidfd_getfd`): it may be a socket, also a
/// connected one.
pub fn fd_received(fd: c_int) {
    fd_born(fd);
    let Some(process) = process::get() else { return };
    if !process.is_borrowed() && tcp::is_tcp(fd) {
        adopt(process, fd);
    }
}
/// `dup`, `fcntl(F_DUPFD)` and the like made `new` from `old`.
pub fn duplicated(old: c_int, new: c_int) {
    let Some(process) = process::get() else { return };
    if old == new || process.is_borrowed() {
        return;
    }
    fd_born(new);
    let entry = fdtable::entry(old);
    match entry.kind() {
        Kind::Socket => {
            if let Some(index) = entry.as_socket() {
                if fdtable::set(new, entry) {
                    REFS[index as usize].fetch_add(1, Ordering::AcqRel);
                }
            }
        }
        Kind::Epoll => process.epolls.duplicated(entry, new),
        Kind::Internal | Kind::Foreign => {}
    }
}
/// `dup2`/`dup3` of `old` onto `new`; the real call is made inside.
pub fn dup_onto(old: c_int, new: c_int, real: impl FnOnce() -> isize) -> Ret {
    let Some(process) = process::get() else { return Ok(real()) };
    if old == new || process.is_borrowed() {
        return Ok(real());
    }
    if [old, new].iter().any(|fd| fdtable::entry(*fd) == Entry::internal()) {
        return Err(Errno::BADF);
    }
    // The old number must be open, or nothing happens to the new one.
    raw::fcntl(old, libc::F_GETFD, 0)?;
    forget(process, new);
    let result = real();
    if result >= 0 {
        duplicated(old, new);
    }
    Ok(result)
}
/// `close`; an internal descriptor answers EBADF.
pub fn close(fd: c_int, real: impl FnOnce() -> isize) -> Ret {
    let Some(process) = process::get() else { return Ok(real()) };
    if fdtable::entry(fd) == Entry::internal() {
        return Err(Errno::BADF);
    }
    if !process.is_borrowed() {
        forget(process, fd);
    }
    Ok(real())
}
/// `close_range` and `closefrom`: everything in the range but our own descriptors. `real` closes
/// (or marks close-on-exec) one range.
pub fn close_range(
    first: u32,
    last: u32,
    flags: c_int,
    real: impl Fn(u32, u32) -> isize,
) -> Ret {
    let Some(process) = process::get() else { return Ok(real(first, last)) };
    let ends = flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0 && !process.is_borrowed();
    let mut from = first;
    for (fd, entry) in fdtable::all() {
        let number = fd.unsigned_abs();
        if number < first || number > last {
            continue;
        }
        if entry == Entry::internal() {
            if number > from {
                let result = real(from, number - 1);
                if result != 0 {
                    return Ok(result);
                }
            }
            from = number + 1;
        } else if ends {
            forget(process, fd);
        }
    }
    if from > last && from > first {
        return Ok(0);
    }
    Ok(real(from, last))
}
/// `shutdown`.
pub fn shutdown(fd: c_int, how: c_int, real: impl FnOnce() -> isize) -> Ret {
    match context(fd) {
        Some(ctx) => ctx.shutdown(how, real),
        None => Ok(real()),
    }
}

#[inline(always)]
fn context(fd: c_int) -> Option<Ctx<'static>> {
    Ctx::of(process::get()?, fd)
}

// ---- connection setup

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
        if ctx.conn.has(flag::MARKED) {
            ctx.conn.reason.store(Reason::PEERNOSMC.0, Ordering::Relaxed);
            ctx.conn.set_phase(phase::VIRGIN);
        } else {
            ctx.fall_back(Reason::MODE_OFF);
        }
    }
    Ok(result)
}

/// Whether a connect that failed goes on by itself.
fn is_under_way() -> bool {
    matches!(crate::conn::wait::last_errno().0, libc::EINPROGRESS | libc::EINTR)
}

/// `listen`.
pub fn listen(fd: c_int, real: impl FnOnce() -> isize) -> Ret {
    let result = real();
    if let (Some(ctx), 0) = (context(fd), result) {
        ctx.conn.set_phase(phase::LISTENER);
    }
    Ok(result)
}

// ---- data: `read`, `recv`, `recvfrom` come as `recv`; `readv` as `recv_vec`; and so on

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

// ---- options

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

// ---- readiness

/// Whether any descriptor of a poll set is tracked.
#[inline]
pub fn any_tracked(fds: *const pollfd, count: nfds_t) -> bool {
    (0..count as usize).any(|index| {
        fetch(fds.wrapping_add(index)).is_ok_and(|entry: pollfd| fdtable::is_tracked(entry.fd))
    })
}

impl Timeout {
    /// The end of the wait; `None`: none is wanted at all.
    fn deadline(self) -> Result<Option<Deadline>, Errno> {
        let ns = match self {
            Self::Millis(0) => return Ok(None),
            Self::Millis(millis) if millis < 0 => return Ok(Some(Deadline(None))),
            Self::Millis(millis) => u64::from(millis.unsigned_abs()) * 1_000_000,
            Self::Spec(spec) if spec.is_null() => return Ok(Some(Deadline(None))),
            Self::Spec(spec) => {
                let spec = fetch(spec)?;
                span(spec.tv_sec, spec.tv_nsec, 1_000_000_000)?
            }
            Self::Val(value) if value.is_null() => return Ok(Some(Deadline(None))),
            Self::Val(value) => {
                let value = fetch(value.cast_const())?;
                let carry = value.tv_usec / 1_000_000;
                span(value.tv_sec + carry, value.tv_usec % 1_000_000, 1_000_000)?
            }
        };
        if ns == 0 {
            return Ok(None);
        }
        Ok(Some(Deadline(Some(raw::monotonic_ns().saturating_add(ns)))))
    }
}

/// Nanoseconds of a time in seconds and parts.
fn span(seconds: i64, parts: i64, per_second: i64) -> Result<u64, Errno> {
    if seconds < 0 || !(0..per_second).contains(&parts) {
        return Err(Errno::INVAL);
    }
    let scale = 1_000_000_000 / per_second.unsigned_abs();
    Ok(seconds.unsigned_abs().saturating_mul(1_000_000_000).saturating_add(parts.unsigned_abs() * scale))
}

/// `poll` and `ppoll`.
pub fn poll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: Timeout,
    mask: *const sigset_t,
    real: impl FnOnce() -> isize,
) -> Ret {
    let Some(process) = process::get() else { return Ok(real()) };
    if count > fdtable::LIMIT as nfds_t {
        return Ok(real());
    }
    set::poll_user(process, fds, count as usize, timeout.deadline()?, mask)
}
/// `select` and `pselect`.
pub fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: Timeout,
    mask: *const sigset_t,
    real: impl FnOnce() -> isize,
) -> Ret {
    let Some(process) = process::get() else { return Ok(real()) };
    let Ok(count) = usize::try_from(count) else { return Ok(real()) };
    let sets = Sets { count: count.min(fdtable::LIMIT), read, write, except };
    if !sets.any_tracked() {
        return Ok(real());
    }
    let deadline = timeout.deadline()?;
    let result = set::select(process, sets, deadline, mask);
    if let (Timeout::Val(value), Some(deadline)) = (timeout, deadline) {
        if let Some(left) = deadline.left() {
            let left = timeval {
                tv_sec: (left / 1_000_000_000) as i64,
                tv_usec: (left % 1_000_000_000 / 1_000) as i64,
            };
            store(value, &left)?;
        }
    }
    result
}
/// `epoll_ctl`; called when either descriptor is tracked.
pub fn epoll_ctl(
    epfd: c_int,
    op: c_int,
    fd: c_int,
    event: *mut epoll_event,
    real: impl FnOnce() -> isize,
) -> Ret {
    match process::get() {
        Some(process) => process.epolls.control(process, epfd, op, fd, event, real),
        None => Ok(real()),
    }
}
/// `epoll_wait`, `epoll_pwait`, `epoll_pwait2` on a tracked instance.
pub fn epoll_wait(
    epfd: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: Timeout,
    mask: *const sigset_t,
    real: impl FnOnce() -> isize,
) -> Ret {
    let Some(process) = process::get() else { return Ok(real()) };
    match process.epolls.of(epfd) {
        Some(instance) => crate::poll::epoll_wait(
            process,
            instance,
            events,
            max,
            || timeout.deadline(),
            mask,
            real,
        ),
        None => Ok(real()),
    }
}

// ---- processes

/// `pthread_atfork` prepare handler.
pub fn fork_prepare() {
    let Some(process) = process::get() else { return };
    process.control.lock_for_fork();
    process.epolls.lock_for_fork();
    core::mem::forget(process.groups.changing.lock());
    core::mem::forget(process.netlink.lock());
    // Before the child exists, so that nobody attaches what two processes hold.
    for_each_conn(process, |ctx| {
        ctx.conn.procs.fetch_add(1, Ordering::AcqRel);
    });
}

/// Every connection of this process once.
fn for_each_conn(process: &Process, mut with: impl FnMut(Ctx<'_>)) {
    for (fd, entry) in fdtable::all() {
        let Some(index) = entry.as_socket() else { continue };
        let Some(conn) = process.arena.conn(index) else { continue };
        // Of several numbers the one that the record names.
        if conn.fd.load(Ordering::Relaxed) == fd.unsigned_abs() {
            with(Ctx { process, index, conn, fd });
        }
    }
}

fn fork_done(process: &Process) {
    // SAFETY: requires that this thread holds the locks: `fork_prepare` took them.
    unsafe { process.netlink.force_unlock() };
    // SAFETY: as above.
    unsafe { process.groups.changing.force_unlock() };
    process.epolls.unlock_after_fork();
    process.control.unlock_after_fork();
}

/// `pthread_atfork` parent handler.
pub fn fork_parent() {
    if let Some(process) = process::get() {
        fork_done(process);
    }
}
/// `pthread_atfork` child handler.
pub fn fork_child() {
    let Some(process) = process::get() else { return };
    fork_done(process);
    process.after_fork();
    process.control.after_fork();
    process::drop_fd(core::mem::replace(&mut *process.netlink.lock(), -1));
    process.queues.after_fork(|queue| process.epolls.owns_queue(queue));
}
/// At a normal exit of the process: appends the summary line.
pub fn process_exit() {
    let Some(process) = process::get() else { return };
    if process.is_borrowed() {
        return;
    }
    for_each_conn(process, |ctx| {
        if ctx.conn.procs.load(Ordering::Acquire) == 1 {
            if ctx.has_unread() {
                ctx.reset_on_close();
            }
            ctx.count();
        }
    });
    crate::summary::append(process);
}
/// Before an `exec…` that replaces this image.
pub fn before_exec() {}
