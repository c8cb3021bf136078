//! The lock that forked processes share: one holder at a time, also when one has died. And the gate:
//! nobody is behind it while it is shut.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p smc-core --release --test loom_lock`
#![cfg(loom)]
#![allow(clippy::unwrap_used, clippy::panic)]

mod loom_common;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use loom_common::check;
use smc_core::sync::{AtomicU32, Gate, Ordering, RawLock};

/// A number that only the lock's holder touches; loom reports a race.
struct Guarded {
    lock: RawLock,
    number: UnsafeCell<u32>,
    /// The process with thread 1 is gone.
    gone: AtomicU32,
}

// SAFETY: requires that threads may share it: the cell is accessed under the lock, and loom
// reports where that fails.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn new() -> Arc<Self> {
        let (lock, number) = (RawLock::new(), UnsafeCell::new(0));
        Arc::new(Self { lock, number, gone: AtomicU32::new(0) })
    }

    fn increment(&self) {
        // SAFETY: requires exclusive access: the lock's, which loom checks.
        self.number.with_mut(|number| unsafe { *number += 1 });
    }

    fn lock_and_increment(&self, me: u32) {
        // Acquire: pairs with the Release by which the death was made known.
        let alive = |holder| holder != 1 || self.gone.load(Ordering::Acquire) == 0;
        let guard = self.lock.lock(me, thread::yield_now, alive);
        self.increment();
        drop(guard);
    }

    /// Thread 1 is killed before it lets go.
    fn die_holding_it(&self) {
        let guard = self.lock.lock(1, thread::yield_now, |_| true);
        self.increment();
        std::mem::forget(guard);
        self.gone.store(1, Ordering::Release);
    }

    fn number(&self) -> u32 {
        // SAFETY: requires that nobody writes: the threads have been joined.
        self.number.with(|number| unsafe { *number })
    }
}

#[test]
fn one_holder_at_a_time() {
    check(3, || {
        let shared = Guarded::new();
        let threads = [2, 3].map(|me| {
            let shared = shared.clone();
            thread::spawn(move || shared.lock_and_increment(me))
        });
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(shared.number(), 2);
        assert!(shared.lock.try_lock(4).is_some());
    });
}

#[test]
fn a_dead_holder_is_followed_by_one() {
    check(3, || {
        let shared = Guarded::new();
        shared.die_holding_it();
        let threads = [2, 3].map(|me| {
            let shared = shared.clone();
            thread::spawn(move || shared.lock_and_increment(me))
        });
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(shared.number(), 3);
        assert!(shared.lock.try_lock(4).is_some());
    });
}

#[test]
fn a_dying_holder_is_followed_by_one() {
    check(3, || {
        let shared = Guarded::new();
        let heir = thread::spawn({
            let shared = shared.clone();
            move || shared.lock_and_increment(2)
        });
        shared.die_holding_it();
        heir.join().unwrap();
        assert_eq!(shared.number(), 2);
    });
}

/// A table of which threads take something away, and of which another makes copies.
struct Table {
    gate: Gate,
    /// Loom reports a race: one part is written by each closer, all are read by the copier.
    parts: [UnsafeCell<u32>; 2],
}

// SAFETY: requires that threads may share it: who writes is behind the gate, who reads has shut it,
// and loom reports where that is not enough.
unsafe impl Sync for Table {}

impl Table {
    /// Tries once: loops that wait for another thread have no end in a model.
    fn close(&self, at: usize) {
        if self.gate.enter() {
            // SAFETY: requires exclusive access: a closer has its own part, and no copier is at work.
            self.parts[at].with_mut(|part| unsafe { *part += 1 });
            self.gate.leave();
        }
    }

    fn copy(&self) -> Option<u32> {
        self.gate.shut();
        let copy = self.gate.is_empty().then(|| {
            // SAFETY: requires that nobody writes: no closer is behind the gate.
            self.parts.iter().map(|part| part.with(|part| unsafe { *part })).sum()
        });
        self.gate.open();
        copy
    }
}

#[test]
fn nothing_is_taken_away_from_what_is_being_copied() {
    check(3, || {
        let parts = [0, 1].map(|_| UnsafeCell::new(0));
        let table = Arc::new(Table { gate: Gate::new(), parts });
        let closers = [0, 1].map(|at| {
            let table = table.clone();
            thread::spawn(move || table.close(at))
        });
        let early = table.copy();
        for closer in closers {
            closer.join().unwrap();
        }
        let late = table.copy();
        assert!(late.is_some() && early.unwrap_or(0) <= late.unwrap_or(0));
    });
}
