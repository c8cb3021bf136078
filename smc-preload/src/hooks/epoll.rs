//! epoll.
use crate::dispatch::{hook, ret, tracked};
use crate::process::borrowed_memory;
use crate::symbols::real;
use libc::{c_int, epoll_event, sigset_t, timespec};
use smc_core::engine::{self, Timeout};
use std::ptr::null;

hook! {
    fn epoll_ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int,
    if tracked(epfd) || tracked(fd) => |real| ret(engine::epoll_ctl(epfd, op, fd, event, real));

    fn epoll_wait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int,
    if tracked(epfd) => |real| ret(engine::epoll_wait(epfd, events, max, Timeout::Millis(timeout), null(), real));

    fn epoll_pwait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int, mask: *const sigset_t) -> c_int,
    if tracked(epfd) => |real| ret(engine::epoll_wait(epfd, events, max, Timeout::Millis(timeout), mask, real));

    fn epoll_pwait2(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int,
    if tracked(epfd) => |real| ret(engine::epoll_wait(epfd, events, max, Timeout::Spec(timeout), mask, real));
}

/// Tells of a new instance.
pub(crate) fn opened(epfd: c_int) {
    if epfd >= 0 && !borrowed_memory() {
        engine::epoll_opened(epfd);
    }
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn epoll_create(size: c_int) -> c_int {
    // SAFETY: the program's own call.
    let epfd = unsafe { real::epoll_create(size) };
    opened(epfd);
    epfd
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn epoll_create1(flags: c_int) -> c_int {
    // SAFETY: the program's own call.
    let epfd = unsafe { real::epoll_create1(flags) };
    opened(epfd);
    epfd
}
