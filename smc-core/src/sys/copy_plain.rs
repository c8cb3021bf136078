//! The copy where no fault can be caught.
use super::Fault;

#[inline(always)]
pub(super) unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) -> Result<(), Fault> {
    // SAFETY: requires two ranges that are valid and do not overlap: the caller's promise.
    unsafe { core::ptr::copy_nonoverlapping(src, dst, len) };
    Ok(())
}

#[inline]
pub(super) fn fixup(_rip: usize) -> Option<usize> {
    None
}
