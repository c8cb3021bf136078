//! The reader's word that none of its waits overlooks the ring.

/// Whether a side may tell its peer that it can switch.
///
/// Consent may be given only while no thread waits in the kernel for TCP alone; once it is given,
/// no thread may start to. Nobody locks for that: each side of the race first says what it is up
/// to, then looks at what the other says. A thread enters, then asks how to wait; who consents
/// raises the word, then settles whether it stands. Of two that do so at once at least one sees
/// the other. A word that stands is never taken back.
///
/// Both fields are words of their own that any thread reads; a value of this type is what was read
/// of them. A thread that is killed within a wait is counted for ever: the connection stays on
/// TCP, which is slow but right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConsentGate {
    /// Threads that wait for TCP alone, or are about to.
    pub inside: u32,
    /// Consent was raised.
    pub raised: bool,
}

/// How a thread must wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// In the kernel for TCP, inside.
    Kernel,
    /// For TCP and the ring, not inside.
    RingAware,
}

impl ConsentGate {
    /// How a thread that has entered must wait.
    pub const fn wait(self) -> Wait {
        if self.raised {
            Wait::RingAware
        } else {
            Wait::Kernel
        }
    }

    /// Whether consent should be raised. `waits_seen`: the program waits only in ways that can be
    /// made to look at the ring.
    pub const fn may_raise(self, attached: bool, waits_seen: bool) -> bool {
        attached && waits_seen && !self.raised
    }

    /// Whether the word that was just raised stands; if not, it must be lowered.
    pub const fn stands(self) -> bool {
        self.raised && self.inside == 0
    }
}

#[cfg(test)]
mod tests {
    use super::{ConsentGate, Wait};

    #[test]
    fn consent_waits_for_the_last_thread_in_the_kernel() {
        for inside in 0..3 {
            let before = ConsentGate { inside, raised: false };
            assert!(before.may_raise(true, true));
            assert!(!before.stands());
            assert_eq!(before.wait(), Wait::Kernel);
            let raised = ConsentGate { raised: true, ..before };
            assert_eq!(raised.stands(), inside == 0);
            assert_eq!(raised.wait(), Wait::RingAware);
            assert!(!raised.may_raise(true, true), "once");
        }
    }

    #[test]
    fn unseen_waits_never_consent() {
        assert!(!ConsentGate::default().may_raise(true, false));
        assert!(!ConsentGate::default().may_raise(false, true));
    }
}
