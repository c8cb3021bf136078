//! The program's signal handlers, with one of ours in front.
//!
//! Three things need it. A bad pointer of the program faults inside our copy routine and must be
//! EFAULT. A handler may call `write` or `recv` itself, so it must not run while this thread is
//! inside the engine, holding a lock: it is put off until the thread leaves, as the kernel does
//! with a system call. And whether a call that a signal interrupted goes on depends on the
//! SA_RESTART of the handler that ran.
//!
//! The program sees its own dispositions only: the hook of `sigaction` keeps them here.
use super::{copy, raw, thread};
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use core::cell::UnsafeCell;
use libc::{c_int, c_void, sigaction, siginfo_t};
use syscalls::Sysno;

/// SA_RESTORER, which libc sets for itself, and which a program sees.
const RESTORER: c_int = 0x0400_0000;
/// Signals are 1 to 64.
const SIGNALS: usize = 65;
/// Versions of a disposition that are kept: a handler that reads one while it is replaced reads
/// an older, whole one.
const VERSIONS: usize = 4;

struct Entry {
    versions: UnsafeCell<[Option<sigaction>; VERSIONS]>,
    current: AtomicU32,
}

// SAFETY: requires that accesses do not race: writers hold `LOCK` and write a version that is not
// the current one; readers copy the current one.
unsafe impl Sync for Entry {}

static TABLE: [Entry; SIGNALS] =
    [const { Entry { versions: UnsafeCell::new([None; VERSIONS]), current: AtomicU32::new(0) } };
        SIGNALS];
static LOCK: AtomicBool = AtomicBool::new(false);
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// The real `sigaction`.
pub type RealSigaction =
    unsafe extern "C-unwind" fn(c_int, *const sigaction, *mut sigaction) -> c_int;

fn entry(signal: c_int) -> Option<&'static Entry> {
    TABLE.get(usize::try_from(signal).ok()?).filter(|_| signal > 0)
}

impl Entry {
    /// The program's disposition; `None`: we do not stand in front of this signal.
    fn load(&self) -> Option<sigaction> {
        // Acquire: pairs with the Release in `store`.
        let at = self.current.load(Ordering::Acquire) as usize % VERSIONS;
        // SAFETY: requires that nobody writes this version: it is the current one.
        unsafe { (*self.versions.get())[at] }
    }

    /// Replaces it; `LOCK` is held.
    fn store(&self, value: Option<sigaction>) {
        let next = self.current.load(Ordering::Relaxed).wrapping_add(1);
        // SAFETY: requires exclusive access to this version: it is not the current one, and the
        // lock keeps other writers out.
        unsafe { (*self.versions.get())[next as usize % VERSIONS] = value };
        self.current.store(next, Ordering::Release);
    }
}

/// Runs something with the table locked; no handler of this thread runs meanwhile.
fn locked<T>(with: impl FnOnce() -> T) -> T {
    let _critical = thread::Critical::enter();
    // Acquire and Release: pair with each other; the sections are short.
    while LOCK.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        raw::yield_now();
    }
    let value = with();
    LOCK.store(false, Ordering::Release);
    value
}

/// In the child of a fork: a thread of the parent may have held the lock.
pub fn after_fork() {
    LOCK.store(false, Ordering::Release);
}

fn is_fault(signal: c_int) -> bool {
    matches!(signal, libc::SIGSEGV | libc::SIGBUS)
}

fn has_handler(action: &sigaction) -> bool {
    action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN
}

fn is_ours(action: &sigaction) -> bool {
    action.sa_sigaction == on_signal as *const () as usize
}

/// What is called before a handler for SIGABRT: libc has said on descriptor 2 by itself why.
static BEFORE_ABORT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Puts the handler in front of what the program has; called by the constructor. `before_abort` is
/// called before a handler for SIGABRT.
pub fn install(real: RealSigaction, before_abort: fn()) {
    BEFORE_ABORT.store(before_abort as *mut (), Ordering::Relaxed);
    INSTALLED.store(true, Ordering::Release);
    for signal in 1..SIGNALS as c_int {
        // SAFETY: requires an all-zero `sigaction` to be valid: no handler, no flags.
        let mut old: sigaction = unsafe { core::mem::zeroed() };
        // SAFETY: requires a valid place for the old action.
        let known = unsafe { real(signal, core::ptr::null(), &raw mut old) } == 0;
        if !known || !(is_fault(signal) || has_handler(&old)) {
            continue;
        }
        let ours = front(signal, &old);
        // SAFETY: requires a valid action whose handler has the signature that its flags say.
        if unsafe { real(signal, &raw const ours, core::ptr::null_mut()) } == 0 {
            if let Some(entry) = entry(signal) {
                locked(|| entry.store(Some(old)));
            }
        }
    }
}

/// Our handler, with the program's mask and flags.
fn front(signal: c_int, theirs: &sigaction) -> sigaction {
    let mut ours = *theirs;
    ours.sa_sigaction = on_signal as *const () as usize;
    // A one-shot disposition is taken back by us: the kernel would do it although we put it off.
    ours.sa_flags = (theirs.sa_flags & !libc::SA_RESETHAND) | libc::SA_SIGINFO;
    if is_fault(signal) {
        // On the alternate stack, if the thread has one.
        ours.sa_flags |= libc::SA_ONSTACK;
    }
    ours
}

/// What the program is told of a disposition: its own where the kernel has ours. Elsewhere the
/// kernel's is the truth, whoever set it.
fn shown(theirs: Option<sigaction>, kernel: sigaction) -> sigaction {
    let Some(mut theirs) = theirs.filter(|_| is_ours(&kernel)) else { return kernel };
    theirs.sa_flags |= kernel.sa_flags & RESTORER;
    theirs.sa_restorer = kernel.sa_restorer;
    theirs
}

/// What `sigaction` does; `None`: not a signal that we stand in front of, before or after.
/// `borrowed`: this process runs in its parent's memory, whose dispositions are others.
///
/// # Safety
/// As `sigaction`.
pub unsafe fn hooked_sigaction(
    real: RealSigaction,
    signal: c_int,
    new: *const sigaction,
    old: *mut sigaction,
    borrowed: impl FnOnce() -> bool,
) -> Option<c_int> {
    let entry = entry(signal)?;
    if !INSTALLED.load(Ordering::Acquire) {
        return None;
    }
    // SAFETY: requires what `sigaction` does: the caller's promise.
    let new = unsafe { new.as_ref() }.copied();
    let wanted = is_fault(signal) || new.as_ref().is_some_and(has_handler);
    if !wanted && entry.load().is_none() {
        return None;
    }
    let change = |wanted: bool| {
        let theirs = entry.load();
        // SAFETY: requires an all-zero `sigaction` to be valid.
        let mut kernel: sigaction = unsafe { core::mem::zeroed() };
        let front = new.as_ref().map(|new| if wanted { front(signal, new) } else { *new });
        let front = front.as_ref().map_or(core::ptr::null(), |front| front as *const sigaction);
        // SAFETY: requires a valid action, or null, and a place for the old one.
        let result = unsafe { real(signal, front, &raw mut kernel) };
        (result, shown(theirs, kernel))
    };
    let (result, previous) = if borrowed() {
        change(false)
    } else {
        locked(|| {
            let changed = change(wanted);
            if let (0, Some(new)) = (changed.0, new) {
                entry.store(wanted.then_some(new));
            }
            changed
        })
    };
    if result == 0 && !old.is_null() {
        // SAFETY: requires a valid place: the caller's promise.
        unsafe { *old = previous };
    }
    Some(result)
}

extern "C-unwind" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if is_fault(signal) && resumed(context) {
        return;
    }
    let Some(theirs) = entry(signal).and_then(Entry::load) else { return };
    // SAFETY: requires the siginfo that the kernel gave.
    let raised_by_code = unsafe { (*info).si_code } > 0 && is_synchronous(signal);
    if thread::is_critical() && !raised_by_code && put_off(signal, info, context) {
        return;
    }
    let before = BEFORE_ABORT.load(Ordering::Relaxed);
    if signal == libc::SIGABRT && !before.is_null() {
        // SAFETY: requires a function of this type: `install` has stored one.
        unsafe { core::mem::transmute::<*mut (), fn()>(before)() };
    }
    if theirs.sa_flags & libc::SA_RESETHAND != 0 && has_handler(&theirs) {
        back_to_default(signal, &theirs);
    }
    match theirs.sa_sigaction {
        libc::SIG_IGN if !raised_by_code => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            back_to_default(signal, &theirs);
            // A fault strikes again on return; what somebody sent is sent once more.
            if !raised_by_code {
                raw::raise_thread(signal);
            }
        }
        handler if theirs.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: requires a handler of this signature: the program said so by SA_SIGINFO.
            let handler: extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { core::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: requires a handler of this signature: the program said so.
            let handler: extern "C-unwind" fn(c_int) = unsafe { core::mem::transmute(handler) };
            handler(signal);
        }
    }
    // Afterwards: what the handler called itself begins a count of its own.
    thread::handler_ran(theirs.sa_flags & libc::SA_RESTART != 0);
}

fn is_synchronous(signal: c_int) -> bool {
    is_fault(signal) || matches!(signal, libc::SIGFPE | libc::SIGILL | libc::SIGTRAP | libc::SIGSYS)
}

/// A fault in our copy routine: it goes on where it returns an error.
fn resumed(context: *mut c_void) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let context = context.cast::<libc::ucontext_t>();
        // SAFETY: requires the context that the kernel gives to a handler with SA_SIGINFO.
        let registers = unsafe { &mut (*context).uc_mcontext.gregs };
        let at = registers[libc::REG_RIP as usize] as usize;
        if let Some(landing) = copy::fixup(at) {
            registers[libc::REG_RIP as usize] = landing as i64;
            return true;
        }
    }
    let _ = context;
    false
}

/// Queues the signal for this thread again, blocked until it leaves the engine.
fn put_off(signal: c_int, info: *mut siginfo_t, context: *mut c_void) -> bool {
    let (pid, tid) = (raw::getpid() as usize, raw::gettid() as usize);
    let arguments = [pid, tid, signal as usize, info as usize, 0, 0];
    // SAFETY: requires a valid siginfo: the kernel's own.
    if unsafe { raw::call6(Sysno::rt_tgsigqueueinfo, arguments) }.is_err() {
        return false;
    }
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: requires the context that the kernel gives: its mask holds on return.
    unsafe { libc::sigaddset(&raw mut (*context).uc_sigmask, signal) };
    thread::put_off(signal);
    true
}

/// As the kernel does after a one-shot handler: the handler alone goes.
fn back_to_default(signal: c_int, theirs: &sigaction) {
    // struct kernel_sigaction: handler, flags, restorer, mask.
    let mut action = [0_usize; 4];
    let read = [signal as usize, 0, action.as_mut_ptr() as usize, 8, 0, 0];
    // SAFETY: requires a place for a kernel_sigaction.
    let _ = unsafe { raw::call6(Sysno::rt_sigaction, read) };
    let restorer = action[1] & RESTORER as usize;
    action[0] = libc::SIG_DFL;
    action[1] = theirs.sa_flags.cast_unsigned() as usize | restorer;
    let write = [signal as usize, action.as_ptr() as usize, 0, 8, 0, 0];
    // SAFETY: requires a kernel_sigaction, without a handler.
    let _ = unsafe { raw::call6(Sysno::rt_sigaction, write) };
}
