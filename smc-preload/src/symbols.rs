//! The one table of the real functions.
//!
//! Each row gives a symbol, its C type and what stands in for it until the constructor has run:
//! `sys!(…)`, the system call, or `next`, a look-up of this one symbol. The table yields
//!
//! - a slot per symbol that holds the address to call: first of the stand-in, then of libc's
//!   function, so that a call costs one load and no test whatever the state;
//! - `real::NAME`, which calls through the slot;
//! - [`resolve`], which fills all slots.
//!
//! `redhook`'s `hook!` is not used: its hooks are `extern "C"` (a cancelled thread aborts), they
//! call the real function a second time after a panic, and resolve lazily under a lock.
use crate::cold::{find, sys, Missing};
use libc::{
    c_char, c_int, c_long, c_uint, c_ulong, c_void, epoll_event, fd_set, iovec, mmsghdr, mode_t,
    msghdr, nfds_t, off_t, pollfd, sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec,
    timeval, DIR, FILE,
};
use smc_core::sync::{AtomicPtr, Ordering};
use smc_core::sys::real::RealCalls;
use std::mem::transmute;

/// The address at which a function is to be called.
pub(crate) struct Slot(AtomicPtr<c_void>);

impl Slot {
    pub(crate) const fn new(stand_in: *const ()) -> Self {
        Self(AtomicPtr::new(stand_in.cast_mut().cast()))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> *mut c_void {
        // Relaxed: code is not published by us; both addresses are good at any time.
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, function: *mut c_void) {
        self.0.store(function, Ordering::Relaxed);
    }
}

macro_rules! sys {
    ($number:ident $(, $arg:expr)*) => {
        sys(libc::$number, &[$($arg as usize),*]) as _
    };
}

macro_rules! stand_in {
    (next, $name:ident, $function:ty, ($($arg:ident),*)) => {{
        let found = find(concat!(stringify!($name), "\0"));
        if found.is_null() {
            return Missing::missing();
        }
        slot::$name.set(found);
        transmute::<*mut c_void, $function>(found)($($arg),*)
    }};
    ({ $($raw:tt)* }, $name:ident, $function:ty, $args:tt) => { $($raw)* };
}

macro_rules! symbols {
    ($(fn $name:ident($($arg:ident : $type:ty),*) -> $ret:ty = $cold:tt;)*) => {
        /// Where each function is.
        #[allow(non_upper_case_globals)]
        mod slot {
            use super::*;
            $(pub(super) static $name: Slot = Slot::new(stand_in::$name as *const ());)*
        }

        /// What is called before the real function is known.
        mod stand_in {
            use super::*;
            $(
                #[cold]
                pub(super) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $ret {
                    // SAFETY: the caller keeps the contract of the C function of this name and
                    // type, which the table states as the C headers do.
                    unsafe {
                        stand_in!($cold, $name, unsafe extern "C-unwind" fn($($type),*) -> $ret, ($($arg),*))
                    }
                }
            )*
        }

        /// The real functions.
        pub(crate) mod real {
            use super::*;
            $(
                #[inline(always)]
                pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $ret {
                    // SAFETY: a slot holds the stand-in or libc's function, both of this type; the
                    // caller keeps the contract of the function.
                    unsafe {
                        transmute::<*mut c_void, unsafe extern "C-unwind" fn($($type),*) -> $ret>(
                            slot::$name.get(),
                        )($($arg),*)
                    }
                }
            )*
        }

        /// Finds every real function; one that this libc lacks keeps its stand-in.
        pub(crate) fn resolve() {
            $(
                let found = find(concat!(stringify!($name), "\0"));
                if !found.is_null() {
                    slot::$name.set(found);
                }
            )*
        }
    };
}

symbols! {
    // sockets
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int = { sys!(SYS_socket, domain, kind, protocol) };
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, fds: *mut c_int) -> c_int = { sys!(SYS_socketpair, domain, kind, protocol, fds) };
    fn listen(fd: c_int, backlog: c_int) -> c_int = { sys!(SYS_listen, fd, backlog) };
    fn accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int = { sys!(SYS_accept, fd, addr, len) };
    fn accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int = { sys!(SYS_accept4, fd, addr, len, flags) };
    fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int = { sys!(SYS_connect, fd, addr, len) };
    fn shutdown(fd: c_int, how: c_int) -> c_int = { sys!(SYS_shutdown, fd, how) };
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int = { sys!(SYS_getsockopt, fd, level, name, value, len) };
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int = { sys!(SYS_setsockopt, fd, level, name, value, len) };
    fn sockatmark(fd: c_int) -> c_int = next;

    // data
    fn read(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t = { sys!(SYS_read, fd, buf, len) };
    fn write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t = { sys!(SYS_write, fd, buf, len) };
    fn readv(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t = { sys!(SYS_readv, fd, iov, count) };
    fn writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t = { sys!(SYS_writev, fd, iov, count) };
    fn preadv2(fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t = { sys!(SYS_preadv2, fd, iov, count, offset, 0, flags) };
    fn pwritev2(fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t = { sys!(SYS_pwritev2, fd, iov, count, offset, 0, flags) };
    fn recv(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t = { sys!(SYS_recvfrom, fd, buf, len, flags, 0, 0) };
    fn recvfrom(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int, addr: *mut sockaddr, addr_len: *mut socklen_t) -> ssize_t = { sys!(SYS_recvfrom, fd, buf, len, flags, addr, addr_len) };
    fn recvmsg(fd: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t = { sys!(SYS_recvmsg, fd, msg, flags) };
    fn recvmmsg(fd: c_int, msgs: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int = { sys!(SYS_recvmmsg, fd, msgs, count, flags, timeout) };
    fn send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t = { sys!(SYS_sendto, fd, buf, len, flags, 0, 0) };
    fn sendto(fd: c_int, buf: *const c_void, len: size_t, flags: c_int, addr: *const sockaddr, addr_len: socklen_t) -> ssize_t = { sys!(SYS_sendto, fd, buf, len, flags, addr, addr_len) };
    fn sendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t = { sys!(SYS_sendmsg, fd, msg, flags) };
    fn sendmmsg(fd: c_int, msgs: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int = { sys!(SYS_sendmmsg, fd, msgs, count, flags) };
    fn sendfile(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t = { sys!(SYS_sendfile, out, input, offset, count) };
    fn splice(from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64, len: size_t, flags: c_uint) -> ssize_t = { sys!(SYS_splice, from, from_offset, to, to_offset, len, flags) };

    // checked forms
    fn __read_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t) -> ssize_t = next;
    fn __recv_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t, flags: c_int) -> ssize_t = next;
    fn __recvfrom_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t, flags: c_int, addr: *mut sockaddr, addr_len: *mut socklen_t) -> ssize_t = next;
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, size: size_t) -> c_int = next;
    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, size: size_t) -> c_int = next;

    // descriptors
    fn close(fd: c_int) -> c_int = { sys!(SYS_close, fd) };
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int = { sys!(SYS_close_range, first, last, flags) };
    fn closefrom(first: c_int) -> c_int = { sys!(SYS_close_range, first, c_uint::MAX, 0) };
    fn dup(fd: c_int) -> c_int = { sys!(SYS_dup, fd) };
    fn dup2(old: c_int, new: c_int) -> c_int = next;
    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int = { sys!(SYS_dup3, old, new, flags) };
    fn fcntl(fd: c_int, cmd: c_int, arg: usize) -> c_int = { sys!(SYS_fcntl, fd, cmd, arg) };
    fn ioctl(fd: c_int, request: c_ulong, arg: usize) -> c_int = { sys!(SYS_ioctl, fd, request, arg) };
    fn fstat(fd: c_int, stat: *mut c_void) -> c_int = { sys!(SYS_fstat, fd, stat) };
    fn fstat64(fd: c_int, stat: *mut c_void) -> c_int = { sys!(SYS_fstat, fd, stat) };
    fn __fxstat(version: c_int, fd: c_int, stat: *mut c_void) -> c_int = next;
    fn __fxstat64(version: c_int, fd: c_int, stat: *mut c_void) -> c_int = next;

    // readiness
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int = next;
    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int = next;
    fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int = next;
    fn pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int = next;
    fn epoll_create(size: c_int) -> c_int = next;
    fn epoll_create1(flags: c_int) -> c_int = { sys!(SYS_epoll_create1, flags) };
    fn epoll_ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int = { sys!(SYS_epoll_ctl, epfd, op, fd, event) };
    fn epoll_wait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int = { sys!(SYS_epoll_pwait, epfd, events, max, timeout, 0, 8) };
    fn epoll_pwait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int, mask: *const sigset_t) -> c_int = { sys!(SYS_epoll_pwait, epfd, events, max, timeout, mask, 8) };
    fn epoll_pwait2(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int = { sys!(SYS_epoll_pwait2, epfd, events, max, timeout, mask, 8) };

    // births
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = { sys!(SYS_openat, libc::AT_FDCWD, path, flags, mode) };
    fn openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int = { sys!(SYS_openat, dir, path, flags, mode) };
    fn __open_2(path: *const c_char, flags: c_int) -> c_int = next;
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int = next;
    fn __openat_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int = next;
    fn __openat64_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int = next;
    fn creat(path: *const c_char, mode: mode_t) -> c_int = next;
    fn open_by_handle_at(mount: c_int, handle: *mut c_void, flags: c_int) -> c_int = next;
    fn pipe(fds: *mut c_int) -> c_int = { sys!(SYS_pipe2, fds, 0) };
    fn pipe2(fds: *mut c_int, flags: c_int) -> c_int = { sys!(SYS_pipe2, fds, flags) };
    fn eventfd(value: c_uint, flags: c_int) -> c_int = { sys!(SYS_eventfd2, value, flags) };
    fn timerfd_create(clock: c_int, flags: c_int) -> c_int = { sys!(SYS_timerfd_create, clock, flags) };
    fn signalfd(fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int = next;
    fn inotify_init() -> c_int = { sys!(SYS_inotify_init1, 0) };
    fn inotify_init1(flags: c_int) -> c_int = { sys!(SYS_inotify_init1, flags) };
    fn fanotify_init(flags: c_uint, event_flags: c_uint) -> c_int = { sys!(SYS_fanotify_init, flags, event_flags) };
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int = { sys!(SYS_memfd_create, name, flags) };
    fn pidfd_open(pid: c_int, flags: c_uint) -> c_int = { sys!(SYS_pidfd_open, pid, flags) };
    fn pidfd_getfd(pidfd: c_int, target: c_int, flags: c_uint) -> c_int = { sys!(SYS_pidfd_getfd, pidfd, target, flags) };
    fn shm_open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int = next;
    fn mq_open(name: *const c_char, flags: c_int, mode: mode_t, attr: *mut c_void) -> c_int = next;
    fn posix_openpt(flags: c_int) -> c_int = next;
    fn getpt() -> c_int = next;
    fn openpty(master: *mut c_int, slave: *mut c_int, name: *mut c_char, termios: *const c_void, size: *const c_void) -> c_int = next;
    fn login_tty(fd: c_int) -> c_int = next;
    fn forkpty(master: *mut c_int, name: *mut c_char, termios: *const c_void, size: *const c_void) -> c_int = next;
    fn mkstemp(template: *mut c_char) -> c_int = next;
    fn mkstemp64(template: *mut c_char) -> c_int = next;
    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int = next;
    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int = next;
    fn mkstemps(template: *mut c_char, suffix: c_int) -> c_int = next;
    fn mkstemps64(template: *mut c_char, suffix: c_int) -> c_int = next;
    fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int = next;
    fn mkostemps64(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int = next;

    // streams
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE = next;
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE = next;
    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE = next;
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE = next;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE = next;
    fn fclose(stream: *mut FILE) -> c_int = next;
    fn tmpfile() -> *mut FILE = next;
    fn tmpfile64() -> *mut FILE = next;
    fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE = next;
    fn opendir(path: *const c_char) -> *mut DIR = next;
    fn vdprintf(fd: c_int, format: *const c_char, args: *mut c_void) -> c_int = next;
    fn __vdprintf_chk(fd: c_int, level: c_int, format: *const c_char, args: *mut c_void) -> c_int = next;

    // messages
    fn perror(text: *const c_char) -> () = next;
    fn herror(text: *const c_char) -> () = next;
    fn psiginfo(info: *const libc::siginfo_t, text: *const c_char) -> () = next;
    fn backtrace_symbols_fd(buffer: *const *mut c_void, size: c_int, fd: c_int) -> () = next;
    fn openlog(name: *const c_char, options: c_int, facility: c_int) -> () = next;

    // signals
    fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int = next;

    // processes
    fn daemon(nochdir: c_int, noclose: c_int) -> c_int = next;
    fn prctl(option: c_int, a: size_t, b: size_t, c: size_t, d: size_t) -> c_int = { sys!(SYS_prctl, option, a, b, c, d) };
    fn _exit(status: c_int) -> ! = { exit_now(status) };
    fn execve(path: *const c_char, argv: *const *const c_char, envp: *const *const c_char) -> c_int = { sys!(SYS_execve, path, argv, envp) };
    fn execv(path: *const c_char, argv: *const *const c_char) -> c_int = next;
    fn execvp(file: *const c_char, argv: *const *const c_char) -> c_int = next;
    fn execvpe(file: *const c_char, argv: *const *const c_char, envp: *const *const c_char) -> c_int = next;
    fn execveat(dir: c_int, path: *const c_char, argv: *const *const c_char, envp: *const *const c_char, flags: c_int) -> c_int = { sys!(SYS_execveat, dir, path, argv, envp, flags) };
    fn fexecve(fd: c_int, argv: *const *const c_char, envp: *const *const c_char) -> c_int = next;
    fn posix_spawn(pid: *mut libc::pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, argv: *const *const c_char, envp: *const *const c_char) -> c_int = next;
    fn posix_spawnp(pid: *mut libc::pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void, argv: *const *const c_char, envp: *const *const c_char) -> c_int = next;
    fn posix_spawn_file_actions_adddup2(actions: *mut c_void, old: c_int, new: c_int) -> c_int = next;
    fn system(command: *const c_char) -> c_int = next;
    fn io_uring_setup(entries: c_uint, params: *mut c_void) -> c_int = next;
    fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int = next;
    fn io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, params: *mut c_void) -> c_int = next;
    fn io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, params: *mut c_void, buf: *mut c_void, size: size_t) -> c_int = next;
    fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long = { sys(number, &[a, b, c, d, e, f]) as _ };
}

/// `_exit` by the kernel.
unsafe fn exit_now(status: c_int) -> ! {
    loop {
        // SAFETY: ends the process.
        unsafe { sys(libc::SYS_exit_group, &[status as usize]) };
    }
}

/// The functions that the engine calls itself.
pub(crate) fn real_calls() -> RealCalls {
    RealCalls {
        recv: real::recv,
        sendmsg: real::sendmsg,
        ppoll: real::ppoll,
        epoll_pwait: real::epoll_pwait,
    }
}
