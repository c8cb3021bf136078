//! Options and flags.
use crate::dispatch::{born, hook, ret, tracked};
use crate::process::borrowed_memory;
use libc::{c_int, c_ulong, c_void, socklen_t};
use smc_core::engine;

/// Whether the stream is at the urgent mark.
const SIOCATMARK: c_ulong = 0x8905;

hook! {
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int,
    if tracked(fd) => |real| ret(engine::getsockopt(fd, level, name, value, len, real));

    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int,
    if tracked(fd) => |real| ret(engine::setsockopt(fd, level, name, value, len, real));

    // Variadic in C. On x86-64 and aarch64 Linux the third argument travels like a fixed one.
    fn ioctl(fd: c_int, request: c_ulong, arg: usize) -> c_int,
    if tracked(fd) => |real| ret(engine::ioctl(fd, request, arg, real));

    // By which programs look for the descriptors that they have.
    fn fstat(fd: c_int, stat: *mut c_void) -> c_int,
    if tracked(fd) => |real| ret(engine::describe(fd, real));

    fn fstat64(fd: c_int, stat: *mut c_void) -> c_int,
    if tracked(fd) => |real| ret(engine::describe(fd, real));

    // What those were before they were functions.
    fn __fxstat(version: c_int, fd: c_int, stat: *mut c_void) -> c_int,
    if tracked(fd) => |real| ret(engine::describe(fd, real));

    fn __fxstat64(version: c_int, fd: c_int, stat: *mut c_void) -> c_int,
    if tracked(fd) => |real| ret(engine::describe(fd, real));

    fn sockatmark(fd: c_int) -> c_int,
    if tracked(fd) => |_real| {
        let mut mark: c_int = 0;
        // SAFETY: the request stores an integer.
        let done = unsafe { ioctl(fd, SIOCATMARK, (&raw mut mark) as usize) };
        if done < 0 { done } else { mark }
    };

    // Variadic in C, as `ioctl`.
    fn fcntl(fd: c_int, cmd: c_int, arg: usize) -> c_int,
    if tracked(fd) || copies(cmd) => |real| {
        if copies(cmd) {
            copy(fd, || ret(engine::fcntl(fd, cmd, arg, real)), || real() as c_int)
        } else {
            ret(engine::fcntl(fd, cmd, arg, real))
        }
    };
}

/// Whether a command of `fcntl` makes a descriptor.
#[inline(always)]
pub(crate) fn copies(cmd: c_int) -> bool {
    matches!(cmd, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC)
}

/// Copies a descriptor, by the engine if it is one of ours.
fn copy(fd: c_int, ours: impl FnOnce() -> c_int, real: impl FnOnce() -> c_int) -> c_int {
    if !tracked(fd) || borrowed_memory() {
        let new = real();
        born(new);
        return new;
    }
    let new = ours();
    if new >= 0 {
        engine::duplicated(fd, new);
    }
    new
}
