//! Options and flags.
use crate::dispatch::{born, hook, ret, tracked};
use crate::process::borrowed_memory;
use crate::symbols::real;
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

    fn sockatmark(fd: c_int) -> c_int,
    if tracked(fd) => |_real| {
        let mut mark: c_int = 0;
        // SAFETY: the request stores an integer.
        let done = unsafe { ioctl(fd, SIOCATMARK, (&raw mut mark) as usize) };
        if done < 0 { done } else { mark }
    };
}

/// Variadic in C, as `ioctl`.
#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn fcntl(fd: c_int, cmd: c_int, arg: usize) -> c_int {
    let copies = matches!(cmd, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC);
    if !copies && !tracked(fd) {
        // SAFETY: the program's own call.
        return unsafe { real::fcntl(fd, cmd, arg) };
    }
    // SAFETY: as above.
    let real = || unsafe { real::fcntl(fd, cmd, arg) as isize };
    if !copies {
        return ret(engine::fcntl(fd, cmd, arg, real));
    }
    if !tracked(fd) {
        let new = real() as c_int;
        born(new);
        return new;
    }
    if borrowed_memory() {
        return real() as c_int;
    }
    let new = ret(engine::fcntl(fd, cmd, arg, real));
    if new >= 0 {
        engine::duplicated(fd, new);
    }
    new
}
