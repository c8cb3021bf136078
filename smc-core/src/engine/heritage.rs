//! At the start of an image: what the one before it has left (`handover`).
use super::life::{count_connection, go_on_with};
use super::processes::ConnSet;
use super::streams;
use crate::arena::{flag, phase, Arena, Handover, Manifest, NO_GROUP};
use crate::conn::Ctx;
use crate::fdtable;
use crate::process::{self, Process};
use crate::sync::Ordering;
use crate::sys::{inherit, raw, tcp};
use crate::transport::loopback::Group;
use libc::c_int;

/// See the module's text.
pub(super) struct Heritage(Option<Handover>);

impl Heritage {
    /// Looks for it.
    pub(super) fn find(build: [u64; 4]) -> Self {
        let mut found = Handover::find();
        if let Some(handover) = &mut found {
            handover.move_all(fdtable::raise);
            if !handover.is_of(build) {
                abandon(handover);
                found = None;
            }
        }
        Self(found)
    }

    /// The arena that is to be this image's.
    pub(super) fn arena(&mut self) -> Option<Arena> {
        let handover = self.0.take()?;
        let arena = handover.fd(1).and_then(Arena::inherit);
        match arena {
            Some(_) => self.0 = Some(handover),
            None => abandon(&handover),
        }
        arena
    }

    /// The page in it that waits for a child of its maker.
    pub(super) fn page(&self) -> Option<u32> {
        let manifest = self.0.as_ref()?.manifest();
        Some(manifest.page.load(Ordering::Relaxed)).filter(|page| *page != u32::MAX)
    }

    /// Goes on with the connections.
    pub(super) fn take(self) {
        let (Some(handover), Some(process)) = (self.0, process::get()) else { return };
        let manifest = handover.manifest();
        let holder = manifest.holder.load(Ordering::Relaxed);
        for conn in manifest.conns().filter_map(|(_, index)| process.device.arena.conn(index)) {
            conn.let_go(holder);
        }
        for row in manifest.groups() {
            let _ = Group::unpack(&process.device, &handover, row);
        }
        take_conns(process, manifest);
        look_at_streams(process);
        end_others(process, manifest);
        if holder != 0 {
            // Signals that were put off while the locks were held.
            raw::set_signal_mask(manifest.signals.load(Ordering::Relaxed));
        }
        if let Some(memfd) = handover.fd(0) {
            fdtable::drop_internal(memfd);
        }
    }
}

fn take_conns(process: &Process, manifest: &Manifest) {
    let first = manifest.taken.swap(1, Ordering::AcqRel) == 0;
    let same = manifest.same.load(Ordering::Relaxed) != 0;
    let mut taken = ConnSet::new();
    for (fd, index) in manifest.conns() {
        // Else it is not inherited after all: a child was told to close it.
        if let Some(ctx) = same_socket(process, fd, index) {
            take_conn(&ctx, first, same, &mut taken);
        }
    }
    if !same {
        // Those that a child was given under other numbers.
        inherit::each_open(|fd| {
            if fdtable::is_tracked(fd) || !tcp::is_tcp(fd) {
                return;
            }
            let found = manifest.conns().find_map(|(_, index)| same_socket(process, fd, index));
            if let Some(ctx) = found {
                take_conn(&ctx, first, same, &mut taken);
            }
        });
    }
    if !first {
        return;
    }
    let mut ended = ConnSet::new();
    for (fd, index) in manifest.conns() {
        let Some(conn) = process.device.arena.conn(index) else { continue };
        let ctx = Ctx { process, index, conn, fd: -1 };
        if !taken.has(index) && ended.add(index) && ctx.gives_up() {
            enter_slot(&Ctx { fd, ..ctx });
            ctx.last_close();
        }
    }
}

/// The record, if the descriptor is its socket.
fn same_socket(process: &Process, fd: c_int, index: u32) -> Option<Ctx<'_>> {
    let conn = process.device.arena.conn(index).filter(|conn| conn.is_used())?;
    let same = tcp::cookie(fd) == Ok(conn.cookie.load(Ordering::Relaxed));
    same.then_some(Ctx { process, index, conn, fd })
}

fn take_conn(ctx: &Ctx<'_>, first: bool, same: bool, taken: &mut ConnSet) {
    let Ctx { process, index, conn, fd } = *ctx;
    let has_slot = conn.group.load(Ordering::Relaxed) != NO_GROUP;
    if has_slot && ctx.group().is_none() {
        reset(fd);
        return;
    }
    go_on_with(process, fd, index);
    if !taken.add(index) {
        return;
    }
    if !first {
        ctx.one_more();
    }
    ctx.note_shared();
    enter_slot(ctx);
    count_connection(process);
    if conn.phase() == phase::ATTACHED {
        process.page().smcd.fetch_add(1, Ordering::Relaxed);
    }
    if same && !ctx.is_shared() {
        conn.fd.store(fd.cast_unsigned(), Ordering::Relaxed);
        // Threads that are no more.
        conn.inside.store(0, Ordering::Relaxed);
        conn.tx_inside.store(0, Ordering::Relaxed);
        conn.lower(flag::IN_EPOLL);
    }
}

/// What becomes of those that libc itself may read and write.
fn look_at_streams(process: &Process) {
    for fd in libc::STDIN_FILENO..=libc::STDERR_FILENO {
        if let Some(ctx) = Ctx::of(process, fd) {
            streams::has_number(&ctx);
            // The loader may have complained there before this library was.
            ctx.sends_behind_what_tcp_has();
        }
    }
}

/// The records of which the `exec` has closed the last descriptor, or that are on TCP again and get
/// a new one.
fn end_others(process: &Process, manifest: &Manifest) {
    for (index, left) in manifest.ends() {
        let Some(conn) = process.device.arena.conn(index).filter(|conn| conn.is_used()) else {
            continue;
        };
        let ctx = Ctx { process, index, conn, fd: -1 };
        enter_slot(&ctx);
        conn.raise(flag::COUNTED);
        if left {
            // The peer may still have to send again what was not read.
            ctx.leave_slot();
            process.device.arena.release(index);
        } else {
            ctx.last_close();
        }
    }
}

/// The group knows again which connection its slot is.
fn enter_slot(ctx: &Ctx<'_>) {
    if let Some(group) = ctx.group() {
        group.put_conn(ctx.conn.slot.load(Ordering::Relaxed) as usize, ctx.index);
    }
}

/// What was left cannot be used: the streams are not whole without it, and end as one whose peer has
/// died, not as one that is complete.
fn abandon(handover: &Handover) {
    log::error!("an exec has left connections that cannot be taken over; they are reset");
    for (fd, _) in handover.manifest().conns() {
        if tcp::is_tcp(fd) {
            reset(fd);
        }
    }
    for at in 0.. {
        let Some(fd) = handover.fd(at) else { break };
        fdtable::drop_internal(fd);
    }
}

fn reset(fd: c_int) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let _ = raw::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger);
    let _ = raw::shutdown(fd, libc::SHUT_RDWR);
}
