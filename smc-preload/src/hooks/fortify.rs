//! Checked forms: programs built with `_FORTIFY_SOURCE` call them where the compiler could not
//! prove that the buffer is large enough. An overflow goes to libc's function, which reports it
//! and ends the program.
use super::io::{read, recv, recvfrom};
use super::mux::{poll, ppoll};
use crate::symbols::real;
use libc::{
    c_int, c_void, nfds_t, pollfd, sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec,
};

macro_rules! checked {
    ($(fn $name:ident($($arg:ident : $type:ty),*) -> $ret:ty, if $fits:expr => $base:ident($($pass:ident),*);)*) => {$(
        #[no_mangle]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $ret {
            // SAFETY: the program's own call with its own arguments, whose contract it keeps.
            unsafe {
                if $fits { $base($($pass),*) } else { real::$name($($arg),*) }
            }
        }
    )*};
}

checked! {
    fn __read_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t) -> ssize_t,
    if len <= size => read(fd, buf, len);

    fn __recv_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t, flags: c_int) -> ssize_t,
    if len <= size => recv(fd, buf, len, flags);

    fn __recvfrom_chk(fd: c_int, buf: *mut c_void, len: size_t, size: size_t, flags: c_int, addr: *mut sockaddr, addr_len: *mut socklen_t) -> ssize_t,
    if len <= size => recvfrom(fd, buf, len, flags, addr, addr_len);

    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, size: size_t) -> c_int,
    if count as usize <= size / size_of::<pollfd>() => poll(fds, count, timeout);

    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, size: size_t) -> c_int,
    if count as usize <= size / size_of::<pollfd>() => ppoll(fds, count, timeout, mask);
}
