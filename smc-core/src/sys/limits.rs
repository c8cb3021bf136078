//! What the process may use.
use super::raw;
use crate::errno::Errno;
use libc::c_int;

/// How many descriptors.
pub fn descriptors() -> usize {
    let limit = raw::soft_limit(libc::RLIMIT_NOFILE);
    limit.map_or(1024, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Whether there is a limit of address space.
pub fn has_memory_limit() -> bool {
    raw::soft_limit(libc::RLIMIT_AS) != Ok(libc::RLIM_INFINITY)
}

/// Whether files may not grow without end.
pub fn has_file_limit() -> bool {
    raw::soft_limit(libc::RLIMIT_FSIZE) != Ok(libc::RLIM_INFINITY)
}

/// `ftruncate`. Past the limit of file sizes, which holds for memory files too, the kernel would send a
/// signal that ends the program.
pub fn ftruncate(fd: c_int, len: usize) -> Result<(), Errno> {
    if len as u64 > raw::soft_limit(libc::RLIMIT_FSIZE).unwrap_or(0) {
        return Err(Errno(libc::EFBIG));
    }
    raw::ftruncate(fd, len).map(|_| ())
}
