//! Copying and ending descriptors.
//!
//! A child that runs in its parent's memory (`vfork`) has descriptors of its own: what it does to
//! them goes straight to the kernel. Those of the engine it keeps, as they are not the program's.
use crate::dispatch::{born, hook, ret, tracked};
use crate::init;
use crate::process::borrowed_memory;
use crate::symbols::real;
use libc::{c_int, c_uint};
use smc_core::engine;

/// Whether what becomes of the descriptor is the engine's business.
#[cold]
fn concerns(fd: c_int) -> bool {
    !borrowed_memory() || engine::kind(fd) == engine::Kind::Internal
}

hook! {
    fn shutdown(fd: c_int, how: c_int) -> c_int,
    if tracked(fd) => |real| ret(engine::shutdown(fd, how, real));

    fn close(fd: c_int) -> c_int,
    if tracked(fd) && concerns(fd) => |real| ret(engine::close(fd, real));

    fn dup2(old: c_int, new: c_int) -> c_int,
    if (tracked(old) || tracked(new)) && (concerns(old) || concerns(new)) => |real| ret(engine::dup_onto(old, new, 0, real));

    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int,
    if (tracked(old) || tracked(new)) && (concerns(old) || concerns(new)) => |real| ret(engine::dup_onto(old, new, flags, real));

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int,
    if init::on() => |_real| ret(engine::close_range(first, last, flags, borrowed_memory(), |first, last| {
        // SAFETY: the program's own call, on a part of its range.
        unsafe { real::close_range(first, last, flags) as isize }
    }));
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    // SAFETY: the program's own call.
    let new = unsafe { real::dup(fd) };
    if new >= 0 && tracked(fd) && !borrowed_memory() {
        engine::duplicated(fd, new);
    } else {
        born(new);
    }
    new
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn closefrom(first: c_int) {
    // SAFETY: the program's own call.
    let done = unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
    if done != 0 {
        // A kernel without close_range: libc has another way.
        // SAFETY: as above.
        unsafe { real::closefrom(first) };
    }
}
