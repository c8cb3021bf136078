//! Making and connecting sockets.
use crate::dispatch::{born, born_pair, hook, ret, tracked};
use crate::process::borrowed_memory;
use crate::symbols::real;
use libc::{c_int, sockaddr, socklen_t};
use smc_core::engine;

hook! {
    fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int,
    if tracked(fd) => |real| ret(engine::connect(fd, addr, len, real));

    fn listen(fd: c_int, _backlog: c_int) -> c_int,
    if tracked(fd) => |real| ret(engine::listen(fd, real));
}

/// Tells of a new socket; the way of a child in its parent's memory leaves no trace.
pub(crate) fn opened(fd: c_int, domain: c_int, kind: c_int, protocol: c_int) {
    if fd >= 0 && matches!(domain, libc::AF_INET | libc::AF_INET6) {
        if !borrowed_memory() {
            engine::socket_opened(fd, domain, kind, protocol);
        }
    } else {
        born(fd);
    }
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn socket(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
) -> c_int {
    // SAFETY: the program's own call.
    let fd = unsafe { real::socket(domain, kind, protocol) };
    opened(fd, domain, kind, protocol);
    fd
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn socketpair(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
    fds: *mut c_int,
) -> c_int {
    // SAFETY: the program's own call.
    let done = unsafe { real::socketpair(domain, kind, protocol, fds) };
    if done == 0 {
        // SAFETY: the call has succeeded.
        unsafe { born_pair(fds) };
    }
    done
}

/// Tells of a connection taken from a listener.
#[inline(always)]
pub(crate) fn taken(listener: c_int, fd: c_int) {
    if fd >= 0 && tracked(listener) && !borrowed_memory() {
        engine::accepted(listener, fd);
    } else {
        born(fd);
    }
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn accept(
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the program's own call.
    let new = unsafe { real::accept(fd, addr, len) };
    taken(fd, new);
    new
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the program's own call.
    let new = unsafe { real::accept4(fd, addr, len, flags) };
    taken(fd, new);
    new
}
