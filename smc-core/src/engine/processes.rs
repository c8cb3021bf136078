//! Forks and ends of processes.
use crate::conn::Ctx;
use crate::fdtable;
use crate::process::{self, Process};
use crate::sync::Ordering;
use crate::sys::raw;

/// `pthread_atfork` prepare handler.
pub fn fork_prepare() {
    let Some(process) = process::get() else { return };
    process.device.control.lock_for_fork();
    process.epolls.lock_for_fork();
    process.device.groups.changing.hold();
    process.netlink.hold();
    // Before the child exists, so that nobody attaches what two processes hold.
    for_each_conn(process, |ctx| {
        ctx.conn.procs.fetch_add(1, Ordering::AcqRel);
        // The tools tell by it which of the processes still hold the socket.
        if ctx.conn.inode.load(Ordering::Relaxed) == 0 {
            ctx.conn.inode.store(raw::inode(ctx.fd), Ordering::Relaxed);
        }
    });
}

/// Every connection of this process once.
fn for_each_conn(process: &Process, mut with: impl FnMut(Ctx<'_>)) {
    for (fd, entry) in fdtable::all() {
        let Some(index) = entry.as_socket() else { continue };
        let Some(conn) = process.device.arena.conn(index) else { continue };
        // Of several numbers the one that the record names.
        if conn.fd.load(Ordering::Relaxed) == fd.unsigned_abs() {
            with(Ctx { process, index, conn, fd });
        }
    }
}

fn fork_done(process: &Process) {
    // SAFETY: requires that this thread holds the locks: `fork_prepare` took them.
    unsafe { process.netlink.let_go() };
    // SAFETY: as above.
    unsafe { process.device.groups.changing.let_go() };
    process.epolls.unlock_after_fork();
    process.device.control.unlock_after_fork();
}

/// `pthread_atfork` parent handler.
pub fn fork_parent() {
    if let Some(process) = process::get() {
        fork_done(process);
    }
}
/// `pthread_atfork` child handler.
pub fn fork_child() {
    let Some(process) = process::get() else { return };
    crate::sys::signals::after_fork();
    fork_done(process);
    process.after_fork();
}
/// At a normal exit of the process: appends the summary line.
pub fn process_exit() {
    let Some(process) = process::get() else { return };
    if process.is_borrowed() {
        return;
    }
    for_each_conn(process, |ctx| {
        if ctx.conn.procs.load(Ordering::Acquire) == 1 {
            if ctx.has_unread() {
                ctx.reset_on_close();
            }
            ctx.count();
        }
    });
    crate::summary::append(process);
}
/// Before an `exec…` that replaces this image.
pub fn before_exec() {}
