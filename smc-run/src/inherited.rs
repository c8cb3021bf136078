//! What the Rust runtime changes before `main`, so that the program gets it back.
//!
//! It ignores SIGPIPE and opens /dev/null for standard descriptors that are closed; and
//! `CommandExt::exec` sets SIGPIPE to its default and unblocks every signal. A program that a
//! service manager starts with SIGPIPE ignored must find it ignored under `smc-run` as well.
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);
static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// Called by the C library before the runtime starts.
#[used]
#[link_section = ".init_array"]
static REMEMBER: extern "C" fn() = remember;

extern "C" fn remember() {
    // SAFETY: an all-zero sigaction is a valid value of that plain C structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action asks for the present one; `action` is a place for it.
    let result = unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) };
    let ignored = result == 0 && action.sa_sigaction == libc::SIG_IGN;
    SIGPIPE_IGNORED.store(ignored, Ordering::Relaxed);
    for (fd, closed) in (0..).zip(&CLOSED) {
        // SAFETY: F_GETFD takes no argument and touches no memory.
        closed.store(unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0, Ordering::Relaxed);
    }
}

/// Has `command` start as if this program had been it from the beginning.
pub fn hand_over(command: &mut Command) {
    let mask = signal_mask();
    let restore = move || {
        if SIGPIPE_IGNORED.load(Ordering::Relaxed) {
            // SAFETY: no handler is installed, so nothing of ours can run on the signal.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        }
        for (fd, _) in (0..).zip(&CLOSED).filter(|(_, closed)| closed.load(Ordering::Relaxed)) {
            // SAFETY: the runtime opened it; this process writes no more, it is about to exec.
            unsafe { libc::close(fd) };
        }
        // SAFETY: `mask` is a complete set, and a null old mask is not written.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut()) };
        Ok(())
    };
    // SAFETY: the closure calls only async-signal-safe functions and allocates nothing.
    unsafe { command.pre_exec(restore) };
}

fn signal_mask() -> libc::sigset_t {
    // SAFETY: an all-zero sigset_t is an empty set on Linux.
    let mut mask: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a null new set asks for the present one; `mask` is a place for it. The call cannot
    // fail with a valid `how`, and would leave the empty set.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut mask) };
    mask
}
