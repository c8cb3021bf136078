//! A record of a connection goes back once, when its numbers are gone and no call is on it.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p smc-core --release --test loom_uses`
#![cfg(loom)]
#![allow(clippy::unwrap_used, clippy::panic)]

mod loom_common;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use loom_common::check;
use smc_core::sync::{AtomicU32, Ordering, RawLock, Uses};

/// A record with one number or two.
struct Record {
    /// The table of numbers: 1 is this record.
    entries: [AtomicU32; 2],
    uses: Uses,
    /// Stand-ins made and closed.
    stand_ins: [AtomicU32; 2],
    lock: RawLock,
    /// How often it has gone back; loom reports a call that reads it meanwhile.
    gone_back: UnsafeCell<u32>,
}

// SAFETY: requires that threads may share it: the cell is accessed as the protocol allows, and loom
// reports a race there.
unsafe impl Sync for Record {}

impl Record {
    fn new(numbers: u32) -> Arc<Self> {
        let uses = Uses::none();
        uses.is_new();
        (1..numbers).for_each(|_| uses.one_more());
        Arc::new(Self {
            entries: [0, 1].map(|at| AtomicU32::new(u32::from(at < numbers))),
            uses,
            stand_ins: [0, 0].map(AtomicU32::new),
            lock: RawLock::new(),
            gone_back: UnsafeCell::new(0),
        })
    }

    fn is_there(&self, at: usize) -> bool {
        self.entries[at].load(Ordering::Acquire) == 1
    }

    fn works(&self) {
        // SAFETY: requires that nobody writes: loom reports it.
        let gone_back = self.gone_back.with(|count| unsafe { *count });
        assert_eq!(gone_back, 0, "a call works on a record that has gone back");
    }

    fn goes_back(&self, me: u32) {
        // Calls of one step are over.
        drop(self.lock.lock(me, thread::yield_now, |_| true));
        // SAFETY: requires exclusive access: loom reports where that fails.
        self.gone_back.with_mut(|count| unsafe { *count += 1 });
    }

    /// A call that holds the record.
    fn long_call(&self, at: usize, me: u32) {
        if !self.is_there(at) || !self.uses.hold() {
            return;
        }
        if self.is_there(at) {
            self.works();
        }
        let Some(left) = self.uses.let_go() else { return };
        if left.stand_in != 0 {
            self.stand_ins[1].fetch_add(1, Ordering::AcqRel);
            if left.numbers == 0 {
                self.goes_back(me);
            }
        }
    }

    /// A call of one step.
    fn short_call(&self, at: usize, me: u32) {
        if !self.is_there(at) {
            return;
        }
        let _guard = self.lock.lock(me, thread::yield_now, |_| true);
        if self.is_there(at) {
            self.works();
        }
    }

    fn close(&self, at: usize, me: u32) {
        assert_eq!(self.entries[at].swap(0, Ordering::AcqRel), 1);
        let (left, in_vain) = self.uses.one_less(|| {
            self.stand_ins[0].fetch_add(1, Ordering::AcqRel);
            7
        });
        if in_vain.is_some() {
            self.stand_ins[1].fetch_add(1, Ordering::AcqRel);
        }
        if left.is_nothing() {
            self.goes_back(me);
        }
    }

    fn times_gone_back(&self) -> u32 {
        // SAFETY: requires that nobody writes: the threads have been joined.
        self.gone_back.with(|count| unsafe { *count })
    }
}

/// Runs these side by side, and says how often the record has gone back.
fn run(numbers: u32, threads: [fn(&Record); 2], last: fn(&Record)) {
    check(3, move || {
        let record = Record::new(numbers);
        let threads = threads.map(|work| {
            let record = record.clone();
            thread::spawn(move || work(&record))
        });
        last(&record);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(record.times_gone_back(), 1);
        let [made, closed] = [0, 1].map(|at| record.stand_ins[at].load(Ordering::Acquire));
        assert_eq!(made, closed, "stand-ins that were left open");
    });
}

#[test]
fn a_close_and_two_calls() {
    run(1, [|r| r.long_call(0, 1), |r| r.long_call(0, 2)], |r| r.close(0, 3));
}

#[test]
fn a_close_and_calls_of_both_kinds() {
    run(1, [|r| r.long_call(0, 1), |r| r.short_call(0, 2)], |r| r.close(0, 3));
}

#[test]
fn two_numbers_are_closed_under_a_call() {
    run(2, [|r| r.long_call(0, 1), |r| r.close(1, 2)], |r| r.close(0, 3));
}

#[test]
fn two_numbers_are_closed_beside_a_short_call() {
    run(2, [|r| r.short_call(0, 1), |r| r.close(1, 2)], |r| r.close(0, 3));
}
