//! Time without a system call: the processor's time stamp counter, measured against
//! CLOCK_MONOTONIC once the process is some milliseconds old.
use super::raw;
use crate::sync::{AtomicU64, Ordering};

static START_TICKS: AtomicU64 = AtomicU64::new(0);
static START_NS: AtomicU64 = AtomicU64::new(0);
/// Ticks in a microsecond; a guess until [`calibrate`] has run.
static TICKS_PER_US: AtomicU64 = AtomicU64::new(2_400);

/// The counter: a few nanoseconds to read, not serialising.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: requires a processor with a time stamp counter: every x86-64 one.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    raw::monotonic_ns()
}

/// Ticks in a unit of [`short`], as a power of two.
const SHORT: u32 = 5;

/// A moment in 32 bits: some nanoseconds apart, unique for seconds.
#[inline(always)]
pub fn short(ticks: u64) -> u32 {
    #[allow(clippy::cast_possible_truncation)] // the high bits are what it does without
    {
        (ticks >> SHORT) as u32
    }
}

/// The moment next to `now` that a [`short`] one means.
#[inline(always)]
pub fn long(short_form: u32, now: u64) -> u64 {
    let ahead = short_form.wrapping_sub(short(now)).cast_signed();
    now.saturating_add_signed(i64::from(ahead) << SHORT)
}

/// A duration in ticks.
#[inline]
pub fn us_to_ticks(us: u64) -> u64 {
    // Relaxed: a number on its own.
    us.saturating_mul(TICKS_PER_US.load(Ordering::Relaxed))
}

/// Notes the start of the process.
pub fn start() {
    START_TICKS.store(ticks(), Ordering::Relaxed);
    START_NS.store(raw::monotonic_ns(), Ordering::Relaxed);
}

/// Measures the counter against the clock; called where a thread is about to sleep anyway.
pub fn calibrate() {
    let ns = raw::monotonic_ns().wrapping_sub(START_NS.load(Ordering::Relaxed));
    if ns < 5_000_000 {
        return;
    }
    let passed = ticks().wrapping_sub(START_TICKS.load(Ordering::Relaxed));
    let rate = passed / (ns / 1_000).max(1);
    if rate > 0 {
        TICKS_PER_US.store(rate, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{long, short, SHORT};

    #[test]
    fn a_short_moment_is_found_again() {
        let now = 123_456_789_012_345;
        for distance in [-(1_i64 << 35), -1000, -(1 << SHORT), 0, 1 << SHORT, 1000, 1 << 35] {
            let then = now + (distance >> SHORT << SHORT);
            let found = long(short(then.cast_unsigned()), now.cast_unsigned());
            assert_eq!(found.cast_signed(), then, "{distance}");
        }
    }
}
