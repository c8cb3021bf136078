//! Which process this is, and the moments at which it changes.
use crate::cold::sys;
use crate::dispatch::{errno, set_errno};
use crate::init;
use libc::c_int;
use smc_core::engine::{self, Plan, Target};
use smc_core::sync::{AtomicI32, AtomicPtr, AtomicU8, Ordering};

/// The process that our memory belongs to, in a page that the kernel wipes in the child of a `fork`
/// but not, of course, in a child that shares the memory. Points to [`PLAIN`] without such a page.
static OWNER: AtomicPtr<AtomicI32> = AtomicPtr::new((&raw const PLAIN).cast_mut());

/// Used before [`entered`], and by kernels that cannot wipe pages (before 4.14).
static PLAIN: AtomicI32 = AtomicI32::new(NOBODY);

/// What the page holds after it was wiped.
const NOBODY: c_int = 0;

/// Set while the engine is prepared for a `fork`; the child finds it set.
static FORKING: AtomicU8 = AtomicU8::new(0);

/// The process that has already been told of its end.
static ENDED: AtomicI32 = AtomicI32::new(NOBODY);

/// The calling process, as the kernel says.
fn pid() -> c_int {
    // SAFETY: a plain query.
    unsafe { sys(libc::SYS_getpid, &[]) as c_int }
}

fn owner() -> &'static AtomicI32 {
    // SAFETY: PLAIN, or a page that stays mapped.
    unsafe { &*OWNER.load(Ordering::Relaxed) }
}

/// Takes the memory for the calling process; called once, by the constructor.
pub(crate) fn entered() {
    if let Some(page) = wiped_page() {
        OWNER.store(page, Ordering::Relaxed);
    }
    // Relaxed: a process is alone when it starts.
    owner().store(pid(), Ordering::Relaxed);
}

/// A page that the child of a `fork` sees empty.
fn wiped_page() -> Option<*mut AtomicI32> {
    const LEN: usize = 4096;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let words = [0, LEN, protection as usize, flags as usize, usize::MAX, 0];
    // SAFETY: new memory, nobody's.
    let page = unsafe { sys(libc::SYS_mmap, &words) } as usize;
    if page == usize::MAX {
        return None;
    }
    // SAFETY: our page.
    let wiped = unsafe { sys(libc::SYS_madvise, &[page, LEN, libc::MADV_WIPEONFORK as usize]) };
    (wiped == 0).then_some(page as *mut AtomicI32)
}

/// Whether this is a child that runs in its parent's memory (`vfork`, `CLONE_VM`), or one whose
/// fork ran no handlers (`_Fork`, a raw `clone`). What it does to its descriptors is nothing that
/// the parent may learn.
///
/// The child of a `fork` is told from these also before our handler has run in it: handlers of
/// other libraries come first, and may close descriptors. A system call, so only rare paths ask.
///
/// Neither may a process that has confined itself be asked, nor what it does be of any concern.
#[cold]
pub(crate) fn borrowed_memory() -> bool {
    if engine::confined() {
        return true;
    }
    let owner = owner().load(Ordering::Relaxed);
    if owner == pid() {
        return false;
    }
    if owner == NOBODY && FORKING.load(Ordering::Relaxed) == 1 {
        forked();
        return false;
    }
    true
}

/// The child of a `fork` takes its copy of the memory, once.
fn forked() {
    let me = pid();
    if owner().swap(me, Ordering::Relaxed) != me {
        FORKING.store(0, Ordering::Relaxed);
        engine::fork_child();
    }
}

/// `pthread_atfork`, before.
pub(crate) unsafe extern "C" fn before_fork() {
    engine::fork_prepare();
    FORKING.store(1, Ordering::Relaxed);
}

/// `pthread_atfork`, in the parent.
pub(crate) unsafe extern "C" fn after_fork_in_parent() {
    FORKING.store(0, Ordering::Relaxed);
    engine::fork_parent();
}

/// `pthread_atfork`, in the child.
pub(crate) unsafe extern "C" fn after_fork_in_child() {
    if engine::confined() {
        engine::fork_child();
    } else {
        forked();
    }
}

/// The process ends by its own will; tells the engine once.
pub(crate) extern "C" fn exiting() {
    if !init::on() || borrowed_memory() {
        return;
    }
    let me = owner().load(Ordering::Relaxed);
    if ENDED.swap(me, Ordering::Relaxed) != me {
        engine::process_exit();
    }
}

/// This image is about to be replaced by what `target` tells; a child in its parent's memory alone
/// if it is one.
pub(crate) fn replacing(target: impl FnOnce() -> Target) -> Plan {
    if !init::on() {
        return Plan::default();
    }
    // The child of a fork takes its copy of the memory, if it has not yet.
    borrowed_memory();
    engine::before_exec(target)
}

/// It was not: the exec has failed.
pub(crate) fn not_replaced(plan: Plan) {
    if init::on() {
        let failure = errno();
        engine::exec_failed(plan);
        set_errno(failure);
    }
}

/// A child is about to be started that will be what `target` tells.
pub(crate) fn spawning(target: impl FnOnce() -> Target, waits: bool) -> Plan {
    if init::on() && !borrowed_memory() {
        engine::before_spawn(target, waits)
    } else {
        Plan::default()
    }
}

/// It was started, or not.
pub(crate) fn spawned(plan: Plan, started: bool) {
    if init::on() {
        let failure = errno();
        engine::spawned(plan, started);
        set_errno(failure);
    }
}
