//! Dispositions of SIGSEGV and SIGBUS: a bad pointer in a call on a ring must be EFAULT, so a handler
//! of ours stands in front of the program's, which sees its own all the same.
use crate::init;
use crate::symbols::real;
use libc::c_int;
use smc_core::sys::signals;

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    if init::on() {
        // SAFETY: the program's own call with its own arguments, whose contract it keeps.
        let done = unsafe { signals::hooked_sigaction(real::sigaction, signal, new, old) };
        if let Some(done) = done {
            return done;
        }
    }
    // SAFETY: as above.
    unsafe { real::sigaction(signal, new, old) }
}

/// glibc's `signal` (a handler is a word here): BSD semantics, as `sigaction` with SA_RESTART.
#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn signal(signal: c_int, handler: isize) -> isize {
    if !init::on() || !matches!(signal, libc::SIGSEGV | libc::SIGBUS) {
        // SAFETY: the program's own call.
        return unsafe { real::signal(signal, handler) };
    }
    // SAFETY: requires an all-zero `sigaction` to be valid: integers and an empty set.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = handler.cast_unsigned();
    new.sa_flags = libc::SA_RESTART;
    let mut old = new;
    // SAFETY: both are valid.
    match unsafe { signals::hooked_sigaction(real::sigaction, signal, &new, &mut old) } {
        Some(0) => old.sa_sigaction.cast_signed(),
        Some(_) => libc::SIG_ERR.cast_signed(),
        // SAFETY: the program's own call.
        None => unsafe { real::signal(signal, handler) },
    }
}
