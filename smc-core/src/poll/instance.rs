//! One epoll instance of the program.
//!
//! The program's descriptor stays a kernel epoll. TCP sockets that may come to a ring are
//! registered in a hidden inner epoll, which is itself a member of the program's; so is the bell of
//! the instance's wait queue. Everything else the program registers directly.
use crate::arena::{flag, phase};
use crate::conn::wait::Spin;
use crate::conn::Ctx;
use crate::errno::Errno;
use crate::process::{self, Process};
use crate::ring::doorbell;
use crate::shm::layout::{CONNS, CONN_WORDS};
use crate::sync::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use crate::sys::raw;
use crate::transport::loopback::{Group, Queue};
use libc::{c_int, epoll_event};
use parking_lot::Mutex;

/// Data of the bell in the program's epoll. A random word at every start would be no safer: the
/// program's data are pointers or small numbers.
pub(super) const TAG_BELL: u64 = 0xe2d4_c3c4_b5d1_0001;
/// Data of the inner epoll in the program's.
pub(super) const TAG_INNER: u64 = 0xe2d4_c3c4_b5d1_0002;
/// Data of a control channel in the inner epoll: this, plus the group's index.
pub(super) const TAG_CONTROL: u64 = 1 << 40;

/// How a shared connection's TCP socket is watched: for the peer's end and stray bytes.
const SHARED_EVENTS: u32 =
    (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLPRI | libc::EPOLLRDHUP | libc::EPOLLET) as u32;

const ET: u32 = libc::EPOLLET as u32;
const ONESHOT: u32 = libc::EPOLLONESHOT as u32;

/// Where a registration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the inner epoll, with the program's events: the connection is on TCP.
    Inner,
    /// In the inner epoll, for the end of the stream only; the ring tells the rest.
    Shared,
    /// In the program's epoll: the connection stays on TCP.
    Outer,
}

/// One registration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reg {
    pub(super) used: bool,
    pub(super) fd: c_int,
    pub(super) conn: u32,
    pub(super) events: u32,
    pub(super) data: u64,
    pub(super) place: Place,
    /// A one-shot registration that has fired.
    pub(super) fired: bool,
    /// Next registration of the same connection.
    next: Option<u32>,
}

/// A link group with connections of this instance.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) group: usize,
    pub(super) slot: usize,
    maker: *const Group,
    /// First registration of each connection slot.
    regs: Box<[Option<u32>; CONNS]>,
    /// Connection slots to look at.
    pub(super) pending: [u64; CONN_WORDS],
}

// SAFETY: requires that the pointer may move between threads: it is compared, never followed.
unsafe impl Send for Member {}

/// What the instance's lock guards.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) regs: Vec<Reg>,
    free: Vec<u32>,
    by_fd: Vec<Option<u32>>,
    pub(super) members: Vec<Member>,
    /// Where the next look begins, for fairness.
    pub(super) turn: usize,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(super) outer: AtomicI32,
    pub(super) inner: AtomicI32,
    pub(super) queue: AtomicI32,
    pub(super) refs: AtomicU32,
    /// Somebody waits for the descriptor itself: another epoll, poll, select.
    pub(super) watched: AtomicBool,
    /// Threads inside a kernel wait on it.
    pub(super) waiters: AtomicU32,
    /// When the kernel's events were last looked at while rings were busy.
    pub(super) looked: AtomicU64,
    /// Ticks between two such looks.
    pub(super) interval: AtomicU64,
    pub(super) spin: Spin,
    pub(super) state: Mutex<State>,
}

impl Instance {
    pub(super) fn new() -> Self {
        Self {
            outer: AtomicI32::new(-1),
            inner: AtomicI32::new(-1),
            queue: AtomicI32::new(-1),
            refs: AtomicU32::new(0),
            watched: AtomicBool::new(false),
            waiters: AtomicU32::new(0),
            looked: AtomicU64::new(0),
            interval: AtomicU64::new(0),
            spin: Spin::new(),
            state: Mutex::new(State::default()),
        }
    }

    pub(super) fn inner(&self) -> c_int {
        self.inner.load(Ordering::Acquire)
    }

    pub(super) fn queue<'p>(&self, process: &'p Process) -> Option<&'p Queue> {
        let index = usize::try_from(self.queue.load(Ordering::Acquire)).ok()?;
        process.queues.get(index)
    }

    /// Makes the inner epoll and the bell members of the program's epoll, once.
    pub(super) fn open_inner(&self, process: &Process) -> Result<(), Errno> {
        if self.inner() >= 0 {
            return Ok(());
        }
        let outer = self.outer.load(Ordering::Acquire);
        let queue = process.queues.take()?;
        let inner = process::raise(raw::epoll_create()?);
        let bell = (libc::EPOLLIN | libc::EPOLLET) as u32;
        let joined = raw::epoll_ctl(outer, libc::EPOLL_CTL_ADD, queue.bell(), bell, TAG_BELL)
            .and_then(|_| {
                let events = libc::EPOLLIN as u32;
                raw::epoll_ctl(outer, libc::EPOLL_CTL_ADD, inner, events, TAG_INNER)
            });
        if let Err(errno) = joined {
            let _ = raw::epoll_ctl(outer, libc::EPOLL_CTL_DEL, queue.bell(), 0, 0);
            process::drop_fd(inner);
            queue.give_back();
            return Err(errno);
        }
        self.queue.store(queue.index() as i32, Ordering::Release);
        self.inner.store(inner, Ordering::Release);
        Ok(())
    }

    /// Wakes whoever sleeps on the instance.
    pub(super) fn nudge(&self, process: &Process) {
        let wanted = self.waiters.load(Ordering::Acquire) > 0 || self.watched.load(Ordering::Acquire);
        if let (true, Some(queue)) = (wanted, self.queue(process)) {
            raw::eventfd_ring(queue.bell());
        }
    }

    /// Whether any ring has news, without the lock.
    pub(super) fn any_news(&self, process: &Process, slots: &[(usize, usize)]) -> bool {
        slots.iter().any(|(group, slot)| {
            let slots = process.groups.get(*group).and_then(Group::own_slots);
            slots.and_then(|slots| slots.get(*slot)).is_some_and(doorbell::any_ready)
        })
    }
}

impl State {
    pub(super) fn reg_of(&self, fd: c_int) -> Option<u32> {
        *self.by_fd.get(usize::try_from(fd).ok()?)?
    }

    pub(super) fn reg(&mut self, index: u32) -> Option<&mut Reg> {
        self.regs.get_mut(index as usize).filter(|reg| reg.used)
    }

    /// Adds a registration.
    pub(super) fn insert(&mut self, fd: c_int, conn: u32, event: epoll_event) -> u32 {
        let reg = Reg {
            used: true,
            fd,
            conn,
            events: event.events,
            data: event.u64,
            place: Place::Inner,
            fired: false,
            next: None,
        };
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
        let at = fd.unsigned_abs() as usize;
        if self.by_fd.len() <= at {
            self.by_fd.resize(at + 1, None);
        }
        self.by_fd[at] = Some(index);
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
            for other in &mut self.regs {
                if other.used && other.next == Some(index) {
                    other.next = reg.next;
                }
            }
        }
        self.regs[index as usize].used = false;
        self.free.push(index);
    }

    /// The number is closed but the file is not: the registration lives on without it.
    pub(super) fn unname(&mut self, fd: c_int) {
        if let Some(entry) = self.by_fd.get_mut(fd.unsigned_abs() as usize) {
            *entry = None;
        }
    }

    /// Registrations of a connection.
    pub(super) fn of_conn(&self, conn: u32) -> Vec<u32> {
        let all = self.regs.iter().zip(0..);
        all.filter(|(reg, _)| reg.used && reg.conn == conn).map(|(_, index)| index).collect()
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
        let slot = instance.queue(process)?.slot_in(group)?;
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
        });
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
        if reg.events & ET == 0 || ctx.conn.has(flag::TCP_NEWS) {
            member.pending[slot / 64] |= 1 << (slot % 64);
        }
        let queue_slot = member.slot;
        let op = if reg.place == Place::Outer {
            let outer = instance.outer.load(Ordering::Acquire);
            let _ = raw::epoll_ctl(outer, libc::EPOLL_CTL_DEL, reg.fd, 0, 0);
            libc::EPOLL_CTL_ADD
        } else {
            libc::EPOLL_CTL_MOD
        };
        let _ = raw::epoll_ctl(instance.inner(), op, reg.fd, SHARED_EVENTS, u64::from(index));
        if let Some((own, _)) = ctx.conn.lines() {
            doorbell::want(&own.want_ready, queue_slot);
        }
        if let Some(reg) = self.reg(index) {
            reg.place = Place::Shared;
            reg.next = first;
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
        }
    }

    /// Asks for a look at a connection.
    pub(super) fn look_at(&mut self, group: usize, slot: usize) {
        if let Some(member) = self.members.iter_mut().find(|member| member.group == group) {
            member.pending[slot % CONNS / 64] |= 1 << (slot % 64);
        }
    }

    /// Collects what is ready of the shared connections; `emit` says whether there is room for
    /// more. True: something may be left.
    pub(super) fn collect(
        &mut self,
        process: &Process,
        emit: &mut dyn FnMut(u32, u64) -> bool,
    ) -> bool {
        let count = self.members.len();
        if count == 0 {
            return false;
        }
        self.turn = self.turn.wrapping_add(1);
        for step in 0..count {
            let at = (self.turn + step) % count;
            let Some(group) = process.groups.get(self.members[at].group) else { continue };
            if !core::ptr::eq(group, self.members[at].maker) {
                continue;
            }
            let slot = self.members[at].slot;
            if let Some(wait) = group.own_slots().and_then(|slots| slots.get(slot)) {
                let pending = &mut self.members[at].pending;
                doorbell::take_ready(wait, |conn| pending[conn / 64] |= 1 << (conn % 64));
            }
            if self.collect_member(process, at, group, emit) {
                return true;
            }
        }
        false
    }

    fn collect_member(
        &mut self,
        process: &Process,
        at: usize,
        group: &Group,
        emit: &mut dyn FnMut(u32, u64) -> bool,
    ) -> bool {
        for word in 0..CONN_WORDS {
            // The lowest slots do not always come first.
            let turned = (word + self.turn) % CONN_WORDS;
            let mut bits = self.members[at].pending[turned];
            while bits != 0 {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let slot = turned * 64 + bit;
                let (stays, room) = self.look(process, at, group, slot, emit);
                if !room {
                    return true;
                }
                if !stays {
                    self.members[at].pending[turned] &= !(1 << bit);
                }
            }
        }
        false
    }

    /// Looks at one connection: whether it must be looked at again, and whether there was room.
    fn look(
        &mut self,
        process: &Process,
        at: usize,
        group: &Group,
        slot: usize,
        emit: &mut dyn FnMut(u32, u64) -> bool,
    ) -> (bool, bool) {
        let mut stays = false;
        let mut next = self.members[at].regs[slot];
        let Some(index) = group.conn_at(slot) else { return (false, true) };
        let Some(conn) = process.arena.conn(index) else { return (false, true) };
        while let Some(reg) = next.and_then(|index| self.reg(index)) {
            next = reg.next;
            if reg.conn != index || reg.fired {
                continue;
            }
            let ctx = Ctx { process, index, conn, fd: reg.fd };
            let events = ctx.ready(reg.events);
            if events == 0 {
                continue;
            }
            if !emit(events, reg.data) {
                return (true, false);
            }
            if reg.events & ONESHOT != 0 {
                reg.fired = true;
            } else if reg.events & ET == 0 {
                stays = true;
            }
        }
        (stays, true)
    }

    /// Passes one event of the inner epoll on. `emit` has room.
    pub(super) fn inner_event(
        &mut self,
        instance: &Instance,
        process: &Process,
        event: epoll_event,
        emit: &mut dyn FnMut(u32, u64) -> bool,
    ) {
        let data = event.u64;
        if data >= TAG_CONTROL {
            if let Some(group) = process.groups.get((data - TAG_CONTROL) as usize) {
                group.drain(process);
                if group.is_dead() {
                    self.wake_group(group.index(), process);
                }
            }
            return;
        }
        let Some(reg) = u32::try_from(data).ok().and_then(|index| self.reg(index)).copied() else {
            return;
        };
        let Some(conn) = process.arena.conn(reg.conn) else { return };
        let ctx = Ctx { process, index: reg.conn, conn, fd: reg.fd };
        if reg.place == Place::Shared {
            conn.raise(flag::TCP_NEWS);
            self.look_at(
                conn.group.load(Ordering::Relaxed) as usize,
                conn.slot.load(Ordering::Relaxed) as usize,
            );
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
        emit(events, reg.data);
        let index = data as u32;
        if let Some(reg) = self.reg(index) {
            reg.fired = reg.events & ONESHOT != 0;
        }
        if conn.phase() == phase::PLAIN {
            self.expel(instance, index);
        }
    }

    /// The peer of a group is gone: its connections are looked at.
    fn wake_group(&mut self, group: usize, process: &Process) {
        let Some(member) = self.members.iter_mut().find(|member| member.group == group) else {
            return;
        };
        for (slot, first) in member.regs.iter().enumerate() {
            if let Some(reg) = first.and_then(|index| self.regs.get(index as usize)) {
                if let Some(conn) = process.arena.conn(reg.conn) {
                    conn.raise(flag::TCP_NEWS);
                }
                member.pending[slot / 64] |= 1 << (slot % 64);
            }
        }
    }
}
