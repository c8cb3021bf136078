//! A program that confines itself to a few system calls (seccomp).
//!
//! A ring needs calls that its filter may answer with an error, or with the end of the process. So
//! before there is one, all connections go back to TCP, as before an exec of a foreign program, and
//! the library leaves the process alone: no descriptor is known any more, and none gets known.
use super::processes::for_each_conn;
use crate::conn::Ctx;
use crate::fdtable;
use crate::process::{self, Process};
use crate::reason::Reason;
use crate::summary;
use crate::sync::{AtomicBool, Ordering};
use crate::sys::thread::Critical;

static CONFINED: AtomicBool = AtomicBool::new(false);

/// Whether the process has confined itself: nothing of ours may make a system call of its own.
#[inline]
pub fn confined() -> bool {
    // Relaxed: who installs the filter sets it before; other threads may see it late, as the filter.
    CONFINED.load(Ordering::Relaxed)
}

/// Before a filter is installed.
#[cold]
pub fn before_confinement() {
    let Some(process) = process::get() else { return };
    if CONFINED.swap(true, Ordering::Relaxed) {
        return;
    }
    let _critical = Critical::enter();
    for_each_conn(process, |ctx| {
        ctx.leave(Reason::CONFINED);
        ctx.count();
    });
    process.epolls.dissolve(process);
    forget_all(process);
    // At the end of the process it could not be written any more.
    summary::append(process);
}

/// The hooks of all descriptors pass through from now on. What the peer cannot send again, since it
/// has ended its stream, is still read from the ring.
fn forget_all(process: &Process) {
    for (fd, entry) in fdtable::all() {
        let keeps = || Ctx::of(process, fd).is_some_and(|ctx| ctx.cannot_come_again());
        if entry != fdtable::Entry::internal() && !keeps() {
            fdtable::take(fd);
        }
    }
}
