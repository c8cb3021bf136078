//! Copies between a program's buffers and shared memory that survive a bad address.
//!
//! The kernel answers EFAULT to a call with a bad buffer; a copy of ours must not crash instead.
//! On x86-64 all bytes go through one leaf routine, and the handler of SIGSEGV and SIGBUS asks
//! [`fixup`] whether the fault was in it: if so it resumes at the landing, from where the routine
//! returns an error to its caller. Elsewhere the copy is a plain one.
use core::marker::PhantomData;

#[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
#[path = "copy_x86_64.rs"]
mod imp;
#[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
#[path = "copy_plain.rs"]
mod imp;

/// An address that could not be read or written: EFAULT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad address")]
pub struct Fault;

/// Bytes of the program to read from; the memory need not be there.
#[derive(Clone, Copy, Debug)]
pub struct InBuf<'a> {
    ptr: *const u8,
    len: usize,
    life: PhantomData<&'a [u8]>,
}

/// Bytes of the program to write to; the memory need not be there.
#[derive(Debug)]
pub struct OutBuf<'a> {
    ptr: *mut u8,
    len: usize,
    life: PhantomData<&'a mut [u8]>,
}

impl<'a> InBuf<'a> {
    /// `len` bytes from `ptr` on.
    ///
    /// # Safety
    /// For `'a`, whatever is mapped in that range may be read by the caller: it is a buffer that a
    /// program passed to a system call. Nothing need be mapped there where [`fixup`] is in use.
    #[inline(always)]
    pub const unsafe fn new(ptr: *const u8, len: usize) -> Self {
        Self { ptr, len, life: PhantomData }
    }

    /// The first `n` bytes, or all.
    #[inline(always)]
    #[must_use]
    pub fn first(self, n: usize) -> Self {
        Self { len: self.len.min(n), ..self }
    }

    /// All but the first `n` bytes.
    #[inline(always)]
    #[must_use]
    pub fn skip(self, n: usize) -> Self {
        let n = n.min(self.len);
        Self { ptr: self.ptr.wrapping_add(n), len: self.len - n, ..self }
    }

    /// Bytes.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// No bytes.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first byte's address.
    #[inline(always)]
    pub const fn as_ptr(&self) -> *const u8 {
        self.ptr
    }
}

impl<'a> From<&'a [u8]> for InBuf<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { ptr: bytes.as_ptr(), len: bytes.len(), life: PhantomData }
    }
}

impl<'a> OutBuf<'a> {
    /// `len` bytes from `ptr` on.
    ///
    /// # Safety
    /// For `'a`, whatever is mapped in that range may be written by the caller: it is a buffer that
    /// a program passed to a system call. Nothing need be mapped there where [`fixup`] is in use.
    #[inline(always)]
    pub const unsafe fn new(ptr: *mut u8, len: usize) -> Self {
        Self { ptr, len, life: PhantomData }
    }

    /// The same bytes for a shorter time.
    #[inline(always)]
    pub fn reborrow(&mut self) -> OutBuf<'_> {
        OutBuf { ptr: self.ptr, len: self.len, life: PhantomData }
    }

    /// The first `n` bytes, or all.
    #[inline(always)]
    #[must_use]
    pub fn first(self, n: usize) -> Self {
        Self { len: self.len.min(n), ..self }
    }

    /// All but the first `n` bytes.
    #[inline(always)]
    #[must_use]
    pub fn skip(self, n: usize) -> Self {
        let n = n.min(self.len);
        Self { ptr: self.ptr.wrapping_add(n), len: self.len - n, ..self }
    }

    /// Bytes.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// No bytes.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first byte's address.
    #[inline(always)]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.ptr
    }
}

impl<'a> From<&'a mut [u8]> for OutBuf<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        Self { ptr: bytes.as_mut_ptr(), len: bytes.len(), life: PhantomData }
    }
}

/// Copies all of `src` into shared memory.
///
/// After a [`Fault`] any part of the target may have been written.
///
/// # Safety
/// `dst` is shared memory of at least `src.len()` bytes, to which no reference exists.
#[inline(always)]
pub unsafe fn copy_in(dst: *mut u8, src: InBuf<'_>) -> Result<(), Fault> {
    // SAFETY: requires a target of that length without references: the caller's promise. The
    // source is readable or faults: InBuf's.
    unsafe { imp::copy(dst, src.ptr, src.len) }
}

/// Fills all of `dst` from shared memory.
///
/// After a [`Fault`] any part of the target may have been written.
///
/// # Safety
/// `src` is shared memory of at least `dst.len()` bytes, to which no reference exists.
#[inline(always)]
pub unsafe fn copy_out(dst: OutBuf<'_>, src: *const u8) -> Result<(), Fault> {
    // SAFETY: requires a source of that length without references: the caller's promise. The
    // target is writable or faults: OutBuf's.
    unsafe { imp::copy(dst.ptr, src, dst.len) }
}

/// Where to resume a thread that faulted at `rip`, if that is in the copy routine.
#[inline]
pub fn fixup(rip: usize) -> Option<usize> {
    imp::fixup(rip)
}
