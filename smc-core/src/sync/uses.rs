//! Who uses a record of this process: the numbers it has, and the calls that hold it.
use super::{fence_after_rmw, AtomicU64, Ordering};

/// The numbers, the calls, and the descriptor that stands in for a number that has gone under a call:
/// one word, so that of all who leave exactly one is the last, and one closes the stand-in.
///
/// The record goes back when numbers and calls are gone. Whoever takes a number away takes its entry
/// out of the table of numbers first; whoever holds a record looks at the entry afterwards. So of a
/// call and a close that meet, one sees the other.
#[derive(Debug)]
pub struct Uses(AtomicU64);

const CALLS: u32 = 16;
const STAND_IN: u32 = 32;
/// More than a program has threads.
const MOST: u64 = 1 << 15;

/// What is left of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its numbers.
    pub numbers: u64,
    /// The calls that hold it.
    pub calls: u64,
    /// The descriptor that stands in for a number, or 0.
    pub stand_in: u64,
}

impl Left {
    const fn of(word: u64) -> Self {
        let low = (1 << CALLS) - 1;
        Self { numbers: word & low, calls: (word >> CALLS) & low, stand_in: word >> STAND_IN }
    }

    /// Neither numbers nor calls.
    pub const fn is_nothing(self) -> bool {
        self.numbers == 0 && self.calls == 0
    }

    const fn word(self) -> u64 {
        self.numbers | self.calls << CALLS | self.stand_in << STAND_IN
    }
}

impl Uses {
    /// Of a record that nobody has.
    #[cfg(not(loom))]
    pub const fn none() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The same, where no static can hold it.
    #[cfg(loom)]
    pub fn none() -> Self {
        Self(AtomicU64::new(0))
    }

    /// What there is now.
    #[inline]
    pub fn left(&self) -> Left {
        // Acquire: pairs with the exchange of `one_less`; the stand-in is open.
        Left::of(self.0.load(Ordering::Acquire))
    }

    /// A record is new: it has one number.
    pub fn is_new(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    /// It has one number more.
    pub fn one_more(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// A call holds it from here on, and looks then whether the number that it was made with is
    /// still the record's. False: nobody has it any more.
    #[inline]
    pub fn hold(&self) -> bool {
        let more = |now| {
            let left = Left::of(now);
            let lives = left.numbers > 0 || left.stand_in > 0;
            (lives && left.calls < MOST).then_some(now + (1 << CALLS))
        };
        // AcqRel: pairs with that of `one_less`.
        let held = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok();
        // Pairs with the fence in `one_less`.
        fence_after_rmw();
        held
    }

    /// Such a call is over; what is left, and the stand-in if it is to be closed: by the last call.
    /// `None`: it is not known to hold the record. A handler that interrupted it has forked, and the
    /// child knows of no calls, or the record went without it.
    #[inline]
    pub fn let_go(&self) -> Option<Left> {
        let mut before = self.0.load(Ordering::Relaxed);
        loop {
            let mut left = Left::of(before);
            left.calls = left.calls.checked_sub(1)?;
            let kept = if left.calls == 0 { 0 } else { left.stand_in };
            left.stand_in -= kept;
            let next = Left { stand_in: kept, ..left }.word();
            // AcqRel: pairs with that of `one_less`: what the last one ends, all others have left.
            match self.0.compare_exchange(before, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(left),
                Err(now) => before = now,
            }
        }
    }

    /// A number has been taken out of the table; what is left. Where calls hold the record, and
    /// nothing stands in for a number yet, `make` makes what does, 0 if that cannot be. The second
    /// value is a stand-in that was made in vain. Without one the calls are forgotten when the last
    /// number goes: there is no descriptor left.
    pub fn one_less(&self, make: impl Fn() -> u32) -> (Left, Option<u32>) {
        // Pairs with the fence in `hold`: the entry was taken out by an exchange.
        fence_after_rmw();
        let mut made = None;
        let mut before = self.0.load(Ordering::Acquire);
        loop {
            let mut left = Left::of(before);
            let lacks = left.calls > 0 && left.stand_in == 0;
            left.numbers = left.numbers.saturating_sub(1);
            if lacks {
                left.stand_in = u64::from(*made.get_or_insert_with(&make));
            }
            if left.numbers == 0 && left.stand_in == 0 {
                left.calls = 0;
            }
            // AcqRel: of several threads one is the last.
            let next = left.word();
            match self.0.compare_exchange(before, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return (left, made.filter(|made| !lacks && *made != 0)),
                Err(now) => before = now,
            }
        }
    }

    /// The child of a fork has the numbers, but not the threads that were inside a call. The stand-in
    /// that it has for those, or 0.
    pub fn after_fork(&self) -> u64 {
        let left = self.left();
        self.0.store(left.numbers, Ordering::Relaxed);
        left.stand_in
    }
}
