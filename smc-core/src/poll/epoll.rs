//! The epoll instances of this process.
use super::instance::Instance;
use super::registration::{Place, POLLED};
use crate::arena::{flag, phase};
use crate::conn::Ctx;
use crate::errno::{Errno, Ret};
use crate::fdtable::{self, Entry};
use crate::process::Process;
use crate::sync::{fence_after_rmw, Ordering};
use crate::sys::iov::fetch;
use crate::sys::raw;
use libc::{c_int, epoll_event};
use once_cell::race::OnceBox;

const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
/// Instances of a process; more than that are left to the kernel, with their sockets on TCP.
const INSTANCES: usize = 1024;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Epolls {
    all: Box<[OnceBox<Instance>]>,
}

impl Epolls {
    pub(crate) fn new() -> Self {
        Self { all: (0..INSTANCES).map(|_| OnceBox::new()).collect() }
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Instance> {
        self.all.get(index as usize)?.get()
    }

    /// The instance of a descriptor.
    #[inline]
    pub(crate) fn of(&self, fd: c_int) -> Option<&Instance> {
        self.get(fdtable::entry(fd).as_epoll()?)
    }

    fn live(&self) -> impl Iterator<Item = &Instance> {
        // Instances are taken in order, so the first that was never used ends the list.
        let known = self.all.iter().map_while(|cell| cell.get());
        known.filter(|instance| instance.refs.load(Ordering::Acquire) > 0)
    }

    /// An epoll descriptor was made.
    pub(crate) fn opened(&self, fd: c_int) {
        for (index, cell) in self.all.iter().enumerate() {
            let instance = cell.get_or_init(|| Box::new(Instance::new()));
            let taken =
                instance.refs.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if !taken {
                continue;
            }
            *instance.state.lock() = Default::default();
            instance.outer.store(fd, Ordering::Release);
            instance.watched.store(false, Ordering::Release);
            if !fdtable::set(fd, Entry::epoll(index as u32)) {
                instance.refs.store(0, Ordering::Release);
            }
            return;
        }
    }

    /// Another descriptor for an instance.
    pub(crate) fn duplicated(&self, entry: Entry, new: c_int) {
        if let Some(instance) = entry.as_epoll().and_then(|index| self.get(index)) {
            if fdtable::set(new, entry) {
                instance.refs.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// A descriptor of an instance is closed; its entry is gone already.
    pub(crate) fn closed(&self, process: &Process, entry: Entry, fd: c_int) {
        let Some(instance) = entry.as_epoll().and_then(|index| self.get(index)) else { return };
        if instance.lose_number() {
            // The instance lives under another number.
            if instance.outer.load(Ordering::Acquire) == fd {
                let other = fdtable::all().find(|(_, other)| *other == entry);
                if let Some((other, _)) = other {
                    instance.outer.store(other, Ordering::Release);
                }
            }
            return;
        }
        let mut state = instance.state.lock();
        let queue = instance.queue(process);
        instance.queue.store(-1, Ordering::Release);
        fdtable::drop_internal(instance.inner.swap(-1, Ordering::AcqRel));
        if let Some(queue) = queue {
            // Not from the program's epoll alone: it may be open in another process.
            let _ = raw::epoll_ctl(fd, libc::EPOLL_CTL_DEL, queue.bell(), 0, 0);
            queue.give_back();
        }
        *state = Default::default();
        drop(state);
        // Only now may another descriptor have it.
        instance.refs.store(0, Ordering::Release);
    }

    /// `epoll_ctl` on one of them.
    pub(crate) fn control(
        &self,
        process: &Process,
        epfd: c_int,
        op: c_int,
        fd: c_int,
        event: *const epoll_event,
        real: impl FnOnce() -> isize,
    ) -> Ret {
        let entry = fdtable::entry(fd);
        let instance = self.of(epfd);
        if let (Some(index), libc::EPOLL_CTL_ADD) = (entry.as_epoll(), op) {
            if let Some(nested) = self.get(index) {
                nested.watch(process);
                nested.settle(process, &mut nested.state.lock());
            }
            if let Some(instance) = instance {
                instance.state.lock().nested.push(index);
            }
            return Ok(real());
        }
        let Some(instance) = instance else {
            return Ok(real());
        };
        if entry == Entry::internal() {
            return Err(Errno::BADF);
        }
        let Some(ctx) = Ctx::of(process, fd) else { return Ok(real()) };
        let mut state = instance.state.lock();
        let known = state.reg_of(fd).or_else(|| state.find(fd, ctx.index));
        match op {
            libc::EPOLL_CTL_ADD => {
                if let Some(index) = known {
                    let event = fetch(event)?;
                    let parked = state.reg(index).filter(|reg| reg.parked);
                    let Some(reg) = parked.filter(|_| event.events & EXCLUSIVE == 0) else {
                        return Err(Errno(libc::EEXIST));
                    };
                    reg.unpark(event);
                    state.look_at(ctx.conn, index);
                    instance.nudge(process);
                    return Ok(0);
                }
                if matches!(ctx.conn.phase(), phase::PLAIN | phase::LISTENER) {
                    return Ok(real());
                }
                let event = fetch(event)?;
                instance.open_inner(process)?;
                let index = state.insert(fd, ctx.index, event);
                let added =
                    raw::epoll_ctl(instance.inner(), op, fd, event.events, u64::from(index));
                if let Err(errno) = added {
                    state.remove(index, None);
                    return Err(errno);
                }
                ctx.conn.raise(flag::SEEN_WAIT | flag::IN_EPOLL);
                // Who closes the number takes it out of the table before it looks for the flag.
                fence_after_rmw();
                if !ctx.has_its_number() {
                    state.remove(index, None);
                    let _ = raw::epoll_ctl(instance.inner(), libc::EPOLL_CTL_DEL, fd, 0, 0);
                    return Err(Errno::BADF);
                }
                if ctx.conn.has(flag::CONSENTED) && state.share(instance, &ctx, index) {
                    // A new registration tells of what is there, once.
                    state.take_inner(instance, process);
                    state.look_at(ctx.conn, index);
                    instance.nudge(process);
                }
                Ok(0)
            }
            libc::EPOLL_CTL_MOD => {
                let Some(index) = known else { return Ok(real()) };
                let event = fetch(event)?;
                let Some(reg) = state.reg(index).filter(|reg| !reg.parked) else {
                    return Err(Errno(libc::ENOENT));
                };
                if (event.events | reg.events) & EXCLUSIVE != 0 {
                    return Err(Errno::INVAL);
                }
                if reg.place == Place::Outer {
                    (reg.events, reg.data) = (event.events, event.u64);
                    return Ok(real());
                }
                if reg.place == Place::Inner {
                    let data = u64::from(index);
                    match raw::epoll_ctl(instance.inner(), op, fd, event.events, data) {
                        Err(Errno(libc::ENOENT)) => {
                            state.was_expelled(index, event);
                            return Ok(real());
                        }
                        other => other?,
                    };
                }
                (reg.events, reg.data, reg.fired) = (event.events, event.u64, false);
                let shared = reg.place == Place::Shared;
                // The kernel tells anew.
                state.stash.retain(|stashed| *stashed != index);
                if shared {
                    state.look_at(ctx.conn, index);
                    instance.nudge(process);
                } else if ctx.conn.phase() == phase::PLAIN {
                    state.expel(instance, index);
                }
                Ok(0)
            }
            libc::EPOLL_CTL_DEL => {
                let Some(index) = known else { return Ok(real()) };
                let Some(reg) = state.reg(index).filter(|reg| !reg.parked) else {
                    return Err(Errno(libc::ENOENT));
                };
                if reg.place == Place::Shared && reg.events & EXCLUSIVE == 0 && reg.fd == fd {
                    reg.parked = true;
                    return Ok(0);
                }
                let place = Some(reg.place);
                let slot = ctx.conn.slot.load(Ordering::Relaxed) as usize;
                state.remove(index, Some(slot));
                if place == Some(Place::Outer) {
                    return Ok(real());
                }
                match raw::epoll_ctl(instance.inner(), op, fd, 0, 0) {
                    Err(Errno(libc::ENOENT)) => Ok(real()),
                    other => other.map(|_| 0),
                }
            }
            _ => Ok(real()),
        }
    }

    /// A connection has consented: its registrations go over to the ring. False: one cannot.
    pub(crate) fn now_shared(&self, ctx: &Ctx<'_>) -> bool {
        let mut all = true;
        for instance in self.live() {
            let mut state = instance.state.lock();
            state.for_each_of_conn(ctx.index, |state, index| {
                all &= state.share(instance, ctx, index);
            });
            drop(state);
            instance.nudge(ctx.process);
        }
        all
    }

    /// A connection stays on TCP: its registrations go back to the program's epoll.
    pub(crate) fn now_plain(&self, ctx: &Ctx<'_>) {
        for instance in self.live() {
            // Only an optimisation: who holds the lock does it after the next event.
            let Some(mut state) = instance.state.try_lock() else { continue };
            state.for_each_of_conn(ctx.index, |state, index| state.expel(instance, index));
        }
    }

    /// Something changed on this side: whoever waits for the connection looks again.
    pub(crate) fn look_again(&self, ctx: &Ctx<'_>) {
        for instance in self.live() {
            let mut state = instance.state.lock();
            if state.of_conn(ctx.index).is_none() {
                continue;
            }
            state.for_each_of_conn(ctx.index, |state, index| state.look_at(ctx.conn, index));
            drop(state);
            instance.nudge(ctx.process);
        }
    }

    /// A descriptor of a connection is closed; `last`: of this process.
    pub(crate) fn socket_closed(&self, ctx: &Ctx<'_>, last: bool) {
        let slot = ctx.conn.slot.load(Ordering::Relaxed) as usize;
        for instance in self.live() {
            let mut state = instance.state.lock();
            if last {
                state.for_each_of_conn(ctx.index, |state, index| state.remove(index, Some(slot)));
            } else {
                state.unname(ctx.fd);
            }
        }
    }

    /// Everything that is registered goes to the programs' own instances, which are the kernel's alone
    /// from now on.
    pub(crate) fn dissolve(&self, process: &Process) {
        for instance in self.live() {
            let mut state = instance.state.lock();
            let outer = instance.outer.load(Ordering::Acquire);
            for reg in state.regs.iter().filter(|reg| reg.used && !reg.parked) {
                if reg.place != Place::Outer {
                    // One that has fired waits for its MOD.
                    let events = if reg.fired { reg.events & !POLLED } else { reg.events };
                    let _ = raw::epoll_ctl(outer, libc::EPOLL_CTL_ADD, reg.fd, events, reg.data);
                }
            }
            if let Some(queue) = instance.queue(process) {
                let _ = raw::epoll_ctl(outer, libc::EPOLL_CTL_DEL, queue.bell(), 0, 0);
            }
            // With its descriptor it leaves the program's instance.
            fdtable::drop_internal(instance.inner.swap(-1, Ordering::AcqRel));
            *state = Default::default();
        }
    }

    /// Wakes all that sleep on an instance. Whoever waits for the instance itself is not told: it
    /// would find nothing there.
    pub(crate) fn wake_waiters(&self, process: &Process) {
        for instance in self.live().filter(|instance| !instance.watched.load(Ordering::Acquire)) {
            instance.nudge(process);
        }
    }

    /// Whether a wait queue belongs to an instance.
    pub(crate) fn owns_queue(&self, queue: usize) -> bool {
        self.live().any(|instance| instance.queue.load(Ordering::Acquire) == queue as i32)
    }

    /// Locks every instance, so that a fork copies none in the middle of a change.
    pub(crate) fn lock_for_fork(&self) {
        for instance in self.all.iter().map_while(|cell| cell.get()) {
            instance.state.hold();
        }
    }

    /// Ends [`Self::lock_for_fork`].
    pub(crate) fn unlock_after_fork(&self) {
        for instance in self.all.iter().map_while(|cell| cell.get()) {
            // SAFETY: requires that this thread holds the lock: `lock_for_fork` took it.
            unsafe { instance.state.let_go() };
        }
    }

    /// Before the kernel is asked about descriptors among which is an epoll instance: its bell
    /// then says what its rings have to tell.
    pub(crate) fn settle(&self, process: &Process, fd: c_int) {
        if let Some(instance) = self.of(fd) {
            instance.watch(process);
            instance.settle(process, &mut instance.state.lock());
        }
    }

    /// The same for instances that are registered in another one.
    pub(super) fn settle_nested(&self, process: &Process, nested: &[u32]) {
        for instance in nested.iter().filter_map(|index| self.get(*index)) {
            instance.settle(process, &mut instance.state.lock());
        }
    }
}
