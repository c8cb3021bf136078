//! Wait queues: where a thread of this process sleeps.
//!
//! A queue owns one eventfd, its bell, and in each link group, once needed, one wait slot. An epoll
//! instance has a queue for good; a thread that blocks in a call borrows one from the pool.
use super::group::Group;
use crate::errno::Errno;
use crate::fdtable;
use crate::sync::{AtomicI32, AtomicU32, AtomicU8, Ordering};
use crate::sys::raw;
use libc::c_int;

/// Queues of a process.
pub(crate) const QUEUES: usize = 512;
/// Link groups of a process.
pub(crate) const GROUPS: usize = 1024;
/// "No slot": all are taken.
const FULL: u8 = u8::MAX;

/// One wait queue.
#[derive(Debug)]
pub(crate) struct Queue {
    index: usize,
    bell: AtomicI32,
    /// 0 free, 1 in use.
    busy: AtomicU32,
    /// For each link group: 0 none yet, [`FULL`], or the slot + 1.
    slots: [AtomicU8; GROUPS],
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Queues {
    all: Box<[once_cell::race::OnceBox<Queue>]>,
    /// The process whose descriptors the bells are.
    owner: AtomicU32,
}

impl Queues {
    pub(crate) fn new() -> Self {
        let all = (0..QUEUES).map(|_| once_cell::race::OnceBox::new()).collect();
        Self { all, owner: AtomicU32::new(raw::getpid()) }
    }

    /// The n-th, if it was ever used.
    pub(crate) fn get(&self, index: usize) -> Option<&Queue> {
        self.all.get(index)?.get()
    }

    /// Takes one that nobody uses; gives it back when the guard is dropped.
    pub(crate) fn borrow(&self) -> Result<Borrowed<'_>, Errno> {
        for (index, cell) in self.all.iter().enumerate() {
            let queue = cell.get_or_init(|| Box::new(Queue::new(index)));
            // Acquire: pairs with the Release in `Borrowed::drop`.
            let free = queue
                .busy
                .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
            if free {
                let borrowed = Borrowed(queue);
                if queue.bell() < 0 {
                    if raw::getpid() != self.owner.load(Ordering::Relaxed) {
                        // A child in its parent's memory: the parent would not have the bell.
                        return Err(Errno::NOMEM);
                    }
                    queue.bell.store(fdtable::raise(raw::eventfd()?), Ordering::Release);
                }
                return Ok(borrowed);
            }
        }
        Err(Errno::NOMEM)
    }

    /// Takes one for good.
    pub(crate) fn take(&self) -> Result<&Queue, Errno> {
        let borrowed = self.borrow()?;
        let queue = borrowed.0;
        core::mem::forget(borrowed);
        Ok(queue)
    }

    /// Wakes all that sleep on one of the pool's.
    pub(crate) fn wake_all(&self, but: impl Fn(usize) -> bool) {
        for queue in self.all.iter().map_while(|cell| cell.get()) {
            let busy = queue.busy.load(Ordering::Acquire) != 0;
            if busy && queue.bell() >= 0 && !but(queue.index) {
                raw::eventfd_ring(queue.bell());
            }
        }
    }

    /// A new link group took this index: nobody has a slot in it.
    pub(crate) fn forget_group(&self, group: usize) {
        for queue in self.all.iter().filter_map(|cell| cell.get()) {
            if let Some(slot) = queue.slots.get(group) {
                slot.store(0, Ordering::Relaxed);
            }
        }
    }

    /// In the child of a fork: the pool's queues are the parent's; new ones are made.
    pub(crate) fn after_fork(&self, keep: impl Fn(usize) -> bool) {
        self.owner.store(raw::getpid(), Ordering::Relaxed);
        for queue in self.all.iter().filter_map(|cell| cell.get()) {
            if keep(queue.index) {
                continue;
            }
            fdtable::drop_internal(queue.bell.swap(-1, Ordering::AcqRel));
            for slot in &queue.slots {
                slot.store(0, Ordering::Relaxed);
            }
            queue.busy.store(0, Ordering::Release);
        }
    }
}

impl Queue {
    fn new(index: usize) -> Self {
        Self {
            index,
            bell: AtomicI32::new(-1),
            busy: AtomicU32::new(0),
            slots: [const { AtomicU8::new(0) }; GROUPS],
        }
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The eventfd.
    pub(crate) fn bell(&self) -> c_int {
        self.bell.load(Ordering::Acquire)
    }

    /// Gives a queue that was taken for good back.
    pub(crate) fn give_back(&self) {
        self.busy.store(0, Ordering::Release);
    }

    /// This queue's slot in a link group; the first call takes one and tells the peer. `None`:
    /// there is none left, and the caller must not sleep for long.
    pub(crate) fn slot_in(&self, group: &Group) -> Option<usize> {
        let cell = self.slots.get(group.index())?;
        match cell.load(Ordering::Acquire) {
            0 => {
                let slot = group.take_slot(self.index, self.bell());
                let code = slot.and_then(|slot| u8::try_from(slot + 1).ok()).unwrap_or(FULL);
                cell.store(code, Ordering::Release);
                slot
            }
            FULL => None,
            code => Some(usize::from(code) - 1),
        }
    }

    /// The slot, if there is one already.
    #[inline]
    pub(crate) fn known_slot(&self, group: usize) -> Option<usize> {
        match self.slots.get(group)?.load(Ordering::Acquire) {
            0 | FULL => None,
            code => Some(usize::from(code) - 1),
        }
    }
}

/// A queue of the pool, for the length of a call.
#[derive(Debug)]
pub(crate) struct Borrowed<'a>(&'a Queue);

impl core::ops::Deref for Borrowed<'_> {
    type Target = Queue;
    fn deref(&self) -> &Queue {
        self.0
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}
