//! Fences.
use super::{fence, Ordering};

/// A full fence: no earlier store is seen after a later load.
///
/// Only this keeps the two sides of a sleep from missing each other (`ring::doorbell`).
#[inline(always)]
pub fn full_fence() {
    fence(Ordering::SeqCst);
}

/// A full fence that follows a read-modify-write operation directly.
///
/// On x86-64 such an operation is a full barrier already, so that only the compiler must be held
/// back; the language's memory model (and so loom) knows no such thing and gets the real fence.
#[inline(always)]
pub fn fence_after_rmw() {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    fence(Ordering::SeqCst);
}
