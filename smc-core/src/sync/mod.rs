//! Atomics, fences, the gate, who uses a record, and the lock that both sides of a `fork` share.
//!
//! Everything above takes its atomics from here, never from `core::sync::atomic`: under
//! `--cfg loom` the same names are loom's, so that the ring and the sleep/wake protocol are
//! model-checked as they stand.
mod fence;
mod gate;
mod lock;
mod pad;
mod uses;

#[cfg(loom)]
pub use loom::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};

#[cfg(not(loom))]
pub use core::sync::atomic::{
    compiler_fence, fence, AtomicBool, AtomicI32, AtomicPtr, AtomicU16, AtomicU32, AtomicU64,
    AtomicU8, AtomicUsize, Ordering,
};

pub use fence::{fence_after_rmw, full_fence};
pub use gate::Gate;
pub use lock::{LockGuard, RawLock};
pub use pad::Pad128;
pub use uses::{Left, Uses};

/// A hint to the processor that this is a spin loop.
#[inline(always)]
pub fn pause() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    core::hint::spin_loop();
}
