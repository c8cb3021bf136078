//! What the hooks call.
//!
//! A hook asks [`tracked`] first; an fd that is not ours costs one load. For ours it calls the
//! function of the same name here and hands over the real call as a closure, which the engine runs
//! at most once: a connection in TCP state is the kernel's business, and the engine only brackets
//! the call. `Ok(n)` is the C return value (with `errno` already set by the kernel's libc wrapper
//! where it is -1), `Err` an error of ours, which the hook stores in `errno`.
use crate::config::Config;
use crate::errno::Errno;
use crate::sys::real::RealCalls;
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
pub fn start(_real: RealCalls, _config: &Config) {}

/// Whether an fd needs the engine at all: one load.
#[inline(always)]
pub fn tracked(_fd: c_int) -> bool {
    false
}

/// What the fd is to us.
pub fn kind(_fd: c_int) -> Kind {
    Kind::Foreign
}

// ---- birth and death of descriptors

/// `socket` returned `fd`.
pub fn socket_opened(_fd: c_int, _domain: c_int, _type: c_int, _protocol: c_int) {}
/// `accept` or `accept4` on `listener` returned `fd`.
pub fn accepted(_listener: c_int, _fd: c_int) {}
/// An epoll instance was made.
pub fn epoll_opened(_fd: c_int) {}
/// Some other call made this descriptor (open, pipe, eventfd, …): forgets what we knew of the number.
#[inline]
pub fn fd_born(_fd: c_int) {}
/// `dup`, `fcntl(F_DUPFD)` and the like made `new` from `old`.
pub fn duplicated(_old: c_int, _new: c_int) {}
/// `dup2`/`dup3` of `old` onto `new`; the real call is made inside.
pub fn dup_onto(_old: c_int, _new: c_int, real: impl FnOnce() -> isize) -> Ret {
    Ok(real())
}
/// `close`; an internal descriptor answers EBADF.
pub fn close(_fd: c_int, real: impl FnOnce() -> isize) -> Ret {
    Ok(real())
}
/// `close_range` and `closefrom`: everything in the range but our own descriptors. `real` closes
/// (or marks close-on-exec) one range.
pub fn close_range(first: u32, last: u32, _flags: c_int, real: impl Fn(u32, u32) -> isize) -> Ret {
    Ok(real(first, last))
}
/// `shutdown`.
pub fn shutdown(_fd: c_int, _how: c_int, real: impl FnOnce() -> isize) -> Ret {
    Ok(real())
}

// ---- connection setup

/// `connect`.
pub fn connect(
    _fd: c_int,
    _addr: *const sockaddr,
    _len: socklen_t,
    real: impl FnOnce() -> isize,
) -> Ret {
    Ok(real())
}
/// `listen`.
pub fn listen(_fd: c_int, real: impl FnOnce() -> isize) -> Ret {
    Ok(real())
}

// ---- data: `read`, `recv`, `recvfrom` come as `recv`; `readv` as `recv_vec`; and so on

/// One buffer in.
pub fn recv(
    _fd: c_int,
    _buf: *mut c_void,
    _len: usize,
    _flags: c_int,
    real: impl FnOnce() -> isize,
) -> Ret {
    Ok(real())
}
/// Several buffers in.
pub fn recv_vec(
    _fd: c_int,
    _iov: *const iovec,
    _count: c_int,
    _flags: c_int,
    real: impl FnOnce() -> isize,
) -> Ret {
    Ok(real())
}
/// `recvmsg`, and each message of `recvmmsg`.
pub fn recv_msg(_fd: c_int, _msg: *mut msghdr, _flags: c_int, real: impl FnOnce() -> isize) -> Ret {
    Ok(real())
}
/// One buffer out.
pub fn send(
    _fd: c_int,
    _buf: *const c_void,
    _len: usize,
    _flags: c_int,
    real: impl FnOnce() -> isize,
) -> Ret {
    Ok(real())
}
/// Several buffers out.
pub fn send_vec(
    _fd: c_int,
    _iov: *const iovec,
    _count: c_int,
    _flags: c_int,
    real: impl FnOnce() -> isize,
) -> Ret {
    Ok(real())
}
/// `sendmsg`, and each message of `sendmmsg`.
pub fn send_msg(
    _fd: c_int,
    _msg: *const msghdr,
    _flags: c_int,
    real: impl FnOnce() -> isize,
) -> Ret {
    Ok(real())
}
/// `sendfile` to a socket of ours.
pub fn sendfile(
    _out: c_int,
    _input: c_int,
    _offset: *mut i64,
    _count: usize,
    real: impl FnOnce() -> isize,
) -> Ret {
    Ok(real())
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
    _fd: c_int,
    _level: c_int,
    _name: c_int,
    _value: *mut c_void,
    _len: *mut socklen_t,
    real: impl FnOnce() -> isize,
) -> Ret {
    Ok(real())
}
/// `setsockopt`.
pub fn setsockopt(
    _fd: c_int,
    _level: c_int,
    _name: c_int,
    _value: *const c_void,
    _len: socklen_t,
    real: impl FnOnce() -> isize,
) -> Ret {
    Ok(real())
}
/// `fcntl` on a tracked fd; `F_DUPFD` and `F_DUPFD_CLOEXEC` are told by [`duplicated`] as well.
pub fn fcntl(_fd: c_int, _cmd: c_int, _arg: usize, real: impl FnOnce() -> isize) -> Ret {
    Ok(real())
}
/// `ioctl` on a tracked fd.
pub fn ioctl(_fd: c_int, _request: c_ulong, _arg: usize, real: impl FnOnce() -> isize) -> Ret {
    Ok(real())
}

// ---- readiness

/// Whether any descriptor of a poll set is tracked.
#[inline]
pub fn any_tracked(_fds: *const pollfd, _count: nfds_t) -> bool {
    false
}
/// `poll` and `ppoll`.
pub fn poll(
    _fds: *mut pollfd,
    _count: nfds_t,
    _timeout: Timeout,
    _mask: *const sigset_t,
    real: impl FnOnce() -> isize,
) -> Ret {
    Ok(real())
}
/// `select` and `pselect`.
#[allow(clippy::too_many_arguments)]
pub fn select(
    _count: c_int,
    _read: *mut fd_set,
    _write: *mut fd_set,
    _except: *mut fd_set,
    _timeout: Timeout,
    _mask: *const sigset_t,
    real: impl FnOnce() -> isize,
) -> Ret {
    Ok(real())
}
/// `epoll_ctl`; called when either descriptor is tracked.
pub fn epoll_ctl(
    _epfd: c_int,
    _op: c_int,
    _fd: c_int,
    _event: *mut epoll_event,
    real: impl FnOnce() -> isize,
) -> Ret {
    Ok(real())
}
/// `epoll_wait`, `epoll_pwait`, `epoll_pwait2` on a tracked instance.
pub fn epoll_wait(
    _epfd: c_int,
    _events: *mut epoll_event,
    _max: c_int,
    _timeout: Timeout,
    _mask: *const sigset_t,
    real: impl FnOnce() -> isize,
) -> Ret {
    Ok(real())
}

// ---- processes

/// `pthread_atfork` prepare handler.
pub fn fork_prepare() {}
/// `pthread_atfork` parent handler.
pub fn fork_parent() {}
/// `pthread_atfork` child handler.
pub fn fork_child() {}
/// At a normal exit of the process: appends the summary line.
pub fn process_exit() {}
/// Before an `exec…` that replaces this image.
pub fn before_exec() {}
