//! Other names of the same functions: the 64-bit names, which mean the same on 64-bit systems, and
//! the underscore names that libc exports.
use super::birth::{creat, open, openat, pipe};
use super::file::sendfile;
use super::io::{preadv2, pwritev2, read, send, write};
use super::life::{close, dup2};
use super::mux::{poll, select};
use super::opt::fcntl;
use super::setup::connect;
use libc::{
    c_char, c_int, c_void, fd_set, iovec, mode_t, nfds_t, off_t, pollfd, size_t, sockaddr,
    socklen_t, ssize_t, timeval,
};

macro_rules! aliases {
    ($(fn $name:ident($($arg:ident : $type:ty),*) -> $ret:ty = $base:ident;)*) => {$(
        #[no_mangle]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $ret {
            // SAFETY: the same function by another name.
            unsafe { $base($($arg),*) }
        }
    )*};
}

aliases! {
    fn __read(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t = read;
    fn __write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t = write;
    fn __send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t = send;
    fn __connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int = connect;
    fn __close(fd: c_int) -> c_int = close;
    fn __dup2(old: c_int, new: c_int) -> c_int = dup2;
    fn __fcntl(fd: c_int, cmd: c_int, arg: usize) -> c_int = fcntl;
    fn fcntl64(fd: c_int, cmd: c_int, arg: usize) -> c_int = fcntl;
    fn __poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int = poll;
    fn __select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int = select;
    fn __pipe(fds: *mut c_int) -> c_int = pipe;
    fn __open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = open;
    fn __open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = open;
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int = open;
    fn openat64(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int = openat;
    fn creat64(path: *const c_char, mode: mode_t) -> c_int = creat;
    fn sendfile64(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t = sendfile;
    fn preadv64v2(fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t = preadv2;
    fn pwritev64v2(fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t = pwritev2;
}
