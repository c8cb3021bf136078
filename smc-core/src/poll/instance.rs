//! One epoll instance of the program.
//!
//! The program's descriptor stays a kernel epoll. TCP sockets that may come to a ring are
//! registered in a hidden inner epoll, which is itself a member of the program's; so is the bell of
//! the instance's wait queue. Everything else the program registers directly.
use super::registry::State;
use crate::conn::spin::Spin;
use crate::errno::Errno;
use crate::fdtable;
use crate::process::Process;
use crate::ring::doorbell;
use crate::sync::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use crate::sys::lock::Lock;
use crate::sys::raw;
use crate::transport::loopback::{Group, Queue};
use libc::c_int;

/// Data of the bell in the program's epoll. A random word at every start would be no safer: the
/// program's data are pointers or small numbers.
pub(super) const TAG_BELL: u64 = 0xe2d4_c3c4_b5d1_0001;
/// Data of the inner epoll in the program's.
pub(super) const TAG_INNER: u64 = 0xe2d4_c3c4_b5d1_0002;
/// Data of a control channel in the inner epoll: this, plus the group's index.
pub(super) const TAG_CONTROL: u64 = 1 << 40;

/// How the bell is registered: edge-triggered it need not be read.
fn bell_events(watched: bool) -> u32 {
    let edge = if watched { 0 } else { libc::EPOLLET };
    (libc::EPOLLIN | edge) as u32
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
    /// The rings have left no room for the kernel's events in the last call.
    pub(super) crowded: AtomicBool,
    pub(super) spin: Spin,
    pub(super) state: Lock<State>,
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
            crowded: AtomicBool::new(false),
            spin: Spin::new(),
            state: Lock::new(State::default()),
        }
    }

    /// A descriptor of it is closed. False: it was the last, and the instance is the caller's to end,
    /// who sets `refs` to 0 then.
    pub(super) fn lose_number(&self) -> bool {
        let more = |refs: u32| (refs > 1).then(|| refs - 1);
        self.refs.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    pub(super) fn inner(&self) -> c_int {
        self.inner.load(Ordering::Acquire)
    }

    pub(super) fn queue<'p>(&self, process: &'p Process) -> Option<&'p Queue> {
        let index = usize::try_from(self.queue.load(Ordering::Acquire)).ok()?;
        process.device.queues.get(index)
    }

    /// Makes the inner epoll and the bell members of the program's epoll, once.
    pub(super) fn open_inner(&self, process: &Process) -> Result<(), Errno> {
        if self.inner() >= 0 {
            return Ok(());
        }
        let outer = self.outer.load(Ordering::Acquire);
        let queue = process.device.queues.take()?;
        let inner = fdtable::raise(raw::epoll_create()?);
        let bell = bell_events(self.watched.load(Ordering::Acquire));
        let joined = raw::epoll_ctl(outer, libc::EPOLL_CTL_ADD, queue.bell(), bell, TAG_BELL)
            .and_then(|_| {
                let events = libc::EPOLLIN as u32;
                raw::epoll_ctl(outer, libc::EPOLL_CTL_ADD, inner, events, TAG_INNER)
            });
        if let Err(errno) = joined {
            let _ = raw::epoll_ctl(outer, libc::EPOLL_CTL_DEL, queue.bell(), 0, 0);
            fdtable::drop_internal(inner);
            queue.give_back();
            return Err(errno);
        }
        self.queue.store(queue.index() as i32, Ordering::Release);
        self.inner.store(inner, Ordering::Release);
        Ok(())
    }

    /// Somebody waits for the descriptor itself: from now on the bell says exactly whether a ring
    /// has anything to tell.
    pub(super) fn watch(&self, process: &Process) {
        if !self.watched.swap(true, Ordering::AcqRel) {
            if let Some(queue) = self.queue(process) {
                let outer = self.outer.load(Ordering::Acquire);
                let events = bell_events(true);
                let _ =
                    raw::epoll_ctl(outer, libc::EPOLL_CTL_MOD, queue.bell(), events, TAG_BELL);
            }
        }
    }

    /// Sets the bell of a watched instance to what the rings have to tell.
    pub(super) fn settle(&self, process: &Process, state: &mut State) {
        let Some(queue) = self.queue(process) else { return };
        if !self.watched.load(Ordering::Acquire) {
            return;
        }
        self.arm(process, state);
        state.take_inner(self, process);
        let rung = raw::poll_now(queue.bell(), libc::POLLIN) & libc::POLLIN != 0;
        if !state.any_ready(self, process) && rung {
            // Cleared before the peers are asked to ring again, and that before another look:
            // nothing is lost.
            raw::eventfd_clear(queue.bell());
            self.arm(process, state);
        } else if rung {
            // It says so already; a ring more would be an edge where there is none.
            return;
        }
        if state.any_ready(self, process) {
            raw::eventfd_ring(queue.bell());
        }
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
            let slots = process.device.groups.get(*group).map(Group::own_slots);
            slots.and_then(|slots| slots.get(*slot)).is_some_and(doorbell::any_ready)
        })
    }
}
