//! poll and select.
use crate::dispatch::{hook, ret, tracked};
use libc::{c_int, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use smc_core::engine::{self, any_tracked, Timeout};
use std::ptr::null;

hook! {
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int,
    if any_tracked(fds, count) => |real| ret(engine::poll(fds, count, Timeout::Millis(timeout), null(), real));

    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int,
    if any_tracked(fds, count) => |real| ret(engine::poll(fds, count, Timeout::Spec(timeout), mask, real));

    fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int,
    if any_in_sets(count, [read, write, except]) => |real|
        ret(engine::select(count, read, write, except, Timeout::Val(timeout), null(), real));

    fn pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int,
    if any_in_sets(count, [read, write, except]) => |real|
        ret(engine::select(count, read, write, except, Timeout::Spec(timeout), mask, real));
}

/// Whether any of the first `count` descriptors in the sets is tracked.
///
/// # Safety
/// Each set is null or holds `count` bits, as `select` asks.
pub(crate) unsafe fn any_in_sets(count: c_int, sets: [*mut fd_set; 3]) -> bool {
    const BITS: usize = u64::BITS as usize;
    let count = usize::try_from(count).unwrap_or(0);
    (0..count.div_ceil(BITS)).any(|word| {
        let mut bits = 0_u64;
        for set in sets.iter().filter(|set| !set.is_null()) {
            // SAFETY: the kernel reads whole words as well.
            bits |= unsafe { *set.cast::<u64>().add(word) };
        }
        let left = count - word * BITS;
        if left < BITS {
            bits &= (1 << left) - 1;
        }
        any_of_word(bits, word * BITS)
    })
}

/// Whether a descriptor named by a bit is tracked, the lowest bit being `first`.
fn any_of_word(mut bits: u64, first: usize) -> bool {
    while bits != 0 {
        if tracked((first + bits.trailing_zeros() as usize) as c_int) {
            return true;
        }
        bits &= bits - 1;
    }
    false
}
