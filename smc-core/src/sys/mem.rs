//! Memory that processes share: memfds and their mappings.
use super::thread::keep_errno;
use super::{growth, raw};
use crate::errno::Errno;
use libc::c_int;
use memmap2::{MmapOptions, MmapRaw, UncheckedAdvice};

/// Seals of a link group's region: nobody can take memory away from under the other side.
const SEALS: c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// A shared mapping of a whole memfd, for as long as the process lives or until dropped.
#[derive(Debug)]
pub struct Mapping {
    map: MmapRaw,
}

impl Mapping {
    /// Maps the first `len` bytes of the file, shared, readable and writable.
    pub fn of(fd: c_int, len: usize) -> Result<Self, Errno> {
        // A raw mapping: no reference to the bytes is ever made, since another process writes them.
        match MmapOptions::new().len(len).map_raw(fd) {
            Ok(map) => Ok(Self { map }),
            Err(error) => Err(Errno(error.raw_os_error().unwrap_or(libc::ENOMEM))),
        }
    }

    /// First byte.
    #[inline(always)]
    pub fn base(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// Length in bytes.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether it is empty: never.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives the memory of whole pages back; they read as zero then. Whether it could is not told:
    /// it is a matter of thrift.
    pub fn forget(&self, range: core::ops::Range<usize>) {
        let advice = UncheckedAdvice::Remove;
        // SAFETY: requires that no reference to these bytes exists and that they may change: the
        // mapping is raw, and other processes write it at any time. The range is checked inside.
        let forget =
            || unsafe { self.map.unchecked_advise_range(advice, range.start, range.len()) };
        let _ = keep_errno(forget);
    }

    /// A structure of atomics at an offset.
    ///
    /// # Safety
    /// `T` must consist of atomics (or padding) alone, for which every bit pattern is valid.
    pub unsafe fn view<T>(&self, offset: usize) -> Option<&T> {
        let end = offset.checked_add(core::mem::size_of::<T>())?;
        if end > self.len() || !offset.is_multiple_of(core::mem::align_of::<T>()) {
            return None;
        }
        // SAFETY: requires an aligned address inside the mapping, checked above (a mapping starts
        // at a page), and a type that any bytes are valid for: the caller's promise.
        Some(unsafe { &*self.base().add(offset).cast::<T>() })
    }

    /// As [`Self::view`], where a structure is known to be.
    ///
    /// # Safety
    /// As for `view`; `offset` is a multiple of `T`'s alignment and `T` ends within the mapping.
    #[inline(always)]
    pub unsafe fn part<T>(&self, offset: usize) -> &T {
        debug_assert!(offset + core::mem::size_of::<T>() <= self.len());
        debug_assert!(offset.is_multiple_of(core::mem::align_of::<T>()));
        // SAFETY: requires an aligned address inside the mapping, and a type that any bytes are
        // valid for: the caller's promise.
        unsafe { &*self.base().add(offset).cast::<T>() }
    }
}

/// Makes a memfd of a size and seals it against shrinking, growing and further seals.
pub fn sealed_memfd(name: &core::ffi::CStr, len: usize) -> Result<c_int, Errno> {
    let fd = raw::memfd(name)?;
    let done =
        growth::ftruncate(fd, len).and_then(|_| raw::fcntl(fd, libc::F_ADD_SEALS, SEALS as usize));
    match done {
        Ok(_) => Ok(fd),
        Err(errno) => {
            raw::close(fd);
            Err(errno)
        }
    }
}

/// Whether a memfd of somebody else cannot change its size any more, and has the right one.
pub fn is_sealed(fd: c_int, len: usize) -> bool {
    let wanted = (libc::F_SEAL_SHRINK | libc::F_SEAL_GROW) as usize;
    let sealed =
        matches!(raw::fcntl(fd, libc::F_GET_SEALS, 0), Ok(seals) if seals & wanted == wanted);
    sealed && raw::file_size(fd) == Ok(len as u64)
}

/// Whether the system commits memory strictly: then a page may be refused when it is touched, and
/// memory must be allocated beforehand.
pub fn strict_overcommit() -> bool {
    let mut text = [0_u8; 4];
    let Ok(fd) = raw::open_read(c"/proc/sys/vm/overcommit_memory") else { return true };
    let got = raw::read(fd, &mut text);
    raw::close(fd);
    got.is_ok() && text[0] == b'2'
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{raw, sealed_memfd, Mapping};
    use crate::sync::{AtomicU32, Ordering};

    #[test]
    fn what_is_forgotten_reads_as_zero() {
        let len = 64 << 10;
        let fd = sealed_memfd(c"smc-test", len).unwrap();
        let [mine, other] = [(); 2].map(|_| Mapping::of(fd, len).unwrap());
        raw::close(fd);
        let word = |map: &'_ Mapping, at: usize| {
            // SAFETY: requires a type of atomics; it is one.
            unsafe { map.view::<AtomicU32>(at) }.unwrap() as *const AtomicU32
        };
        let at = |map, place| {
            // SAFETY: requires a mapping that lives: both live to the end of the test.
            unsafe { &*word(map, place) }
        };
        for place in [0, 4096, 8192] {
            at(&mine, place).store(7, Ordering::Relaxed);
        }
        mine.forget(4096..8192);
        let seen = [0, 4096, 8192].map(|place| at(&other, place).load(Ordering::Relaxed));
        assert_eq!(seen, [7, 0, 7]);
        // Out of range: nothing happens.
        mine.forget(len..2 * len);
    }
}
