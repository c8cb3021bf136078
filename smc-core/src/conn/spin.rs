//! Looking again and again before a sleep, where that has lately paid off.
//!
//! Waking an idle processor costs some 50 us, a look at the ring 0.2; with the peer on the same
//! processor a yield costs half of a sleep. But where others want the processor too, a yield gives it
//! away for a whole slice of theirs, milliseconds, while a thread that sleeps is scheduled soon after
//! its wake-up: then nobody spins for a while.
use crate::process::Process;
use crate::sync::{pause, AtomicU32, AtomicU64, Ordering};
use crate::sys::{clock, raw};

/// Longest adaptive spin: twice the cost of waking an idle processor. The answer of a peer that had to be
/// woken comes within it; after a shorter one both ends would go on to sleep and wake each other.
const SPIN_US: u64 = 100;
/// Time between two yields of a spinning thread.
const YIELD_US: u64 = 2;
/// Yields of a thread that has its processor to share with the peer.
const YIELDS: u32 = 24;

/// A thread that was away for so long has been waiting for its processor.
const AWAY_US: u64 = 300;
/// Time without spins after that; doubled each time, up to so often.
const PAUSE_US: u64 = 1_000;
const LEVEL_MAX: u32 = 6;
/// Spins in a row from which the thread was not away, after which the time is halved.
const CALM: u32 = 16;

/// Whether threads of this process wait for processors. Relaxed everywhere: a heuristic.
#[derive(Debug)]
struct Crowd {
    /// Ticks until when nobody spins.
    until: AtomicU64,
    level: AtomicU32,
    calm: AtomicU32,
}

static CROWD: Crowd =
    Crowd { until: AtomicU64::new(0), level: AtomicU32::new(0), calm: AtomicU32::new(0) };

impl Crowd {
    fn is_quiet(&self) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        // The counter may have wrapped, or be another processor's.
        until != 0 && until.wrapping_sub(clock::ticks()).cast_signed() > 0
    }

    /// A thread that looked or yielded was away.
    #[cold]
    fn was_away(&self) {
        let level = self.level.load(Ordering::Relaxed);
        let pause = clock::us_to_ticks(PAUSE_US << level);
        self.until.store(clock::ticks().wrapping_add(pause).max(1), Ordering::Relaxed);
        self.level.store((level + 1).min(LEVEL_MAX), Ordering::Relaxed);
        self.calm.store(0, Ordering::Relaxed);
    }

    fn was_here(&self) {
        if self.level.load(Ordering::Relaxed) == 0 {
            return;
        }
        let calm = self.calm.load(Ordering::Relaxed) + 1;
        if calm >= CALM {
            let level = self.level.load(Ordering::Relaxed);
            self.level.store(level.saturating_sub(1), Ordering::Relaxed);
        }
        self.calm.store(calm % CALM, Ordering::Relaxed);
    }
}

/// Whether spinning pays: a score that rises when a spin ended with news and falls when not.
#[derive(Debug, Default)]
pub(crate) struct Spin(AtomicU32);

const SCORE_MAX: u32 = 16;
const SCORE_START: u32 = 4;
const SCORE: u32 = 0xff;

/// How a spin went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spun {
    won: bool,
    away: bool,
}

impl Spin {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(SCORE_START))
    }

    /// Looks again and again, for a bounded time; true: `ready` said so.
    pub(crate) fn run(&self, process: &Process, mut ready: impl FnMut() -> bool) -> bool {
        let (budget_us, forced) = match process.config.spin_us {
            Some(us) => (u64::from(us), true),
            None => (SPIN_US, false),
        };
        // Relaxed: a heuristic.
        let word = self.0.load(Ordering::Relaxed);
        let score = word & SCORE;
        if budget_us == 0 || (!forced && CROWD.is_quiet()) {
            return false;
        }
        if !forced && score == 0 && word >> 8 & 31 != 31 {
            // It has not paid lately: try again now and then.
            self.0.store(word.wrapping_add(0x100), Ordering::Relaxed);
            return false;
        }
        let alone = process.cpus.load(Ordering::Relaxed) <= 1;
        let spun = if alone && !forced {
            yields(&mut ready)
        } else {
            // Whoever has set the time wants all of it.
            spin(budget_us, !forced, &mut ready)
        };
        if spun.away {
            CROWD.was_away();
        } else {
            CROWD.was_here();
        }
        let next = if spun.won { (score + 2).min(SCORE_MAX) } else { score.saturating_sub(1) };
        self.0.store(next, Ordering::Relaxed);
        if spun.won {
            process.page().spins.fetch_add(1, Ordering::Relaxed);
        }
        spun.won
    }
}

/// Gives the processor to the peer, which shares it, and looks when it is back.
fn yields(ready: &mut impl FnMut() -> bool) -> Spun {
    let long = clock::us_to_ticks(AWAY_US);
    let mut before = clock::ticks();
    for _ in 0..YIELDS {
        raw::yield_now();
        let now = clock::ticks();
        let away = now.wrapping_sub(before) > long;
        let won = ready();
        if won || away {
            return Spun { won, away };
        }
        before = now;
    }
    Spun { won: false, away: false }
}

fn spin(budget_us: u64, until_away: bool, ready: &mut impl FnMut() -> bool) -> Spun {
    let start = clock::ticks();
    let end = clock::us_to_ticks(budget_us);
    let step = clock::us_to_ticks(YIELD_US);
    let long = clock::us_to_ticks(AWAY_US);
    let mut next_yield = step;
    let mut before = 0;
    loop {
        for _ in 0..16 {
            if ready() {
                let passed = clock::ticks().wrapping_sub(start);
                return Spun { won: true, away: passed.wrapping_sub(before) > long };
            }
            pause();
        }
        let mut passed = clock::ticks().wrapping_sub(start);
        if passed < end && passed >= next_yield {
            // Somebody else may need this processor, perhaps the very peer.
            raw::yield_now();
            passed = clock::ticks().wrapping_sub(start);
            next_yield = passed + step;
        }
        let away = passed.wrapping_sub(before) > long;
        if passed >= end || (away && until_away) {
            return Spun { won: ready(), away };
        }
        before = passed;
    }
}
