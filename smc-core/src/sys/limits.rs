//! What the process may use.
use super::raw;

/// How many descriptors.
pub fn descriptors() -> usize {
    let limit = raw::soft_limit(libc::RLIMIT_NOFILE);
    limit.map_or(1024, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Whether there is a limit of address space.
pub fn has_memory_limit() -> bool {
    raw::soft_limit(libc::RLIMIT_AS) != Ok(libc::RLIM_INFINITY)
}
