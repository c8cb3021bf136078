//! Padding against false sharing.

/// A value alone on 128 bytes: two cache lines, since x86-64 processors prefetch lines in pairs.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Pad128<T>(pub T);
