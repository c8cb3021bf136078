//! Which process this is, and the moments at which it changes.
use crate::init;
use libc::c_int;
use smc_core::engine;
use smc_core::sync::{AtomicI32, Ordering};

/// The process that our memory belongs to.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// The process that has already been told of its end.
static ENDED: AtomicI32 = AtomicI32::new(0);

/// The calling process, as the kernel says.
fn pid() -> c_int {
    // SAFETY: a plain query.
    unsafe { crate::cold::sys(libc::SYS_getpid, &[]) as c_int }
}

/// Takes the memory for the calling process.
pub(crate) fn entered() {
    // Relaxed: a process is alone when it starts, and so is the child of a fork.
    OWNER.store(pid(), Ordering::Relaxed);
}

/// Whether this is a child that runs in its parent's memory (`vfork`), or one whose `fork` we have
/// not seen. What it does to its descriptors is nothing that the parent may learn.
///
/// A system call, so only rare paths ask.
#[cold]
pub(crate) fn borrowed_memory() -> bool {
    OWNER.load(Ordering::Relaxed) != pid()
}

/// `pthread_atfork`, before.
pub(crate) unsafe extern "C" fn before_fork() {
    engine::fork_prepare();
}

/// `pthread_atfork`, in the parent.
pub(crate) unsafe extern "C" fn after_fork_in_parent() {
    engine::fork_parent();
}

/// `pthread_atfork`, in the child.
pub(crate) unsafe extern "C" fn after_fork_in_child() {
    entered();
    engine::fork_child();
}

/// The process ends by its own will; tells the engine once.
pub(crate) extern "C" fn exiting() {
    if !init::on() || borrowed_memory() {
        return;
    }
    let me = OWNER.load(Ordering::Relaxed);
    if ENDED.swap(me, Ordering::Relaxed) != me {
        engine::process_exit();
    }
}

/// This image is about to be replaced by another one.
pub(crate) extern "C" fn replacing() {
    if init::on() && !borrowed_memory() {
        engine::before_exec();
    }
}
