//! Over an `exec`: with which connections the next image goes on, and which go back to TCP.
//!
//! The next image maps the same arena, and the regions at whatever address, so that it shares the
//! records with whoever else holds the sockets: a parent that lives on and its child, as after a
//! fork. Where that cannot be, a connection goes back to TCP before the `exec`, with every byte
//! where it belongs: the program is none that loads this library.
use super::processes::{each_descriptor, for_each_conn, now_several, ConnSet};
use super::streams::is_seen;
use crate::arena::{flag, is_carrier, phase, Handover, Heir, Packed, NO_GROUP};
use crate::conn::Ctx;
use crate::fdtable;
use crate::process::{self, Process};
use crate::reason::Reason;
use crate::sync::Ordering;
use crate::sys::thread::{tid, Critical};
use crate::sys::{inherit, raw, tcp};
use libc::c_int;

/// What an `exec` is about to start, as far as can be told beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nothing: there is no such file, or it may not be run.
    Nothing,
    /// A program into which this library is not loaded, or for which it does nothing.
    Foreign,
    /// One that loads this library, from the same file.
    Ours,
}

/// An `exec` that is under way.
#[derive(Debug, Default)]
pub struct Plan {
    packed: Option<Packed>,
    heir: Option<Heir>,
    /// Thread that holds the locks of the connections in it, or 0.
    holder: u32,
    /// A child's turn to be started.
    turn: Option<u64>,
    /// No other thread takes a descriptor away meanwhile.
    keeps_all: bool,
    /// While they are held no signal handler of the program may run into them.
    critical: Option<Critical>,
}

/// Before an `exec…` that replaces this image.
pub fn before_exec(target: impl FnOnce() -> Target) -> Plan {
    let Some(process) = process::get() else { return Plan::default() };
    let heir = if process.device.is_borrowed() { Heir::Borrower } else { Heir::Same };
    prepare(process, target, heir)
}

/// Before a child is started that will be another program (`posix_spawn`). `waits`: the call comes back
/// when the child has ended, and not as soon as it is there.
pub fn before_spawn(target: impl FnOnce() -> Target, waits: bool) -> Plan {
    let Some(process) = process::get().filter(|process| !process.device.is_borrowed()) else {
        return Plan::default();
    };
    if !has_sockets() {
        return Plan::default();
    }
    let turn = process.births.begin();
    let mut plan = prepare(process, target, Heir::Child);
    match plan.packed {
        Some(packed) => {
            fdtable::set(packed.carrier, fdtable::Entry::internal());
            process.births.open(turn, packed);
        }
        None if waits => {
            process.births.end(turn);
            return plan;
        }
        // One to which nothing is left is not to find what was left for another either.
        None => {}
    }
    plan.turn = Some(turn);
    plan
}

/// A child that is yet to be spawned shall have a copy of `fd` as `new`.
pub fn given_to_child(fd: c_int, new: c_int) {
    let Some(process) = process::get() else { return };
    if let Some(ctx) = Ctx::of(process, fd) {
        ctx.conn.raise(flag::GIVEN);
        if !is_seen(new) {
            let _critical = Critical::enter();
            ctx.leave(Reason::STDIO);
        }
    }
}

/// The child was started, or not.
pub fn spawned(plan: Plan, started: bool) {
    if let (Some(turn), Some(process)) = (plan.turn, process::get()) {
        process.births.end(turn);
    }
    if let Some(packed) = &plan.packed {
        fdtable::take(packed.carrier);
    }
    if started {
        if let Some(packed) = plan.packed {
            packed.close();
        }
    } else {
        exec_failed(plan);
    }
}

/// The exec has failed: the program goes on.
pub fn exec_failed(plan: Plan) {
    let Some(process) = process::get() else { return };
    let _critical = Critical::enter();
    if plan.heir == Some(Heir::Same) {
        for_each_conn(process, |ctx| ctx.keeps());
    }
    if let Some(packed) = plan.packed {
        take_back_packed(process, &plan, packed);
    }
    if plan.keeps_all {
        process.births.let_close();
    }
}

fn take_back_packed(process: &Process, plan: &Plan, packed: Packed) {
    if let (Some(handover), Some(heir)) = (packed.open(), plan.heir) {
        take_back(process, heir, &handover, plan.holder);
    }
    packed.close();
}

/// The next image will not be: what it was to have is let go of.
fn take_back(process: &Process, heir: Heir, handover: &Handover, holder: u32) {
    let mut seen = ConnSet::new();
    for (fd, index) in handover.manifest().conns() {
        let Some(conn) = process.device.arena.conn(index).filter(|_| seen.add(index)) else {
            continue;
        };
        let ctx = Ctx { process, index, conn, fd };
        if heir == Heir::Same {
            conn.let_go(holder);
        } else if ctx.one_less() {
            ctx.last_close();
        }
    }
    leave_page(process, heir, handover);
}

/// Whether this process has any that could be a connection.
fn has_sockets() -> bool {
    fdtable::all().any(|(_, entry)| entry.as_socket().is_some())
}

/// Every descriptor that the next image inherits and that is a connection of ours.
fn each_inherited<'p>(process: &'p Process, heir: Heir, mut with: impl FnMut(Ctx<'p>)) {
    if heir != Heir::Borrower {
        each_descriptor(process, |ctx| {
            let given = heir == Heir::Child && ctx.conn.has(flag::GIVEN);
            if given || inherit::is_inherited(ctx.fd) {
                with(ctx);
            }
        });
        return;
    }
    // The table of numbers is the parent's; the kernel knows what this child has made of its own.
    let arena = &process.device.arena;
    inherit::each_open(|fd| {
        if !inherit::is_inherited(fd) || !tcp::is_tcp(fd) {
            return;
        }
        let Ok(cookie) = tcp::cookie(fd) else { return };
        let same = |index: u32| {
            let conn = arena.conn(index)?;
            let is = conn.is_used() && conn.cookie.load(Ordering::Relaxed) == cookie;
            is.then_some((index, conn))
        };
        let guess = fdtable::entry(fd).as_socket().and_then(same);
        let search = || arena.conns().find_map(|(index, _)| same(index));
        if let Some((index, conn)) = guess.or_else(search) {
            with(Ctx { process, index, conn, fd });
        }
    });
}

/// What other threads of this process, or of the one that it is the copy of, have made for children
/// that they are starting just now is not for what comes here. The kernel is asked: since it copied the
/// descriptors those threads may have forgotten theirs.
fn keep_carriers_from(heir: Heir) {
    if heir == Heir::Child {
        return;
    }
    inherit::each_open(|fd| {
        if inherit::is_inherited(fd) && is_carrier(fd) {
            let _ = raw::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC as usize);
        }
    });
}

fn prepare(process: &Process, target: impl FnOnce() -> Target, heir: Heir) -> Plan {
    if process.births.have_been() {
        keep_carriers_from(heir);
    }
    if !has_sockets() {
        return Plan::default();
    }
    let signals = raw::signal_mask();
    let critical = Critical::enter();
    let mut plan = Plan { heir: Some(heir), keeps_all: heir == Heir::Same, ..Plan::default() };
    if plan.keeps_all {
        process.births.keep_all();
    }
    let mut inherited = ConnSet::new();
    let mut standard = ConnSet::new();
    let mut any = false;
    each_inherited(process, heir, |ctx| {
        any |= !matches!(ctx.conn.phase(), phase::FRESH | phase::LISTENER | phase::PLAIN);
        inherited.add(ctx.index);
        if !is_seen(ctx.fd) {
            standard.add(ctx.index);
        }
    });
    // Asked only where it matters: it means to look at files.
    let target = if any { target() } else { Target::Foreign };
    if target == Target::Nothing {
        return plan;
    }
    let mut handover = None;
    if any && target == Target::Ours && may_hand_over(process) {
        handover = Handover::new(process.device.arena.fd, process.build).ok();
    }
    let mut taken = ConnSet::new();
    if let Some(handover) = &mut handover {
        // Before it holds anything: it counts as alive from then on.
        expect(process, heir, handover);
        each_inherited(process, heir, |ctx| {
            let low = standard.has(ctx.index) && !ctx.cannot_come_again();
            if low || !goes_on(&ctx, heir) {
                return;
            }
            // Under the lock: nobody attaches it meanwhile, nor afterwards what two images hold.
            let _setup = (heir != Heir::Same).then(|| ctx.conn.lock_setup());
            if pack_group(&ctx, handover)
                && handover.manifest().add_conn(ctx.fd, ctx.index)
                && taken.add(ctx.index)
                && heir != Heir::Same
            {
                let _birth = process.births.current.lock();
                ctx.one_more();
            }
        });
    }
    if let Some(made) = handover.take_if(|made| made.manifest().conns().next().is_none()) {
        leave_page(process, heir, &made);
        made.discard();
    }
    if let Some(mut made) = handover {
        let mut complete = true;
        if heir == Heir::Same {
            plan.holder = hold(process, &made);
            // Until then other threads may have attached some.
            each_descriptor(process, |ctx| {
                complete &= !taken.has(ctx.index) || pack_group(&ctx, &mut made);
            });
        }
        made.manifest().holder.store(plan.holder, Ordering::Relaxed);
        made.manifest().signals.store(signals, Ordering::Relaxed);
        if heir == Heir::Same {
            note_ends(process, &made, &inherited, &taken);
        }
        let packed = made.pack(heir).ok();
        complete &= process.device.groups.iter().all(|group| group.is_as_packed(&made));
        match packed {
            Some(packed) if complete => plan.packed = Some(packed),
            packed => {
                take_back(process, heir, &made, plan.holder);
                plan.holder = 0;
                taken = ConnSet::new();
                if let Some(packed) = packed {
                    packed.close();
                } else {
                    made.discard();
                }
            }
        }
    }
    each_inherited(process, heir, |ctx| {
        if !taken.has(ctx.index) {
            let low = standard.has(ctx.index);
            let Some(ctx) = ctx.steady() else { return };
            ctx.leave(if low { Reason::STDIO } else { Reason::EXEC });
            if heir == Heir::Same && ctx.cannot_come_again() && !ctx.is_shared() {
                ctx.break_off();
            }
        }
    });
    if heir == Heir::Same {
        for_each_conn(process, |ctx| {
            if !inherited.has(ctx.index) {
                // It is closed by the exec.
                let alone = !ctx.is_shared();
                let lay_last = || ctx.steady().into_iter().for_each(|ctx| ctx.lay_last());
                if alone {
                    lay_last();
                }
                // Another holder may have gone meanwhile, and have seen this one.
                if ctx.gives_up() && !alone {
                    lay_last();
                    if let Some(handover) = plan.packed.and_then(|packed| packed.open()) {
                        handover.manifest().add_end(ctx.index, false);
                    }
                }
            }
        });
    }
    if heir != Heir::Same && plan.packed.is_some() {
        now_several(process);
    }
    // A child in its parent's memory must leave the thread as it found it.
    plan.critical = (plan.holder != 0).then_some(critical);
    plan
}

/// Whether anything can be handed over from here.
fn may_hand_over(process: &Process) -> bool {
    let head = process.device.arena.head();
    let user = head.map(|head| head.user.load(Ordering::Relaxed));
    user == Some(raw::getuid()) && inherit::trusts_next_image()
}

/// Whether a connection can go on as it stands.
fn goes_on(ctx: &Ctx<'_>, heir: Heir) -> bool {
    match ctx.conn.phase() {
        phase::FRESH | phase::LISTENER | phase::PLAIN => false,
        // The client may ask by the name of a control socket that ends with this image.
        phase::OFFERED => heir != Heir::Same || ctx.is_shared(),
        phase::ATTACHED => !ctx.conn.has(flag::TX_TCP) || !ctx.conn.has(flag::RX_TCP),
        _ => true,
    }
}

/// The group of a connection travels too; false: it cannot.
fn pack_group(ctx: &Ctx<'_>, handover: &mut Handover) -> bool {
    let has_slot = ctx.conn.group.load(Ordering::Relaxed) != NO_GROUP;
    !has_slot || ctx.group().is_some_and(|group| group.pack(handover))
}

/// Keeps other threads of this process out of the connections until they are no more: none is
/// interrupted in the middle of a change. The thread that holds them, or 0.
fn hold(process: &Process, handover: &Handover) -> u32 {
    if raw::is_single_threaded() {
        return 0;
    }
    let mut held = ConnSet::new();
    for (_, index) in handover.manifest().conns() {
        if let Some(conn) = process.device.arena.conn(index).filter(|_| held.add(index)) {
            conn.hold();
        }
    }
    tid()
}

/// Takes a page for the next image's process, if that is another.
fn expect(process: &Process, heir: Heir, handover: &Handover) {
    let page = match heir {
        Heir::Same => u32::MAX,
        Heir::Borrower => {
            let page = process.device.arena.enter_process(raw::getpid());
            page.map_or(u32::MAX, |page| page as u32)
        }
        Heir::Child => process.device.expect_another(),
    };
    handover.manifest().page.store(page, Ordering::Relaxed);
}

/// Notes which connections end with this image.
fn note_ends(process: &Process, handover: &Handover, inherited: &ConnSet, taken: &ConnSet) {
    let manifest = handover.manifest();
    manifest.same.store(1, Ordering::Relaxed);
    for_each_conn(process, |ctx| {
        if !taken.has(ctx.index) && !ctx.is_shared() {
            manifest.add_end(ctx.index, inherited.has(ctx.index));
        }
    });
}

/// The page that was taken for the next image's process waits for nobody.
fn leave_page(process: &Process, heir: Heir, handover: &Handover) {
    let page = handover.manifest().page.load(Ordering::Relaxed);
    match heir {
        Heir::Child => process.device.expect_no_more(page),
        Heir::Borrower => {
            if let Some(page) = process.device.arena.proc_page(page as usize) {
                page.leave(raw::getpid());
            }
        }
        _ => {}
    }
}
