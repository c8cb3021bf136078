//! Threads that do something side by side, and moments at which none of them may.
use super::{fence_after_rmw, AtomicU32, Ordering};

/// See the module's text.
#[derive(Debug)]
pub struct Gate {
    /// Threads that are behind it.
    inside: AtomicU32,
    /// How often it is shut.
    shut: AtomicU32,
}

impl Gate {
    /// An open gate.
    pub fn new() -> Self {
        Self { inside: AtomicU32::new(0), shut: AtomicU32::new(0) }
    }

    /// Goes through if it is open; then [`Self::leave`] follows.
    #[inline]
    pub fn enter(&self) -> bool {
        self.force();
        let open = self.is_open();
        if !open {
            self.leave();
        }
        open
    }

    /// Goes through in any case: for the thread that has shut it.
    #[inline]
    pub fn force(&self) {
        // AcqRel: pairs with that of `open`; what was done while it was shut is seen.
        self.inside.fetch_add(1, Ordering::AcqRel);
        // Pairs with the fence in `shut`: either we see that it is shut, or we are seen inside.
        fence_after_rmw();
    }

    /// Comes back.
    #[inline]
    pub fn leave(&self) {
        // Release: pairs with the Acquire in `is_empty`. One who was given up is not counted.
        let less = |inside: u32| inside.checked_sub(1);
        let _ = self.inside.fetch_update(Ordering::Release, Ordering::Relaxed, less);
    }

    /// Whether it is open.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.shut.load(Ordering::Acquire) == 0
    }

    /// Shuts it, once more: nobody comes in from now on. Those inside are to be waited for.
    pub fn shut(&self) {
        self.shut.fetch_add(1, Ordering::AcqRel);
        // Pairs with the fence in `force`.
        fence_after_rmw();
    }

    /// Whether nobody is inside.
    pub fn is_empty(&self) -> bool {
        self.inside.load(Ordering::Acquire) == 0
    }

    /// Those inside have not come back for so long that they will not.
    pub fn give_up(&self) {
        self.inside.store(0, Ordering::Relaxed);
    }

    /// Takes one [`Self::shut`] back.
    pub fn open(&self) {
        // AcqRel: pairs with that of `force`.
        self.shut.fetch_sub(1, Ordering::AcqRel);
    }

    /// In the child of a fork, which has one thread: it is open, and nobody is inside.
    pub fn reset(&self) {
        self.give_up();
        self.shut.store(0, Ordering::Relaxed);
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}
