//! A lock for memory that several processes share over `fork`.
use super::{AtomicU32, Ordering};

/// A short lock; its word is the holder's thread id, or 0.
///
/// It lies in memory that the two sides of a `fork` share, so it can be neither a std nor a
/// parking_lot lock. Critical sections are a copy long. A waiter that has spun and yielded for long
/// looks whether the holder still lives and takes the lock over from a dead one.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct RawLock(AtomicU32);

/// Holds the lock until dropped, also when a cancelled thread unwinds.
#[derive(Debug)]
pub struct LockGuard<'a>(&'a RawLock);

/// Rounds of spinning before the holder's life is looked at.
const PATIENCE: u32 = if cfg!(loom) { 1 } else { 4096 };

impl RawLock {
    /// A free lock.
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Frees the lock whoever holds it: in the child of a fork, whose thread has another id.
    pub fn reset(&self) {
        // Release: pairs with the Acquire of try_lock.
        self.0.store(0, Ordering::Release);
    }

    /// Frees the lock if this thread id holds it: what [`LockGuard`] does, for a lock that was kept.
    pub fn release(&self, holder: u32) {
        // Release: pairs with the Acquire of try_lock.
        let _ = self.0.compare_exchange(holder, 0, Ordering::Release, Ordering::Relaxed);
    }

    /// Takes the lock if it is free.
    #[inline(always)]
    pub fn try_lock(&self, me: u32) -> Option<LockGuard<'_>> {
        // Acquire: pairs with the Release of the guard's drop.
        match self.0.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Some(LockGuard(self)),
            Err(_) => None,
        }
    }

    /// Takes the lock; `me` is the calling thread's id, `relax` is called between tries
    /// (it yields the processor) and `alive` tells whether a holder still exists.
    #[inline]
    pub fn lock(&self, me: u32, relax: impl Fn(), alive: impl Fn(u32) -> bool) -> LockGuard<'_> {
        match self.try_lock(me) {
            Some(guard) => guard,
            None => self.lock_slow(me, relax, alive),
        }
    }

    #[cold]
    fn lock_slow(&self, me: u32, relax: impl Fn(), alive: impl Fn(u32) -> bool) -> LockGuard<'_> {
        let mut round = 0_u32;
        loop {
            if let Some(guard) = self.try_lock(me) {
                return guard;
            }
            round += 1;
            if round.is_multiple_of(16) {
                relax();
            } else {
                super::pause();
            }
            if round.is_multiple_of(PATIENCE) {
                let holder = self.0.load(Ordering::Relaxed);
                if holder != 0 && !alive(holder) {
                    // Acquire: as in try_lock; whoever wins this exchange owns the lock.
                    let won = self
                        .0
                        .compare_exchange(holder, me, Ordering::Acquire, Ordering::Relaxed)
                        .is_ok();
                    if won {
                        return LockGuard(self);
                    }
                }
            }
        }
    }
}

impl Drop for LockGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: pairs with the Acquire of try_lock.
        self.0 .0.store(0, Ordering::Release);
    }
}
