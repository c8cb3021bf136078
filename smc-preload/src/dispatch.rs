//! From a C call to the engine and back.
use libc::c_int;
use smc_core::engine::{self, Ret};

pub(crate) use smc_core::engine::tracked;

/// Stores an error number where C looks for it.
pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: libc returns the address of the calling thread's errno.
    unsafe { *libc::__errno_location() = errno };
}

/// The calling thread's error number.
pub(crate) fn errno() -> c_int {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}

extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// PTHREAD_CANCEL_DISABLE
const DISABLE: c_int = 1;

/// Makes a call that is no cancellation point in libc, although what it is made of here is: a cancel
/// that comes meanwhile waits for the thread's next one.
#[inline(always)]
pub(crate) fn uncancelled<T>(call: impl FnOnce() -> T) -> T {
    let mut old = 0;
    // SAFETY: the word lives here.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut old) };
    let result = call();
    // SAFETY: no old state is wanted.
    unsafe { pthread_setcancelstate(old, std::ptr::null_mut()) };
    result
}

/// The C form of the engine's answer.
#[inline(always)]
pub(crate) fn ret<T: FromWord>(answer: Ret) -> T {
    match answer {
        Ok(word) => T::from_word(word),
        Err(error) => {
            set_errno(error.0);
            T::from_word(-1)
        }
    }
}

/// Integer types that hooks return.
pub(crate) trait FromWord {
    /// The value, which fits by the contract of the function.
    fn from_word(word: isize) -> Self;
}

impl FromWord for c_int {
    #[inline(always)]
    fn from_word(word: isize) -> Self {
        word as Self
    }
}

impl FromWord for isize {
    #[inline(always)]
    fn from_word(word: isize) -> Self {
        word
    }
}

/// A new descriptor came to life by `fd`, or a call that should have made one failed (negative).
#[inline(always)]
pub(crate) fn born(fd: c_int) {
    if fd >= 0 && tracked(fd) {
        born_over_old(fd);
    }
}

/// The number was known: it has been closed behind our back.
#[cold]
fn born_over_old(fd: c_int) {
    if !crate::process::borrowed_memory() {
        engine::fd_born(fd);
    }
}

/// Two descriptors that a call has stored.
///
/// # Safety
/// `fds` is null or points to two integers.
#[inline]
pub(crate) unsafe fn born_pair(fds: *const c_int) {
    // SAFETY: the kernel has just written both.
    let [a, b] = unsafe { *fds.cast::<[c_int; 2]>() };
    born(a);
    born(b);
}

/// Defines a hook: the symbol, the condition under which the engine is asked, and what is asked.
///
/// `real` (the name is the caller's choice) is a closure that makes the real call. Ours is a
/// function of its own, so that the way to the real function has no stack frame: it is a tail jump.
macro_rules! hook {
    ($($(#[$doc:meta])*
       fn $name:ident($($arg:ident : $type:ty),*) -> $ret:ty,
       if $ours:expr => |$real:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        #[no_mangle]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $ret {
            #[inline(never)]
            unsafe extern "C-unwind" fn ours($($arg: $type),*) -> $ret {
                // SAFETY: the program's own call with its own arguments, whose contract it keeps.
                let $real = move || unsafe { $crate::symbols::real::$name($($arg),*) as isize };
                $body
            }
            // SAFETY: as above.
            unsafe {
                if $ours {
                    ours($($arg),*)
                } else {
                    $crate::symbols::real::$name($($arg),*)
                }
            }
        }
    )*};
}
pub(crate) use hook;
