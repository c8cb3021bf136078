//! Tells of the shared connections that are ready, in the order in which they became so.
//!
//! As in the kernel's list of an epoll instance, a connection keeps its place until it is told of
//! or found not to be ready; one that stays ready then goes to the end. So nobody starves, and a
//! program that hears of two peers hears first of the one that spoke first.
use super::instance::Instance;
use super::registration::{ENDS, ET, ONESHOT};
use super::registry::{Sink, State, NO_SLOT};
use crate::conn::Ctx;
use crate::process::Process;
use crate::ring::doorbell;
use crate::shm::layout::{Line, CONNS, CONN_WORDS};
use crate::sync::Ordering;
use crate::sys::clock;
use crate::transport::loopback::{Group, Loopback};
use crate::transport::Link;

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

/// Takes nothing; whether there was an event.
struct Full(bool);

impl Sink for Full {
    fn emit(&mut self, _events: u32, _data: u64) -> bool {
        self.0 = true;
        false
    }
}

impl State {
    /// Whether anything is ready, without telling of it.
    pub(super) fn any_ready(&mut self, instance: &Instance, process: &Process) -> bool {
        let mut found = Full(false);
        self.collect(instance, process, &mut found);
        found.0
    }

    /// Collects what is ready of the shared connections; the sink says whether there was
    /// room for the event. True: something may be left.
    pub(super) fn collect(
        &mut self,
        instance: &Instance,
        process: &Process,
        sink: &mut impl Sink,
    ) -> bool {
        while let Some(index) = self.stash.pop() {
            if !self.tell_stashed(instance, process, index, sink) {
                self.stash.push(index);
                return true;
            }
        }
        if self.members.is_empty() {
            return false;
        }
        self.find_pending(process);
        for place in 0..self.sorted.len() {
            let Pending { member: at, slot, since } = self.sorted[place];
            let Some(group) = self.members[at].living(process) else { continue };
            // Before the look: what comes meanwhile is looked at once more.
            self.members[at].pending[slot / 64] &= !(1 << (slot % 64));
            let looked = self.look((instance, process), at, group, slot, sink);
            let member = &mut self.members[at];
            match looked {
                Looked::NoRoom => {
                    member.note(slot, since);
                    return true;
                }
                Looked::Nothing | Looked::Told => {}
                // Behind all others, and in the same order as now.
                Looked::Stays => member.note(slot, self.taken + place as u64),
            }
        }
        false
    }

    /// Whether a ring may have something to tell.
    pub(super) fn has_news(&self, process: &Process) -> bool {
        self.members.iter().any(|member| {
            let wait = member.living(process).and_then(|group| group.own_slots().get(member.slot));
            member.pending.iter().any(|word| *word != 0) || wait.is_some_and(doorbell::any_ready)
        })
    }

    /// Takes what the peers have set, and puts all that is pending in order: first come, first told.
    #[inline(always)]
    fn find_pending(&mut self, process: &Process) {
        let (taken, now) = (self.taken, clock::ticks());
        self.taken = now;
        self.sorted.clear();
        for (at, member) in self.members.iter_mut().enumerate() {
            if member.slot == NO_SLOT {
                member.note_all(now);
            } else if let Some(group) = member.living(process) {
                if let Some(wait) = group.own_slots().get(member.slot) {
                    doorbell::take_ready(wait, |slot| {
                        let peer = &group.lines_of(slot).1;
                        member.note(slot, ready_since(peer, taken, now));
                    });
                }
            }
            for word in 0..CONN_WORDS {
                let mut bits = member.pending[word];
                while bits != 0 {
                    let slot = word * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    self.sorted.push(Pending { since: member.since[slot % CONNS], member: at, slot });
                }
            }
        }
        if self.sorted.len() > 1 {
            self.sorted.sort_unstable_by_key(|pending| pending.since);
        }
    }

    /// Looks at one connection.
    #[inline(always)]
    fn look(
        &mut self,
        (instance, process): (&Instance, &Process),
        at: usize,
        group: &Group,
        slot: usize,
        sink: &mut impl Sink,
    ) -> Looked {
        let mut looked = Looked::Nothing;
        let mut next = self.members[at].regs[slot];
        let Some(index) = group.conn_at(slot) else { return looked };
        let Some(conn) = process.device.arena.conn(index) else { return looked };
        let link = Loopback::new(conn, &process.device, group);
        while let Some(this) = next {
            let Some(reg) = self.reg(this) else { break };
            next = reg.next;
            let ctx = Ctx { process, index, conn, fd: reg.fd };
            // Whatever the program asks to be told of.
            if link.peer().wants_tcp() {
                ctx.see_leave();
            }
            if reg.conn != index || reg.fired || reg.parked {
                continue;
            }
            let Some(mut events) = reg.news(&ctx, link) else { continue };
            let (data, wanted) = (reg.data, reg.events);
            if wanted & ET != 0 && conn.has(ENDS) {
                // What the kernel has to tell of the same change is told with this: so it is taken
                // first, and a change that comes later is told by the kernel again.
                self.take_inner(instance, process);
                events = ctx.ready_by(Some(link), wanted);
                if events == 0 {
                    continue;
                }
            }
            if !sink.emit(events, data) {
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
