//! Forks and ends of processes.
use super::confined;
use crate::arena::CONNS;
use crate::conn::{numbers, Ctx};
use crate::fdtable;
use crate::process::{self, Process};
use crate::sync::Ordering;
use crate::reason::Reason;
use crate::sys::iov::fetch;
use crate::sys::raw;
use crate::sys::thread::Critical;
use crate::transport::loopback::Group;
use libc::{c_int, msghdr};

/// `pthread_atfork` prepare handler.
pub fn fork_prepare() {
    let Some(process) = process::get() else { return };
    // First: who closes a connection needs what is locked below.
    process.births.before_fork();
    process.steady.hold();
    process.device.control.lock_for_fork();
    process.epolls.lock_for_fork();
    process.device.groups.changing.hold();
    process.netlink.hold();
    process.births.current.hold();
    process.device.expect_child();
    // Before the child exists, so that nobody attaches what two processes hold.
    for_each_conn(process, |ctx| {
        ctx.one_more();
        // The tools tell by it which of the processes still hold the socket.
        if ctx.conn.inode.load(Ordering::Relaxed) == 0 {
            ctx.conn.inode.store(raw::inode(ctx.fd), Ordering::Relaxed);
        }
    });
    now_several(process);
}

/// From now on other processes may hold connections of this one. Who sleeps looks again, and how long
/// it may sleep.
pub(super) fn now_several(process: &Process) {
    process.device.groups.iter().for_each(Group::note_fork);
    process.device.queues.wake_all(|queue| process.epolls.owns_queue(queue));
    process.epolls.wake_waiters(process);
}

/// Every descriptor of this process that is a connection.
pub(super) fn each_descriptor<'p>(process: &'p Process, mut with: impl FnMut(Ctx<'p>)) {
    for (fd, entry) in fdtable::all() {
        let Some(index) = entry.as_socket() else { continue };
        let Some(conn) = process.device.arena.conn(index) else { continue };
        with(Ctx { process, index, conn, fd });
    }
}

/// Every connection of this process once.
pub(super) fn for_each_conn<'p>(process: &'p Process, mut with: impl FnMut(Ctx<'p>)) {
    let mut seen = ConnSet::new();
    each_descriptor(process, |ctx| {
        if seen.add(ctx.index) {
            with(ctx);
        }
    });
}

/// A set of connections, without an allocation.
pub(super) struct ConnSet([u64; CONNS / 64]);

impl ConnSet {
    /// An empty one.
    pub(super) const fn new() -> Self {
        Self([0; CONNS / 64])
    }

    /// Adds a connection; false: it was there.
    pub(super) fn add(&mut self, index: u32) -> bool {
        let bit = 1 << (index % 64);
        let Some(word) = self.0.get_mut(index as usize / 64) else { return false };
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Whether it is in the set.
    pub(super) fn has(&self, index: u32) -> bool {
        self.0.get(index as usize / 64).is_some_and(|word| word >> (index % 64) & 1 != 0)
    }
}

fn fork_done(process: &Process) {
    // SAFETY: requires that this thread holds the locks: `fork_prepare` took them.
    unsafe { process.births.current.let_go() };
    // SAFETY: as above.
    unsafe { process.netlink.let_go() };
    // SAFETY: as above.
    unsafe { process.device.groups.changing.let_go() };
    process.epolls.unlock_after_fork();
    process.device.control.unlock_after_fork();
    // SAFETY: as above.
    unsafe { process.steady.let_go() };
    process.births.forked();
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
    if confined() {
        return;
    }
    process.after_fork();
    numbers::after_fork();
}
/// At a normal exit of the process: appends the summary line.
pub fn process_exit() {
    let Some(process) = process::get().filter(|_| !confined()) else { return };
    for_each_conn(process, |ctx| {
        let Some(ctx) = ctx.steady() else {
            // Another thread has just closed it.
            ctx.gives_up();
            return;
        };
        ctx.see_leave();
        let alone = !ctx.is_shared();
        if alone {
            ctx.send_last();
            ctx.ends_sending();
            ctx.count();
        }
        // Another holder may have gone meanwhile, and have seen this one.
        if ctx.gives_up() && !alone {
            ctx.send_last();
            ctx.ends_sending();
            ctx.count();
        }
    });
    crate::summary::append(process);
}
/// Before a descriptor goes to another process (SCM_RIGHTS).
fn passing(fd: c_int) {
    let Some(process) = process::get() else { return };
    if let Some(ctx) = Ctx::of(process, fd) {
        let _critical = Critical::enter();
        ctx.leave(Reason::PASSED);
    }
}

/// The longest control data that is looked at: the kernel takes 253 descriptors.
const CONTROL_MAX: usize = 2048;

/// Whether a message to a foreign socket carries descriptors of ours; `with` gets each.
fn each_right(msg: *const msghdr, mut with: impl FnMut(c_int)) {
    let Ok(header) = fetch(msg) else { return };
    let len = header.msg_controllen.min(CONTROL_MAX);
    let mut at = 0;
    let word = |at: usize| -> Option<c_int> {
        fetch(header.msg_control.cast::<u8>().wrapping_add(at).cast::<c_int>()).ok()
    };
    // struct cmsghdr: a 64-bit length, level, type; the data follow.
    while at + 16 <= len {
        let (Some(size), Some(level), Some(kind)) = (word(at), word(at + 8), word(at + 12)) else {
            return;
        };
        let size = size.unsigned_abs() as usize;
        if size < 16 {
            return;
        }
        if (level, kind) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            let end = (at + size).min(len);
            (at + 16..end.saturating_sub(3)).step_by(4).filter_map(word).for_each(&mut with);
        }
        at += (size + 7) & !7;
    }
}

/// Whether a message to a foreign socket carries a connection of ours.
#[inline]
pub fn carries_sockets(msg: *const msghdr) -> bool {
    // Without the engine a bad pointer is the kernel's to find.
    if process::get().is_none() || !fetch(msg).is_ok_and(|header| header.msg_controllen != 0) {
        return false;
    }
    let mut ours = false;
    each_right(msg, |fd| ours |= fdtable::entry(fd).as_socket().is_some());
    ours
}

/// Before such a message goes out.
pub fn pass_on(msg: *const msghdr) {
    each_right(msg, passing);
}
