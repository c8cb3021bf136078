//! A ring, two lines, wait slots and a bell for models.
#![allow(dead_code, reason = "not every model uses all")]

use loom::cell::UnsafeCell;
use loom::sync::{Condvar, Mutex};
use smc_core::ring::{Consumer, Producer, RingMem, RxHalf, TxHalf};
use smc_core::shm::layout::{Line, WaitSlot};
use smc_core::sync::Ordering::Relaxed;

/// Bytes of the ring: a quarter is 4, an empty one is started afresh from offset 2 on.
pub(crate) const SIZE: usize = 16;

/// Runs `model` in all orders with at most `preemptions` switches that nothing forced.
pub(crate) fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// One direction of a connection: side `a` sends, side `b` receives.
pub(crate) struct Duct {
    pub(crate) a: Line,
    pub(crate) b: Line,
    pub(crate) slots: [WaitSlot; 2],
    start: u64,
    cells: Vec<UnsafeCell<u8>>,
}

// SAFETY: requires that threads may share it: the cells are accessed through RingMem alone, and
// loom reports a race there.
unsafe impl Sync for Duct {}

impl Duct {
    pub(crate) fn new(start: u64) -> Self {
        let (a, b) = (Line::default(), Line::default());
        a.prod.store(start, Relaxed);
        a.base.store(start, Relaxed);
        b.cons.store(start, Relaxed);
        let slots = [WaitSlot::default(), WaitSlot::default()];
        Self { a, b, slots, start, cells: (0..SIZE).map(|_| UnsafeCell::new(0)).collect() }
    }

    pub(crate) fn tx(&self) -> TxHalf {
        TxHalf::at(self.start)
    }

    pub(crate) fn rx(&self) -> RxHalf {
        RxHalf::at(self.start)
    }

    fn ring(&self) -> RingMem {
        // SAFETY: requires SIZE cells that live as long as the value: `self` owns them.
        unsafe { RingMem::new(self.cells.as_ptr().cast_mut(), SIZE) }
    }

    pub(crate) fn producer<'a>(&'a self, half: &'a mut TxHalf) -> Producer<'a> {
        Producer::new(&self.a, &self.b, half, self.ring())
    }

    pub(crate) fn consumer<'a>(&'a self, half: &'a mut RxHalf) -> Consumer<'a> {
        Consumer::new(&self.b, &self.a, half, self.ring())
    }
}

/// What an eventfd does: a ring is remembered until somebody waits.
#[derive(Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    cond: Condvar,
}

impl Bell {
    pub(crate) fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.cond.notify_one();
    }

    pub(crate) fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.cond.wait(rung).unwrap();
        }
        *rung = false;
    }
}
