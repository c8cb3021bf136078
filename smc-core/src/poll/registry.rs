//! What is registered in one epoll instance, and which of it is ready.
use super::collect::Pending;
use super::instance::{Instance, TAG_CONTROL};
use super::registration::{Place, Reg, ET, ONESHOT, OUT, POLLED};
use crate::arena::{flag, phase, Conn, MODE_RING};
use crate::conn::{holders, Ctx};
use crate::process::Process;
use crate::ring::doorbell;
use crate::shm::layout::{CONNS, CONN_WORDS};
use crate::sync::Ordering;
use crate::sys::{clock, raw};
use crate::transport::loopback::Group;
use libc::{c_int, epoll_event};

/// Where events go.
pub(super) trait Sink {
    /// Takes an event; false: there is no room for it.
    fn emit(&mut self, events: u32, data: u64) -> bool;
}

/// Whether there was an event.
struct Seen(bool);

impl Sink for Seen {
    fn emit(&mut self, _events: u32, _data: u64) -> bool {
        self.0 = true;
        true
    }
}

/// How a shared connection's TCP socket is watched: for the peer's end and stray bytes.
const SHARED_EVENTS: u32 =
    (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLPRI | libc::EPOLLRDHUP | libc::EPOLLET) as u32;

/// "All are taken".
pub(super) const NO_SLOT: usize = usize::MAX;

/// A link group with connections of this instance.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) group: usize,
    /// Its wait slot there, or [`NO_SLOT`]: nobody rings, and it is looked at now and then.
    pub(super) slot: usize,
    maker: *const Group,
    /// First registration of each connection slot.
    pub(super) regs: Box<[Option<u32>; CONNS]>,
    /// Connection slots to look at.
    pub(super) pending: [u64; CONN_WORDS],
    /// In ticks, since when each of them is.
    pub(super) since: Box<[u64; CONNS]>,
}

// SAFETY: requires that the pointer may move between threads: it is compared, never followed.
unsafe impl Send for Member {}

/// What the instance's lock guards.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) regs: Vec<Reg>,
    free: Vec<u32>,
    /// How many stand in the inner epoll with the program's events.
    pub(super) inner: usize,
    by_fd: Vec<Option<u32>>,
    /// First registration of each record.
    by_conn: Vec<Option<u32>>,
    pub(super) members: Vec<Member>,
    /// When the ready bitmaps were last taken, in ticks.
    pub(super) taken: u64,
    /// Room for what a call sorts.
    pub(super) sorted: Vec<Pending>,
    /// Instances that are registered in this one.
    pub(super) nested: Vec<u32>,
    /// Events that the kernel tells once and that were taken to see what is there.
    pub(super) stash: Vec<u32>,
}

impl Member {
    /// The link group, unless it has ended and another has taken its place.
    #[inline(always)]
    pub(super) fn living<'p>(&self, process: &'p Process) -> Option<&'p Group> {
        let group = process.device.groups.get(self.group)?;
        core::ptr::eq(group, self.maker).then_some(group)
    }

    /// The same for all that are registered.
    #[cold]
    pub(super) fn note_all(&mut self, at: u64) {
        for slot in 0..CONNS {
            if self.regs[slot].is_some() {
                self.note(slot, at);
            }
        }
    }

    /// Asks for a look at a connection slot, which is ready since `at` unless it was before: the kernel
    /// may be asked before the ring.
    #[inline(always)]
    pub(super) fn note(&mut self, slot: usize, at: u64) {
        let (word, bit) = (slot % CONNS / 64, 1 << (slot % 64));
        let since = &mut self.since[slot % CONNS];
        if self.pending[word] & bit == 0 {
            self.pending[word] |= bit;
            *since = at;
        } else if at < *since {
            *since = at;
        }
    }
}

/// A place in a table that grows as far as is needed.
fn place_in(table: &mut Vec<Option<u32>>, at: u32) -> &mut Option<u32> {
    let at = at as usize;
    if table.len() <= at {
        table.resize(at + 1, None);
    }
    &mut table[at]
}

impl State {
    pub(super) fn reg_of(&self, fd: c_int) -> Option<u32> {
        *self.by_fd.get(usize::try_from(fd).ok()?)?
    }

    #[inline(always)]
    pub(super) fn reg(&mut self, index: u32) -> Option<&mut Reg> {
        self.regs.get_mut(index as usize).filter(|reg| reg.used)
    }

    /// Adds a registration.
    pub(super) fn insert(&mut self, fd: c_int, conn: u32, event: epoll_event) -> u32 {
        let reg = Reg::new(fd, conn, event);
        let index = match self.free.pop() {
            Some(index) => {
                self.regs[index as usize] = reg;
                index
            }
            None => {
                self.regs.push(reg);
                (self.regs.len() - 1) as u32
            }
        };
        self.inner += 1;
        *place_in(&mut self.by_fd, fd.unsigned_abs()) = Some(index);
        let first = place_in(&mut self.by_conn, conn).replace(index);
        self.regs[index as usize].sibling = first;
        index
    }

    /// Removes a registration.
    pub(super) fn remove(&mut self, index: u32, slot: Option<usize>) {
        let Some(reg) = self.reg(index).copied() else { return };
        if self.reg_of(reg.fd) == Some(index) {
            self.by_fd[reg.fd.unsigned_abs() as usize] = None;
        }
        if let (Place::Shared, Some(slot)) = (reg.place, slot) {
            for member in &mut self.members {
                if member.regs[slot % CONNS] == Some(index) {
                    member.regs[slot % CONNS] = reg.next;
                }
            }
        }
        let mut of_conn = self.of_conn(reg.conn);
        if of_conn == Some(index) {
            self.by_conn[reg.conn as usize] = reg.sibling;
        }
        while let Some(other) = of_conn.and_then(|at| self.regs.get_mut(at as usize)) {
            of_conn = other.sibling;
            if other.sibling == Some(index) {
                other.sibling = reg.sibling;
            }
            if other.next == Some(index) {
                other.next = reg.next;
            }
        }
        self.inner -= usize::from(reg.place == Place::Inner);
        self.stash.retain(|stashed| *stashed != index);
        self.regs[index as usize].used = false;
        self.free.push(index);
    }

    /// The number is closed but the file is not: the registration lives on without it.
    pub(super) fn unname(&mut self, fd: c_int) {
        if let Some(entry) = self.by_fd.get_mut(fd.unsigned_abs() as usize) {
            *entry = None;
        }
    }

    /// The first registration of a connection; the others are its siblings.
    pub(super) fn of_conn(&self, conn: u32) -> Option<u32> {
        *self.by_conn.get(conn as usize)?
    }

    /// Does something with each registration of a connection, and may remove it.
    pub(super) fn for_each_of_conn(&mut self, conn: u32, mut with: impl FnMut(&mut Self, u32)) {
        let mut next = self.of_conn(conn);
        while let Some(index) = next {
            next = self.regs.get(index as usize).and_then(|reg| reg.sibling);
            with(self, index);
        }
    }

    /// The link group as a member; joins it where it is not.
    fn member(
        &mut self,
        instance: &Instance,
        process: &Process,
        group: &Group,
    ) -> Option<&mut Member> {
        let known = self.members.iter().position(|member| member.group == group.index());
        if let Some(at) = known {
            if core::ptr::eq(self.members[at].maker, group) {
                return self.members.get_mut(at);
            }
            // Another group has taken the place of one that ended.
            self.members.swap_remove(at);
        }
        let slot = instance.queue(process)?.slot_in(group).unwrap_or(NO_SLOT);
        let tag = TAG_CONTROL + group.index() as u64;
        let events = libc::EPOLLIN as u32;
        let _ = raw::epoll_ctl(
            instance.inner(),
            libc::EPOLL_CTL_ADD,
            group.control(),
            events,
            tag,
        );
        self.members.push(Member {
            group: group.index(),
            slot,
            maker: group,
            regs: Box::new([None; CONNS]),
            pending: [0; CONN_WORDS],
            since: Box::new([0; CONNS]),
        });
        // Who waits allocates nothing.
        self.sorted.reserve(self.members.len() * CONNS);
        self.members.last_mut()
    }

    /// Moves a registration to the ring's side; false: it cannot be.
    pub(super) fn share(&mut self, instance: &Instance, ctx: &Ctx<'_>, index: u32) -> bool {
        let Some(group) = ctx.group() else { return false };
        let slot = ctx.conn.slot.load(Ordering::Relaxed) as usize % CONNS;
        let Some(reg) = self.reg(index).copied() else { return false };
        if reg.place == Place::Shared {
            return true;
        }
        let Some(member) = self.member(instance, ctx.process, group) else { return false };
        let first = member.regs[slot];
        member.regs[slot] = Some(index);
        // What is there already is found by a look; an edge-triggered one has been told of it.
        member.note(slot, clock::ticks());
        let queue_slot = member.slot;
        // What the kernel has to tell and has not told is kept; what it tells of the change itself
        // has been told, unless it came meanwhile.
        let before = ctx.tcp_now();
        self.take_inner(instance, ctx.process);
        let op = if reg.place == Place::Outer {
            let outer = instance.outer.load(Ordering::Acquire);
            let _ = raw::epoll_ctl(outer, libc::EPOLL_CTL_DEL, reg.fd, 0, 0);
            libc::EPOLL_CTL_ADD
        } else {
            libc::EPOLL_CTL_MOD
        };
        let _ = raw::epoll_ctl(instance.inner(), op, reg.fd, SHARED_EVENTS, u64::from(index));
        if let Some((own, _)) = ctx.lines().filter(|_| queue_slot != NO_SLOT) {
            doorbell::want(&own.want_ready, queue_slot);
        }
        self.inner -= usize::from(reg.place == Place::Inner);
        if let Some(reg) = self.reg(index) {
            reg.place = Place::Shared;
            reg.next = first;
            reg.fresh = true;
        }
        self.take_inner(instance, ctx.process);
        let now = ctx.tcp_now();
        if now.0 & !libc::POLLOUT != 0 {
            // An end that nobody has looked at is not told of again.
            ctx.conn.raise(flag::TCP_NEWS);
        }
        if let Some(reg) = self.reg(index) {
            reg.fresh = false;
            reg.whole |= now != before;
        }
        true
    }

    /// Moves a registration to the program's own epoll: from now on the kernel alone counts.
    pub(super) fn expel(&mut self, instance: &Instance, index: u32) {
        let Some(reg) = self.reg(index) else { return };
        // An edge-triggered one would fire again for what has been told.
        if reg.place != Place::Inner || reg.fired || reg.events & ET != 0 {
            return;
        }
        let outer = instance.outer.load(Ordering::Acquire);
        if raw::epoll_ctl(instance.inner(), libc::EPOLL_CTL_DEL, reg.fd, 0, 0).is_ok()
            && raw::epoll_ctl(outer, libc::EPOLL_CTL_ADD, reg.fd, reg.events, reg.data).is_ok()
        {
            reg.place = Place::Outer;
            self.inner -= 1;
        }
    }

    /// Another process that has inherited the instance has moved the registration to the program's
    /// epoll, which is one for both.
    pub(super) fn was_expelled(&mut self, index: u32, event: epoll_event) {
        if let Some(reg) = self.reg(index) {
            (reg.events, reg.data) = (event.events, event.u64);
            reg.place = Place::Outer;
            self.inner -= 1;
        }
    }

    /// Asks for a whole look at a registration.
    pub(super) fn look_at(&mut self, conn: &Conn, index: u32) {
        if let Some(reg) = self.reg(index) {
            reg.whole = true;
        }
        let group = conn.group.load(Ordering::Relaxed) as usize;
        let slot = conn.slot.load(Ordering::Relaxed) as usize;
        if let Some(member) = self.members.iter_mut().find(|member| member.group == group) {
            member.note(slot, clock::ticks());
        }
    }

    /// Takes what the inner epoll has to tell of shared connections, which say for themselves what
    /// is ready; what it tells once of others is kept for the next call.
    pub(super) fn take_inner(&mut self, instance: &Instance, process: &Process) {
        let mut batch = [epoll_event { events: 0, u64: 0 }; 32];
        let Ok(got) = raw::epoll_now(instance.inner(), &mut batch) else { return };
        for event in batch.iter().take(got) {
            let mut told = Seen(false);
            self.inner_event(instance, process, *event, &mut told);
            // A level is told again.
            let index = u32::try_from(event.u64).ok();
            let once = index.and_then(|index| self.reg(index)).is_some_and(|reg| {
                reg.place == Place::Inner && reg.events & (ET | ONESHOT) != 0
            });
            if let (Some(index), true) = (index, once && told.0) {
                self.stash.push(index);
            }
        }
    }

    /// Tells what was taken before, as far as it still holds: the kernel looks once more, too.
    /// False: there was no room.
    pub(super) fn tell_stashed(
        &mut self,
        instance: &Instance,
        process: &Process,
        index: u32,
        sink: &mut impl Sink,
    ) -> bool {
        let Some(reg) = self.reg(index).filter(|reg| !reg.parked) else { return true };
        let Some(conn) = process.device.arena.conn(reg.conn) else { return true };
        let ctx = Ctx { process, index: reg.conn, conn, fd: reg.fd };
        let events = if reg.place == Place::Shared {
            ctx.ready(reg.events)
        } else {
            let wanted = reg.events & POLLED;
            let ends = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
            let now = raw::poll_now(reg.fd, (wanted as u16).cast_signed()).cast_unsigned();
            u32::from(now) & (wanted | ends)
        };
        if events == 0 {
            self.rearm(instance, conn, index);
            return true;
        }
        let told = sink.emit(events, reg.data);
        if told && reg.place == Place::Shared {
            reg.told(&ctx, events);
        }
        told
    }

    /// Nothing was told of what was taken, since it holds no more: a one-shot registration has not
    /// fired.
    fn rearm(&mut self, instance: &Instance, conn: &Conn, index: u32) {
        let Some(reg) = self.reg(index).filter(|reg| reg.events & ONESHOT != 0) else { return };
        reg.fired = false;
        if reg.place == Place::Shared {
            self.look_at(conn, index);
        } else {
            let (op, data) = (libc::EPOLL_CTL_MOD, u64::from(index));
            let _ = raw::epoll_ctl(instance.inner(), op, reg.fd, reg.events, data);
        }
    }

    /// The registration of a connection under a number that was closed meanwhile.
    pub(super) fn find(&self, fd: c_int, conn: u32) -> Option<u32> {
        let mut next = self.of_conn(conn);
        while let Some(index) = next {
            let reg = self.regs.get(index as usize)?;
            if reg.fd == fd {
                break;
            }
            next = reg.sibling;
        }
        next
    }

    /// Passes one event of the inner epoll on. The sink has room.
    pub(super) fn inner_event(
        &mut self,
        instance: &Instance,
        process: &Process,
        event: epoll_event,
        sink: &mut impl Sink,
    ) {
        let data = event.u64;
        if data >= TAG_CONTROL {
            if let Some(group) = process.device.groups.get((data - TAG_CONTROL) as usize) {
                group.drain(&process.device);
                if group.is_dead() {
                    self.wake_group(group.index(), process);
                }
            }
            return;
        }
        let Some(reg) = u32::try_from(data).ok().and_then(|index| self.reg(index)).copied() else {
            return;
        };
        let Some(conn) = process.device.arena.conn(reg.conn) else { return };
        let ctx = Ctx { process, index: reg.conn, conn, fd: reg.fd };
        if reg.place == Place::Shared {
            // Room in the TCP socket says nothing once the ring is the way.
            if reg.fresh {
                return;
            }
            let ring = conn.tx_mode.load(Ordering::Acquire) == MODE_RING;
            let room = conn.has(flag::TX_SHUT | flag::PEER_GONE) || ctx.is_owing();
            if ring && event.events & !OUT == 0 && !room {
                return;
            }
            conn.raise(flag::TCP_NEWS);
            self.look_at(conn, data as u32);
            return;
        }
        let mut events = event.events;
        let readable = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
        if conn.phase() == phase::VIRGIN && events & readable != 0 {
            // An ACCEPT that came alone is no event of the program's.
            ctx.look_for_accept();
            if raw::poll_now(reg.fd, libc::POLLIN) & libc::POLLIN == 0 {
                events &= !readable;
            }
        }
        if events == 0 {
            return;
        }
        sink.emit(events, reg.data);
        let index = data as u32;
        if let Some(reg) = self.reg(index) {
            reg.fired = reg.events & ONESHOT != 0;
        }
        if conn.phase() == phase::PLAIN {
            self.expel(instance, index);
        }
    }

    /// Whether news may come without a bell.
    pub(super) fn may_miss_bells(&self, process: &Process) -> bool {
        let mut shared = false;
        for member in &self.members {
            let forked = member.living(process).is_some_and(Group::is_forked);
            if member.slot == NO_SLOT || forked {
                return true;
            }
        }
        if !holders::any_shared() {
            return false;
        }
        for reg in self.regs.iter().filter(|reg| reg.used && reg.place == Place::Shared) {
            let conn = process.device.arena.conn(reg.conn);
            shared |= conn.is_some_and(|conn| conn.procs.load(Ordering::Relaxed) > 1);
        }
        // Asked once: it is dear. Who was killed has not counted itself out.
        shared && !process.device.is_alone()
    }

    /// The peer of a group is gone: its connections are looked at.
    fn wake_group(&mut self, group: usize, process: &Process) {
        let Some(member) = self.members.iter_mut().find(|member| member.group == group) else {
            return;
        };
        for slot in 0..CONNS {
            let first = member.regs[slot];
            if let Some(reg) = first.and_then(|index| self.regs.get_mut(index as usize)) {
                if let Some(conn) = process.device.arena.conn(reg.conn) {
                    conn.raise(flag::TCP_NEWS);
                }
                reg.whole = true;
                member.note(slot, clock::ticks());
            }
        }
    }
}
