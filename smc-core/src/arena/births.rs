//! Children that are being started as other programs, one after the other.
//!
//! A child inherits every carrier that is open when the kernel copies the descriptors, and cannot tell
//! which of two was meant for it. So only one of a process is open to inheritance at a time: until the
//! call that starts the child is over or, where that waits for the child's end (`system`), until the
//! new image has taken what was left for it.
use super::Packed;
use crate::sync::{AtomicBool, Ordering};
use crate::sys::lock::Lock;
use crate::sys::raw;
use crate::sys::thread::Critical;

/// A child that has not begun by then is not waited for.
const PATIENCE_NS: u64 = 1_000_000_000;

/// See the module's text.
#[derive(Debug)]
pub struct Births {
    /// The one that is under way. Held over a fork, whose child is to know what it has inherited, and
    /// by whoever corrects a count of holders: no process comes to hold a connection meanwhile.
    pub current: Lock<Option<Birth>>,
    /// There has been one.
    any: AtomicBool,
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
        Self { current: Lock::new(None), any: AtomicBool::new(false) }
    }

    /// Before anything is made for a child: waits for its turn. What it is named by in the calls below.
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
                earlier => {
                    if let Some(packed) = earlier.and_then(|birth| birth.packed) {
                        packed.let_inherit(false);
                    }
                    let number = raw::monotonic_ns();
                    *current = Some(Birth { number, packed: None });
                    return number;
                }
            }
            drop(current);
            drop(critical);
            raw::yield_now();
        }
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
            *current = None;
        }
    }

    /// In the child of a fork: what its parent was about to start is not its own.
    pub fn after_fork(&self) {
        let current = self.current.lock().take();
        if let Some(packed) = current.and_then(|birth| birth.packed) {
            packed.close();
        }
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
}
