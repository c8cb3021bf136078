//! From file to socket and from pipe to socket.
use crate::dispatch::{hook, ret, tracked, uncancelled};
use libc::{c_int, c_uint, off_t, size_t, ssize_t};
use smc_core::engine;

hook! {
    fn sendfile(out: c_int, input: c_int, offset: *mut off_t, count: size_t) -> ssize_t,
    // Other than the other calls that wait it is no cancellation point.
    if tracked(out) => |real|
        ret(uncancelled(|| engine::sendfile(out, input, offset, count, real)));

    fn splice(from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64, len: size_t, flags: c_uint) -> ssize_t,
    if tracked(from) || tracked(to) => |real|
        ret(engine::splice(from, from_offset, to, to_offset, len, flags, real));
}
