//! What a function does before the constructor has found the real one.
//!
//! Constructors of other libraries, and allocators in their first breath, call hooks before our
//! constructor runs. Simple functions then go to the kernel at once; the others look the one real
//! function up. Neither allocates.
use crate::dispatch::set_errno;
use libc::{c_int, c_long, c_void};
use std::panic::catch_unwind;

/// A system call with libc's way to report failure.
///
/// # Safety
/// As the system call itself.
pub(crate) unsafe fn sys(number: c_long, args: &[usize]) -> isize {
    let mut words = [0_usize; 6];
    for (word, arg) in words.iter_mut().zip(args) {
        *word = *arg;
    }
    let [a, b, c, d, e, f] = words;
    // SAFETY: the caller vouches for the call.
    let ret = unsafe { syscalls::raw::syscall6(number as usize, a, b, c, d, e, f) } as isize;
    if (-4095..0).contains(&ret) {
        set_errno(-ret as c_int);
        return -1;
    }
    ret
}

/// The real function behind a symbol, or null; `name` ends with a zero byte.
///
/// `redhook::ld_preload::dlsym_next` panics where libc lacks the symbol. That is no reason for a
/// program to die (an older libc has no `epoll_pwait2`), so the panic ends here; nothing inside
/// can block or be cancelled.
pub(crate) fn find(name: &'static str) -> *mut c_void {
    // SAFETY: the name is a zero-terminated string constant, written by the symbol table.
    catch_unwind(|| unsafe { redhook::ld_preload::dlsym_next(name) })
        .map_or(std::ptr::null_mut(), |found| found.cast_mut().cast())
}

/// What a function returns that this libc does not have.
pub(crate) trait Missing {
    /// The failure value; `errno` becomes ENOSYS.
    fn missing() -> Self;
}

impl Missing for c_int {
    fn missing() -> Self {
        set_errno(libc::ENOSYS);
        -1
    }
}

impl Missing for () {
    fn missing() -> Self {}
}

impl Missing for isize {
    fn missing() -> Self {
        set_errno(libc::ENOSYS);
        -1
    }
}

impl<T> Missing for *mut T {
    fn missing() -> Self {
        set_errno(libc::ENOSYS);
        std::ptr::null_mut()
    }
}
