//! Bad pointers of the program: a fault inside our copy routine becomes EFAULT.
//!
//! The kernel answers EFAULT to `send(fd, bad, …)`; our copies run in user space and would die.
//! So SIGSEGV and SIGBUS go to [`on_fault`] first. What it does not know goes to the program's own
//! disposition, which the hook of `sigaction` keeps here, or to the default.
use super::copy;
use crate::sync::{AtomicBool, AtomicU32, Ordering};
use core::cell::UnsafeCell;
use libc::{c_int, c_void, sigaction, siginfo_t};

struct Saved(UnsafeCell<Option<sigaction>>);

// SAFETY: requires that accesses do not race: they happen under `LOCK`, or in the constructor.
unsafe impl Sync for Saved {}

static SEGV: Saved = Saved(UnsafeCell::new(None));
static BUS: Saved = Saved(UnsafeCell::new(None));
static LOCK: AtomicU32 = AtomicU32::new(0);
static INSTALLED: AtomicBool = AtomicBool::new(false);

type RealSigaction = unsafe extern "C-unwind" fn(c_int, *const sigaction, *mut sigaction) -> c_int;

fn slot(signal: c_int) -> Option<&'static Saved> {
    match signal {
        libc::SIGSEGV => Some(&SEGV),
        libc::SIGBUS => Some(&BUS),
        _ => None,
    }
}

fn locked<T>(with: impl FnOnce() -> T) -> T {
    // Acquire and Release: pair with each other; the sections are a few instructions long.
    while LOCK.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        core::hint::spin_loop();
    }
    let value = with();
    LOCK.store(0, Ordering::Release);
    value
}

/// Puts the handler in front of what the program has; called by the constructor.
pub fn install(real: RealSigaction) {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: requires an all-zero `sigaction` to be valid: no handler, no flags.
        let mut old: sigaction = unsafe { core::mem::zeroed() };
        // SAFETY: requires a valid place for the old action.
        if unsafe { real(signal, core::ptr::null(), &raw mut old) } != 0 {
            continue;
        }
        let ours = front(&old);
        // SAFETY: requires a valid action whose handler has the signature that its flags say.
        if unsafe { real(signal, &raw const ours, core::ptr::null_mut()) } == 0 {
            if let Some(saved) = slot(signal) {
                // SAFETY: requires exclusive access: the lock is held.
                locked(|| unsafe { *saved.0.get() = Some(old) });
            }
            INSTALLED.store(true, Ordering::Release);
        }
    }
}

/// Our handler, with the program's mask and those of its flags that concern delivery.
fn front(theirs: &sigaction) -> sigaction {
    let mut ours = *theirs;
    ours.sa_sigaction = on_fault as *const () as usize;
    let kept = libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
    // On the alternate stack, if the thread has one, as every handler of this signal wants.
    ours.sa_flags = (theirs.sa_flags & kept) | libc::SA_SIGINFO | libc::SA_ONSTACK;
    ours
}

/// What `sigaction` does for a signal that we stand in front of; `None`: not one of those.
///
/// # Safety
/// As `sigaction`.
pub unsafe fn hooked_sigaction(
    real: RealSigaction,
    signal: c_int,
    new: *const sigaction,
    old: *mut sigaction,
) -> Option<c_int> {
    let saved = slot(signal)?;
    if !INSTALLED.load(Ordering::Acquire) {
        return None;
    }
    // SAFETY: requires what `sigaction` does: the caller's promise.
    let new = unsafe { new.as_ref() }.copied();
    let result = match &new {
        Some(theirs) => {
            let ours = front(theirs);
            // SAFETY: requires a valid action: made from the program's.
            unsafe { real(signal, &raw const ours, core::ptr::null_mut()) }
        }
        None => 0,
    };
    if result == 0 {
        let previous = locked(|| {
            // SAFETY: requires exclusive access: the lock is held.
            let saved = unsafe { &mut *saved.0.get() };
            match new {
                Some(theirs) => saved.replace(theirs),
                None => *saved,
            }
        });
        if let (Some(previous), false) = (previous, old.is_null()) {
            // SAFETY: requires a valid place: the caller's promise.
            unsafe { *old = previous };
        }
    }
    Some(result)
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    #[cfg(target_arch = "x86_64")]
    {
        let context = context.cast::<libc::ucontext_t>();
        // SAFETY: requires the context that the kernel gives to a handler with SA_SIGINFO.
        let registers = unsafe { &mut (*context).uc_mcontext.gregs };
        let at = registers[libc::REG_RIP as usize] as usize;
        if let Some(landing) = copy::fixup(at) {
            registers[libc::REG_RIP as usize] = landing as i64;
            return;
        }
    }
    let Some(saved) = slot(signal) else { return };
    // Not under the lock: the fault may have struck inside it. A torn read is possible only when a
    // thread changes the disposition of a fault that another has at this very moment.
    // SAFETY: requires an initialised value: see above.
    let theirs = unsafe { *saved.0.get() };
    let Some(theirs) = theirs else { return };
    match theirs.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => default(signal, info),
        handler if theirs.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: requires a handler of this signature: the program said so by SA_SIGINFO.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { core::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: requires a handler of this signature: the program said so.
            let handler: extern "C" fn(c_int) = unsafe { core::mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// The default action: back to it, and the faulting instruction strikes again on return; a signal
/// that somebody sent is sent once more.
fn default(signal: c_int, info: *mut siginfo_t) {
    let kernel_default = [0_usize; 4];
    // SAFETY: requires a kernel_sigaction of zeroes: SIG_DFL, no flags, empty mask.
    let _ = unsafe {
        super::raw::call6(
            syscalls::Sysno::rt_sigaction,
            [signal as usize, kernel_default.as_ptr() as usize, 0, 8, 0, 0],
        )
    };
    // SAFETY: requires the siginfo that the kernel gave.
    if unsafe { (*info).si_code } <= 0 {
        super::raw::raise_thread(signal);
    }
}
