//! Tells of the shared connections that are ready, in the order in which they became so.
//!
//! As in the kernel's list of an epoll instance, a connection keeps its place until it is told of
//! or found not to be ready; one that stays ready then goes to the end. So nobody starves, and a
//! program that hears of two peers hears first of the one that spoke first.
use super::instance::Instance;
use super::registration::{ENDS, ET, ONESHOT};
use super::registry::{State, NO_SLOT};
use crate::conn::Ctx;
use crate::process::Process;
use crate::ring::doorbell;
use crate::shm::layout::{Line, CONNS, CONN_WORDS};
use crate::sync::Ordering;
use crate::sys::clock;
use crate::transport::loopback::Group;

/// A connection to look at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    since: u64,
    member: usize,
    slot: usize,
}

/// What a look at a connection found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looked {
    Nothing,
    /// An event that is told once.
    Told,
    /// A level: to be looked at again.
    Stays,
    /// An event, and no room for it.
    NoRoom,
}

/// When a connection became ready whose bit was set between `taken` and `now`. Its line is the
/// peer's to write: a wrong time wins nothing but the place of the first since the last look.
fn ready_since(peer: &Line, taken: u64, now: u64) -> u64 {
    // Relaxed: ordered by the bit, which was set after it.
    clock::long(peer.since.load(Ordering::Relaxed), now).max(taken)
}

impl State {
    /// Whether anything is ready, without telling of it.
    pub(super) fn any_ready(&mut self, instance: &Instance, process: &Process) -> bool {
        let mut found = false;
        self.collect(instance, process, &mut |_, _| {
            found = true;
            false
        });
        found
    }

    /// Collects what is ready of the shared connections; `emit` says whether there was room for
    /// the event. True: something may be left.
    pub(super) fn collect(
        &mut self,
        instance: &Instance,
        process: &Process,
        emit: &mut dyn FnMut(u32, u64) -> bool,
    ) -> bool {
        while let Some(index) = self.stash.pop() {
            if !self.tell_stashed(process, index, emit) {
                self.stash.push(index);
                return true;
            }
        }
        if self.members.is_empty() {
            return false;
        }
        self.take_ready(process);
        let mut sorted = core::mem::take(&mut self.sorted);
        self.sort_pending(&mut sorted);
        let mut left = false;
        for pending in &sorted {
            let Pending { member: at, slot, .. } = *pending;
            let Some(group) = self.members[at].living(process) else { continue };
            // Before the look: what comes meanwhile is looked at once more.
            self.members[at].pending[slot / 64] &= !(1 << (slot % 64));
            let looked = self.look((instance, process), at, group, slot, emit);
            let member = &mut self.members[at];
            match looked {
                Looked::NoRoom => {
                    member.note(slot, pending.since);
                    left = true;
                    break;
                }
                Looked::Nothing | Looked::Told => {}
                Looked::Stays => member.note(slot, clock::ticks()),
            }
        }
        self.sorted = sorted;
        left
    }

    /// Whether a ring may have something to tell.
    pub(super) fn has_news(&self, process: &Process) -> bool {
        self.members.iter().any(|member| {
            let slots = member.living(process).and_then(Group::own_slots);
            member.pending.iter().any(|word| *word != 0)
                || slots.and_then(|slots| slots.get(member.slot)).is_some_and(doorbell::any_ready)
        })
    }

    /// Takes what the peers have set.
    fn take_ready(&mut self, process: &Process) {
        let now = clock::ticks();
        let taken = self.taken;
        for member in &mut self.members {
            let Some(group) = member.living(process) else { continue };
            if member.slot == NO_SLOT {
                for slot in 0..CONNS {
                    if member.regs[slot].is_some() {
                        member.note(slot, now);
                    }
                }
                continue;
            }
            let slots = group.own_slots();
            let Some(wait) = slots.and_then(|slots| slots.get(member.slot)) else { continue };
            doorbell::take_ready(wait, |slot| {
                let conn = group.conn_at(slot).and_then(|index| process.device.arena.conn(index));
                let peer = conn.and_then(|conn| group.lines(conn)).map(|(_, peer)| peer);
                member.note(slot, peer.map_or(now, |peer| ready_since(peer, taken, now)));
            });
        }
        self.taken = now;
    }

    /// All that is pending, first come first.
    fn sort_pending(&self, sorted: &mut Vec<Pending>) {
        sorted.clear();
        for (at, member) in self.members.iter().enumerate() {
            for word in 0..CONN_WORDS {
                let mut bits = member.pending[word];
                while bits != 0 {
                    let slot = word * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    sorted.push(Pending { since: member.since[slot % CONNS], member: at, slot });
                }
            }
        }
        sorted.sort_unstable_by_key(|pending| pending.since);
    }

    /// Looks at one connection.
    fn look(
        &mut self,
        (instance, process): (&Instance, &Process),
        at: usize,
        group: &Group,
        slot: usize,
        emit: &mut dyn FnMut(u32, u64) -> bool,
    ) -> Looked {
        let mut looked = Looked::Nothing;
        let mut next = self.members[at].regs[slot];
        let Some(index) = group.conn_at(slot) else { return looked };
        let Some(conn) = process.device.arena.conn(index) else { return looked };
        while let Some(this) = next {
            let Some(reg) = self.reg(this) else { break };
            next = reg.next;
            // Whatever the program asks to be told of.
            Ctx { process, index, conn, fd: reg.fd }.see_leave();
            if reg.conn != index || reg.fired || reg.parked {
                continue;
            }
            let ctx = Ctx { process, index, conn, fd: reg.fd };
            let Some(mut events) = reg.news(&ctx) else { continue };
            let (data, wanted) = (reg.data, reg.events);
            if wanted & ET != 0 && conn.has(ENDS) {
                // What the kernel has to tell of the same change is told with this: so it is taken
                // first, and a change that comes later is told by the kernel again.
                self.take_inner(instance, process);
                events = ctx.ready(wanted);
                if events == 0 {
                    continue;
                }
            }
            if !emit(events, data) {
                return Looked::NoRoom;
            }
            let Some(reg) = self.reg(this) else { continue };
            reg.told(&ctx, events);
            if reg.events & ONESHOT == 0 && reg.events & ET == 0 {
                looked = Looked::Stays;
            } else if looked == Looked::Nothing {
                looked = Looked::Told;
            }
        }
        looked
    }
}
