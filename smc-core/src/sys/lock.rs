//! A lock for tables of this process that must be usable in the child of a fork.
//!
//! A lock that parks its waiters is not: the child inherits the queue of threads that it does not
//! have. Here a waiter spins and yields; the sections are short.
use super::{raw, thread};
use crate::sync::{LockGuard, RawLock};
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

/// A value behind such a lock.
#[derive(Debug)]
pub struct Lock<T> {
    raw: RawLock,
    value: UnsafeCell<T>,
}

// SAFETY: requires that the value is reached by one thread at a time: through a guard only.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The value, locked.
#[derive(Debug)]
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
    _held: LockGuard<'a>,
}

impl<T> Lock<T> {
    /// A free lock.
    pub fn new(value: T) -> Self {
        Self { raw: RawLock::new(), value: UnsafeCell::new(value) }
    }

    /// Takes the lock.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        // The memory is this process's own: a holder that has died died with it.
        let held = self.raw.lock(thread::tid(), raw::yield_now, |_| true);
        Guard { lock: self, _held: held }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        Some(Guard { lock: self, _held: self.raw.try_lock(thread::tid())? })
    }

    /// Takes the lock and keeps it: before a fork, so that no other thread is inside.
    pub fn hold(&self) {
        core::mem::forget(self.lock());
    }

    /// Ends [`Self::hold`], in the parent and in the child.
    ///
    /// # Safety
    /// This thread, or the one that it is the copy of, holds the lock.
    pub unsafe fn let_go(&self) {
        self.raw.reset();
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: requires that nobody writes the value: the lock is held.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: requires exclusive access: the lock is held and this is the only guard.
        unsafe { &mut *self.lock.value.get() }
    }
}
