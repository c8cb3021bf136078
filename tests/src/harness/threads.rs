//! Threads for the child of a fork.
//!
//! One of the standard library takes a lock when it starts, and when it ends, which another thread of
//! the parent may have held at the fork: in the child nobody gives it back.

use std::ffi::c_void;

type Work<'a> = &'a (dyn Fn() + Sync);

extern "C" fn run(work: *mut c_void) -> *mut c_void {
    // SAFETY: an element of the slice that `all` was given, which waits for this thread.
    let work: Work<'_> = unsafe { *work.cast() };
    work();
    std::ptr::null_mut()
}

/// Does all of these at once, each in a thread of its own, until the last is over.
pub fn all(works: &[Work<'_>]) {
    let start = |work: &Work<'_>| {
        let mut thread = 0;
        let work = std::ptr::from_ref(work).cast_mut().cast();
        // SAFETY: a valid place for the name; what the thread is given outlives it, and may be shared.
        let error = unsafe { libc::pthread_create(&mut thread, std::ptr::null(), run, work) };
        assert_eq!(error, 0, "pthread_create");
        thread
    };
    for thread in works.iter().map(start).collect::<Vec<_>>() {
        // SAFETY: a thread that was started here and is joined once.
        let error = unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
        assert_eq!(error, 0, "pthread_join");
    }
}
