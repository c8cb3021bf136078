//! The reader's word that none of its waits overlooks the ring.

/// Whether a side may tell its peer that it can switch.
///
/// Consent may be given only while no thread waits in the kernel for TCP alone; once it is given,
/// no thread may start to. It is never taken back. A thread that is killed within such a wait is
/// counted for ever: the connection stays on TCP, which is slow but right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConsentGate {
    /// Threads that wait for TCP alone.
    pub inside: u32,
    /// Consent was given.
    pub given: bool,
}

/// How a thread must wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// In the kernel for TCP; [`ConsentGate::leave`] must follow.
    Kernel,
    /// For TCP and the ring.
    RingAware,
}

impl ConsentGate {
    /// A thread is about to wait.
    pub fn enter(&mut self) -> Wait {
        if self.given {
            Wait::RingAware
        } else {
            self.inside = self.inside.saturating_add(1);
            Wait::Kernel
        }
    }

    /// A thread has waited as it was told.
    pub fn leave(&mut self, wait: Wait) {
        if wait == Wait::Kernel {
            self.inside = self.inside.saturating_sub(1);
        }
    }

    /// Gives consent if that is possible; returns whether it stands. `waits_seen`: the program
    /// waits only in ways that can be made to look at the ring.
    pub fn give(&mut self, waits_seen: bool) -> bool {
        self.given = self.given || (waits_seen && self.inside == 0);
        self.given
    }
}

#[cfg(test)]
mod tests {
    use super::{ConsentGate, Wait};

    #[test]
    fn consent_waits_for_the_last_thread_in_the_kernel() {
        let mut gate = ConsentGate::default();
        let waits = [gate.enter(), gate.enter()];
        assert_eq!(waits, [Wait::Kernel, Wait::Kernel]);
        assert!(!gate.give(true));
        gate.leave(waits[0]);
        assert!(!gate.give(true));
        gate.leave(waits[1]);
        assert!(gate.give(true));
        assert_eq!(gate.enter(), Wait::RingAware);
        gate.leave(Wait::RingAware);
        assert!(gate.give(false), "never taken back");
        assert_eq!(gate.inside, 0);
    }

    #[test]
    fn unseen_waits_never_consent() {
        assert!(!ConsentGate::default().give(false));
    }
}
