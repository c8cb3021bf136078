//! Children and next images that are being made.
//!
//! Who will hold a connection is counted before the kernel copies the descriptors. Between the two no
//! other thread may take one away: a child would be counted that does not have it, so that the last
//! process that has it does not know that it is, or one would have it that knows nothing of it. Nor may
//! a record come into being in a fork: it would be in the child's memory, and counted once.
//!
//! Children that will be other programs are started one after the other. One inherits every carrier
//! that is open when the kernel copies the descriptors, and cannot tell which of two was meant for it.
//! So only one of a process is open to inheritance at a time: until the call that starts the child is
//! over or, where that waits for the child's end (`system`), until the new image has taken what was
//! left for it.
use super::Packed;
use crate::sync::{AtomicBool, Gate, Ordering};
use crate::sys::lock::{Guard, Lock};
use crate::sys::raw;
use crate::sys::thread::{self, Critical};

/// A child that has not begun by then, and a number that has not gone, is not waited for.
const PATIENCE_NS: u64 = 1_000_000_000;

/// See the module's text.
#[derive(Debug)]
pub struct Births {
    /// The one that is under way. Held over a fork, whose child is to know what it has inherited, and
    /// by whoever corrects a count of holders: no process comes to hold a connection meanwhile.
    pub current: Lock<Option<Birth>>,
    /// There has been one.
    any: AtomicBool,
    /// Threads that take descriptors away are behind it; it is shut by [`Self::current`], and while a
    /// fork or an exec is under way.
    closing: Gate,
    /// The same for threads that make records; shut while a fork is under way.
    opening: Gate,
}

/// The thread that has this is behind one of the gates.
#[derive(Debug)]
pub struct Passing<'a>(&'a Gate);

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// One start of a child.
#[derive(Clone, Copy, Debug)]
pub struct Birth {
    number: u64,
    packed: Option<Packed>,
}

impl Births {
    /// None is under way.
    pub fn new() -> Self {
        Self {
            current: Lock::new(None),
            any: AtomicBool::new(false),
            closing: Gate::new(),
            opening: Gate::new(),
        }
    }

    /// Before a descriptor is taken away: waits until no child is being made.
    #[inline]
    pub fn closing(&self) -> Passing<'_> {
        self.pass(&self.closing)
    }

    /// Before a record is made: waits until no fork is under way.
    #[inline]
    pub fn opening(&self) -> Passing<'_> {
        self.pass(&self.opening)
    }

    #[inline]
    fn pass<'a>(&'a self, gate: &'a Gate) -> Passing<'a> {
        if !gate.enter() {
            self.pass_late(gate);
        }
        Passing(gate)
    }

    #[cold]
    fn pass_late(&self, gate: &Gate) {
        let began = raw::monotonic_ns();
        while !gate.enter() {
            // A handler of libc's or of the program's, in the middle of what this thread makes.
            if thread::is_making() || raw::monotonic_ns() > began + PATIENCE_NS {
                return gate.force();
            }
            self.see_end();
            raw::yield_now();
        }
    }

    /// A child that has taken what is its own is there, also if the call that started it goes on.
    fn see_end(&self) {
        let _critical = Critical::enter();
        let Some(mut current) = self.current.try_lock() else { return };
        if current.as_ref().is_some_and(Birth::is_over) {
            self.replace(&mut current, None);
        }
    }

    /// From now on, until [`Self::let_close`], no other thread takes a descriptor away.
    pub fn keep_all(&self) {
        thread::begins_to_make();
        Self::shut(&self.closing);
    }

    /// The next image is there, or does not come.
    pub fn let_close(&self) {
        self.closing.open();
        thread::ends_to_make();
    }

    /// From now on, until [`Self::forked`], the records and descriptors of this process stay as they
    /// are, but for what this thread does.
    pub fn before_fork(&self) {
        self.keep_all();
        Self::shut(&self.opening);
    }

    /// The child is there, or does not come.
    pub fn forked(&self) {
        self.opening.open();
        self.let_close();
    }

    fn shut(gate: &Gate) {
        gate.shut();
        Self::await_empty(gate);
    }

    /// Who waits for the peer in a `close` is not waited for without end.
    fn await_empty(gate: &Gate) {
        let began = raw::monotonic_ns();
        while !gate.is_empty() {
            if raw::monotonic_ns() > began + PATIENCE_NS {
                gate.give_up();
            }
            raw::yield_now();
        }
    }

    /// The one that is under way is another one, or none.
    fn replace(&self, current: &mut Option<Birth>, next: Option<Birth>) {
        match (current.is_some(), next.is_some()) {
            (false, true) => self.closing.shut(),
            (true, false) => self.closing.open(),
            _ => {}
        }
        if let Some(packed) = current.and_then(|birth| birth.packed) {
            packed.let_inherit(false);
        }
        *current = next;
    }

    /// Before anything is made for a child: waits for its turn. What it is named by in the calls below.
    /// Until it is there no other thread takes a descriptor away.
    pub fn begin(&self) -> u64 {
        // Relaxed: it is asked in copies of this process, made under the lock.
        self.any.store(true, Ordering::Relaxed);
        let began = raw::monotonic_ns();
        loop {
            let patient = raw::monotonic_ns() < began + PATIENCE_NS;
            let critical = Critical::enter();
            let mut current = self.current.lock();
            match &*current {
                Some(earlier) if !earlier.is_over() && patient => {}
                _ => {
                    let number = raw::monotonic_ns();
                    self.replace(&mut current, Some(Birth { number, packed: None }));
                    drop(current);
                    thread::begins_to_make();
                    Self::await_empty(&self.closing);
                    return number;
                }
            }
            drop(current);
            drop(critical);
            raw::yield_now();
        }
    }

    /// While it is held no child is on its way that has been counted and does not exist; `None`: one is.
    pub fn none(&self) -> Option<Guard<'_, Option<Birth>>> {
        let current = self.current.try_lock()?;
        current.as_ref().is_none_or(Birth::is_over).then_some(current)
    }

    /// Opens what was packed for the child to inheritance.
    pub fn open(&self, number: u64, packed: Packed) {
        let _critical = Critical::enter();
        let mut current = self.current.lock();
        packed.let_inherit(true);
        if let Some(birth) = current.as_mut().filter(|birth| birth.number == number) {
            birth.packed = Some(packed);
        }
    }

    /// Whether this process, or one that it is the copy of, has ever started one.
    pub fn have_been(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// The child is there, or does not come. What was packed may be closed now.
    pub fn end(&self, number: u64) {
        let _critical = Critical::enter();
        let mut current = self.current.lock();
        if current.is_some_and(|birth| birth.number == number) {
            self.replace(&mut current, None);
        }
        thread::ends_to_make();
    }

    /// In the child of a fork: what its parent was about to start is not its own.
    pub fn after_fork(&self) {
        let current = self.current.lock().take();
        if let Some(packed) = current.and_then(|birth| birth.packed) {
            packed.close();
        }
        self.closing.reset();
        self.opening.reset();
    }
}

impl Birth {
    fn is_over(&self) -> bool {
        self.packed.is_some_and(|packed| packed.is_taken())
    }
}

impl Default for Births {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::handover::HAS_CARRIERS;
    use super::super::{Handover, Heir};
    use super::*;
    use crate::sys::inherit::is_inherited;

    fn packed() -> (Handover, Packed) {
        let arena = raw::eventfd().unwrap();
        let made = Handover::new(arena, [0; 4]).unwrap();
        let packed = made.pack(Heir::Child).unwrap();
        raw::close(arena);
        (made, packed)
    }

    #[test]
    fn one_carrier_is_inherited_at_a_time() {
        let _alone = HAS_CARRIERS.lock();
        let births = Births::new();
        let (manifest, first) = packed();
        let (_, second) = packed();
        assert!(!births.have_been() && !is_inherited(first.carrier));
        let number = births.begin();
        births.open(number, first);
        assert!(births.have_been() && is_inherited(first.carrier));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let number = births.begin();
                // It has waited until the first child had taken what is its own.
                assert_eq!(manifest.manifest().taken.load(Ordering::Acquire), 1);
                births.open(number, second);
                number
            });
            manifest.manifest().taken.store(1, Ordering::Release);
            let next = waits.join().unwrap();
            assert!(is_inherited(second.carrier) && !is_inherited(first.carrier));
            births.end(number);
            assert!(births.current.lock().is_some());
            births.end(next);
            assert!(births.current.lock().is_none());
        });
        // A call that is over makes room as well, whether it had packed anything or not.
        births.end(births.begin());
        births.end(births.begin());
        [first, second].into_iter().for_each(Packed::close);
    }

    #[test]
    fn no_descriptor_goes_while_a_child_is_made() {
        let births = Births::new();
        let gone = AtomicBool::new(false);
        let close = || {
            let _closing = births.closing();
            gone.store(true, Ordering::Release);
        };
        let seen = || {
            std::thread::sleep(core::time::Duration::from_millis(20));
            gone.swap(false, Ordering::AcqRel)
        };
        births.keep_all();
        std::thread::scope(|scope| {
            let closer = scope.spawn(close);
            assert!(!seen());
            births.let_close();
            closer.join().unwrap();
            assert!(seen());
        });
        // The thread that makes it may; so may all when it is there, whoever waits for its end.
        let _alone = HAS_CARRIERS.lock();
        let number = births.begin();
        close();
        assert!(seen() && births.none().is_none());
        let (manifest, packed) = packed();
        births.open(number, packed);
        std::thread::scope(|scope| {
            let closer = scope.spawn(close);
            assert!(!seen());
            manifest.manifest().taken.store(1, Ordering::Release);
            assert!(births.none().is_some());
            closer.join().unwrap();
            assert!(seen());
        });
        births.end(number);
        // In a fork no record is made either; otherwise both go on side by side.
        births.before_fork();
        std::thread::scope(|scope| {
            let opener = scope.spawn(|| drop(births.opening()));
            std::thread::sleep(core::time::Duration::from_millis(20));
            assert!(!opener.is_finished());
            drop(births.opening());
            births.forked();
            opener.join().unwrap();
        });
        let both = [births.opening(), births.closing(), births.opening()];
        drop(both);
        // One who does not come back is given up.
        core::mem::forget(births.closing());
        births.keep_all();
        births.let_close();
        assert!(!thread::is_making());
        packed.close();
    }
}
