//! Where a thread's block is: the compiler's business.
use super::{Thread, HOLDS};
use crate::sync::{AtomicU32, AtomicU64};

thread_local! {
    static THREAD: Thread = const {
        Thread {
            tid: AtomicU32::new(0),
            critical: AtomicU32::new(0),
            put_off: AtomicU64::new(0),
            ran: AtomicU32::new(0),
            held: [const { (AtomicU32::new(0), AtomicU32::new(0)) }; HOLDS],
        }
    };
}

/// Runs something with this thread's block.
#[inline(always)]
pub(super) fn with<T>(use_it: impl FnOnce(&Thread) -> T) -> T {
    THREAD.with(use_it)
}
