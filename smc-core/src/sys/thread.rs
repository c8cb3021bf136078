//! What belongs to the calling thread: its id and the C `errno`.
use super::raw;
use crate::errno::Errno;
use core::cell::Cell;

thread_local! {
    static TID: Cell<u32> = const { Cell::new(0) };
}

/// This thread's id.
#[inline(always)]
pub fn tid() -> u32 {
    match TID.get() {
        0 => first_tid(),
        tid => tid,
    }
}

#[cold]
fn first_tid() -> u32 {
    let tid = raw::gettid();
    TID.set(tid);
    tid
}

/// In the child of a fork: the id is another one.
pub fn forget_tid() {
    TID.set(0);
}

/// The C `errno`.
pub fn last_errno() -> Errno {
    // SAFETY: requires nothing: the address of this thread's errno is always valid.
    Errno(unsafe { *libc::__errno_location() })
}

/// Runs something that may set the C `errno`, and puts it back.
pub fn keep_errno<T>(with: impl FnOnce() -> T) -> T {
    // SAFETY: as in `last_errno`.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let saved = unsafe { *place };
    let value = with();
    // SAFETY: as above.
    unsafe { *place = saved };
    value
}
