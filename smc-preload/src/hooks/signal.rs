//! Dispositions of signals: a handler of ours stands in front of the program's, which sees its own
//! all the same. So every function that sets one goes by the hooked `sigaction`.
use crate::dispatch::set_errno;
use crate::init;
use crate::process::borrowed_memory;
use crate::symbols::real;
use libc::c_int;
use smc_core::sync::{AtomicU64, Ordering};
use smc_core::sys::signals;

/// Signals whose handlers, set by `signal`, interrupt calls for good: bit n - 1 for signal n.
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    if init::on() {
        // SAFETY: the program's own call with its own arguments, whose contract it keeps.
        let done = unsafe {
            signals::hooked_sigaction(real::sigaction, signal, new, old, borrowed_memory)
        };
        if let Some(done) = done {
            return done;
        }
    }
    // SAFETY: as above.
    unsafe { real::sigaction(signal, new, old) }
}

/// Sets a handler and gives the old one, as the old functions do.
fn replace(signal: c_int, handler: isize, flags: c_int, masks_itself: bool) -> isize {
    let invalid = libc::SIG_ERR.cast_signed();
    if handler == invalid {
        set_errno(libc::EINVAL);
        return invalid;
    }
    // SAFETY: requires an all-zero `sigaction` to be valid: integers and an empty set.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = handler.cast_unsigned();
    new.sa_flags = flags;
    if masks_itself {
        // SAFETY: the set is valid; a number that is none changes nothing, and is refused below.
        unsafe { libc::sigaddset(&raw mut new.sa_mask, signal) };
    }
    let mut old = new;
    // SAFETY: both are valid.
    match unsafe { sigaction(signal, &raw const new, &raw mut old) } {
        0 => old.sa_sigaction.cast_signed(),
        _ => invalid,
    }
}

fn bit(signal: c_int) -> u64 {
    u32::try_from(signal).ok().and_then(|n| 1_u64.checked_shl(n.wrapping_sub(1))).unwrap_or(0)
}

/// glibc's `signal` (a handler is a word here): BSD semantics.
#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn signal(signal: c_int, handler: isize) -> isize {
    let interrupts = INTERRUPTING.load(Ordering::Relaxed) & bit(signal) != 0;
    replace(signal, handler, if interrupts { 0 } else { libc::SA_RESTART }, true)
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn bsd_signal(number: c_int, handler: isize) -> isize {
    // SAFETY: the program's own call.
    unsafe { signal(number, handler) }
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn ssignal(number: c_int, handler: isize) -> isize {
    // SAFETY: as above.
    unsafe { signal(number, handler) }
}

/// `signal` of a program that was compiled for System V: once, and not blocked meanwhile.
#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn __sysv_signal(signal: c_int, handler: isize) -> isize {
    replace(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER, false)
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn sysv_signal(signal: c_int, handler: isize) -> isize {
    // SAFETY: the program's own call.
    unsafe { __sysv_signal(signal, handler) }
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn siginterrupt(signal: c_int, interrupts: c_int) -> c_int {
    // SAFETY: requires an all-zero `sigaction` to be valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a valid place.
    if unsafe { sigaction(signal, std::ptr::null(), &raw mut action) } != 0 {
        return -1;
    }
    if interrupts != 0 {
        INTERRUPTING.fetch_or(bit(signal), Ordering::Relaxed);
        action.sa_flags &= !libc::SA_RESTART;
    } else {
        INTERRUPTING.fetch_and(!bit(signal), Ordering::Relaxed);
        action.sa_flags |= libc::SA_RESTART;
    }
    // SAFETY: a valid action: the one that is set.
    unsafe { sigaction(signal, &raw const action, std::ptr::null_mut()) }
}
