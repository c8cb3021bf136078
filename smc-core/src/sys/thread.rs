//! What belongs to the calling thread: its id, whether it is inside the engine, the C `errno`.
use super::raw;
use crate::errno::Errno;
use crate::sync::{compiler_fence, AtomicU32, AtomicU64, Ordering};
use syscalls::Sysno;

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[path = "thread/block_x86_64.rs"]
mod block;
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[path = "thread/block_plain.rs"]
mod block;

use block::with;

/// Atomics, since a signal handler of the same thread reads and writes them; all zero at first.
struct Thread {
    tid: AtomicU32,
    /// Nested sections in which no handler of the program may run.
    critical: AtomicU32,
    /// Signals that were put off, a bit each.
    put_off: AtomicU64,
    /// Bit 0: a handler with SA_RESTART ran; bit 1: one without.
    ran: AtomicU32,
    /// The records that calls of this thread hold, one more than their number, and how often.
    held: [(AtomicU32, AtomicU32); HOLDS],
    /// Children, or next images, that it is about to make.
    makes: AtomicU32,
}

/// Connections that calls of one thread can hold at a time.
const HOLDS: usize = 8;

impl Thread {
    /// What it holds of a record.
    fn hold_of(&self, wanted: u32) -> Option<&(AtomicU32, AtomicU32)> {
        // Relaxed, here and below: only this thread, or a handler that interrupts it.
        self.held.iter().find(|(of, _)| of.load(Ordering::Relaxed) == wanted)
    }
}

/// A call of this thread holds a connection; how many do then. `None`: there is no room to note it.
pub fn hold(record: u32) -> Option<u32> {
    with(|thread| {
        let (of, count) = thread.hold_of(record + 1).or_else(|| thread.hold_of(0))?;
        of.store(record + 1, Ordering::Relaxed);
        let holds = count.load(Ordering::Relaxed) + 1;
        count.store(holds, Ordering::Relaxed);
        Some(holds)
    })
}

/// Such a call is over; false: it was taken for one that had been jumped out of.
pub fn let_go(record: u32) -> bool {
    with(|thread| {
        let Some((of, count)) = thread.hold_of(record + 1) else { return false };
        let left = count.load(Ordering::Relaxed).saturating_sub(1);
        count.store(left, Ordering::Relaxed);
        if left == 0 {
            of.store(0, Ordering::Relaxed);
        }
        true
    })
}

/// Whether calls of this thread hold a connection.
pub fn holds(record: u32) -> bool {
    with(|thread| thread.hold_of(record + 1).is_some())
}

/// How many calls of this thread hold a connection; from here on none does. A thread that makes
/// another call is no longer inside them: a signal handler has jumped out.
pub fn forget_holds(record: u32) -> u32 {
    with(|thread| {
        let Some((of, count)) = thread.hold_of(record + 1) else { return 0 };
        of.store(0, Ordering::Relaxed);
        count.swap(0, Ordering::Relaxed)
    })
}

/// This thread begins to make a child or a next image.
pub fn begins_to_make() {
    with(|thread| thread.makes.fetch_add(1, Ordering::Relaxed));
}

/// It has done so, or not; in the child nothing is being made.
pub fn ends_to_make() {
    with(|thread| {
        let less = |makes: u32| makes.checked_sub(1);
        let _ = thread.makes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    });
}

/// Whether this thread is in the middle of that.
pub fn is_making() -> bool {
    with(|thread| thread.makes.load(Ordering::Relaxed) != 0)
}

/// This thread's id.
#[inline(always)]
pub fn tid() -> u32 {
    with(|thread| match thread.tid.load(Ordering::Relaxed) {
        0 => first_tid(thread),
        tid => tid,
    })
}

#[cold]
fn first_tid(thread: &Thread) -> u32 {
    let tid = raw::gettid();
    thread.tid.store(tid, Ordering::Relaxed);
    tid
}

/// In the child of a fork: the id is another one.
pub fn forget_tid() {
    with(|thread| thread.tid.store(0, Ordering::Relaxed));
}

/// While it exists, the program's signal handlers are put off.
#[derive(Debug)]
pub struct Critical(());

impl Critical {
    /// Enters; sections nest.
    #[inline(always)]
    pub fn enter() -> Self {
        with(|thread| {
            let depth = thread.critical.load(Ordering::Relaxed);
            if depth == 0 {
                // A call begins: handlers that ran before it do not interrupt it.
                thread.ran.store(0, Ordering::Relaxed);
            }
            thread.critical.store(depth + 1, Ordering::Relaxed);
        });
        compiler_fence(Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Critical {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        with(|thread| {
            let depth = thread.critical.load(Ordering::Relaxed).saturating_sub(1);
            thread.critical.store(depth, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            if depth == 0 && thread.put_off.load(Ordering::Relaxed) != 0 {
                deliver(thread);
            }
        });
    }
}

/// Runs a call that may block, and may be cancelled, as if outside of the engine.
#[inline(always)]
pub fn outside<T>(call: impl FnOnce() -> T) -> T {
    struct Back(u32);
    impl Drop for Back {
        fn drop(&mut self) {
            with(|thread| thread.critical.store(self.0, Ordering::Relaxed));
            compiler_fence(Ordering::SeqCst);
        }
    }
    let back = with(|thread| {
        let depth = thread.critical.swap(0, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        if thread.put_off.load(Ordering::Relaxed) != 0 {
            deliver(thread);
        }
        Back(depth)
    });
    let value = call();
    drop(back);
    value
}

/// As [`outside`], for a call that waits: `None`, without waiting, if a handler has run since this
/// call of the program began. The kernel would have woken it; here it has not slept yet.
#[inline(always)]
pub fn outside_unless_interrupted<T>(call: impl FnOnce() -> T) -> Option<T> {
    outside(|| {
        let interrupted = with(|thread| thread.ran.load(Ordering::Relaxed) != 0);
        (!interrupted).then(call)
    })
}

/// Lets the signals in that were put off.
#[cold]
fn deliver(thread: &Thread) {
    let signals = thread.put_off.swap(0, Ordering::Relaxed);
    // SIG_UNBLOCK; the kernel delivers before the call returns.
    let how = libc::SIG_UNBLOCK as usize;
    let arguments = [how, &raw const signals as usize, 0, 8, 0, 0];
    keep_errno(|| {
        // SAFETY: requires a mask of 8 bytes: a local.
        let _ = unsafe { raw::call6(Sysno::rt_sigprocmask, arguments) };
    });
}

/// Whether a handler must wait.
pub(super) fn is_critical() -> bool {
    with(|thread| thread.critical.load(Ordering::Relaxed) != 0)
}

/// Notes a signal that waits.
pub(super) fn put_off(signal: i32) {
    let bit = 1_u64 << (signal.unsigned_abs().saturating_sub(1) & 63);
    with(|thread| thread.put_off.fetch_or(bit, Ordering::Relaxed));
}

/// Notes that a handler of the program runs.
pub(super) fn handler_ran(restarts: bool) {
    let bit = if restarts { 1 } else { 2 };
    with(|thread| thread.ran.fetch_or(bit, Ordering::Relaxed));
}

/// Which handlers have run since the last call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// None that we know of.
    None,
    /// Only such with SA_RESTART.
    Restarting,
    /// One without.
    Interrupting,
}

/// Which handlers have run since the last call of this function.
pub fn take_ran() -> Ran {
    match with(|thread| thread.ran.swap(0, Ordering::Relaxed)) {
        0 => Ran::None,
        1 => Ran::Restarting,
        _ => Ran::Interrupting,
    }
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
