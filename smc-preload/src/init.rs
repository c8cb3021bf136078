//! The constructor: from an inert library to a running engine.
use crate::environment::Environment;
use crate::{dispatch, process, stream, symbols, target};
use libc::{c_char, c_int};
use smc_core::config::Config;
use smc_core::engine;
use smc_core::log;
use smc_core::sync::{AtomicU8, Ordering};
use std::fmt::Write;
use std::panic::PanicHookInfo;

/// Hooks pass everything through.
const COLD: u8 = 0;
/// The constructor is at work: hooks still pass everything through.
const STARTING: u8 = 1;
/// The engine runs.
const READY: u8 = 2;

/// Whether io_uring is refused (1): what it does on sockets no hook sees.
static NO_IO_URING: AtomicU8 = AtomicU8::new(0);

static STATE: AtomicU8 = AtomicU8::new(COLD);

/// Whether the engine runs in this process.
#[inline]
pub(crate) fn on() -> bool {
    // Acquire: pairs with the Release in `construct`.
    STATE.load(Ordering::Acquire) == READY
}

/// Whether the program is told that the kernel has no io_uring.
pub(crate) fn io_uring_refused() -> bool {
    NO_IO_URING.load(Ordering::Relaxed) != 0
}

#[used]
#[link_section = ".init_array"]
static CONSTRUCTOR: unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char) =
    construct;

#[used]
#[link_section = ".fini_array"]
static DESTRUCTOR: extern "C" fn() = process::exiting;

extern "C" {
    fn at_quick_exit(handler: extern "C" fn()) -> c_int;
}

/// glibc hands the program's arguments to each constructor.
unsafe extern "C" fn construct(
    _argc: c_int,
    _argv: *const *const c_char,
    envp: *const *const c_char,
) {
    // C promises 0 to `main`, and other constructors what the ones before them left.
    let errno = dispatch::errno();
    if STATE.swap(STARTING, Ordering::Relaxed) == COLD {
        // SAFETY: the environment that glibc hands over; no other thread runs yet.
        unsafe { start(envp) };
    }
    dispatch::set_errno(errno);
}

/// Brings the engine up, unless it is not wanted.
///
/// # Safety
/// `envp` is the environment, and nothing else uses it meanwhile.
unsafe fn start(envp: *const *const c_char) {
    std::panic::set_hook(Box::new(|_| {}));
    symbols::resolve();
    std::panic::set_hook(Box::new(die));
    // SAFETY: a plain query.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        // The program has more rights than its user: whatever the user wants of us, stay out.
        return;
    }
    // SAFETY: the caller's promise.
    let environment = unsafe { Environment::new(envp) };
    let config = Config::from_env(environment, &mut |warning| {
        log::warn_line(format_args!("{warning}"));
    });
    if !config.enabled() {
        return;
    }
    log::install(config.log_level());
    NO_IO_URING.store(u8::from(!config.io_uring), Ordering::Relaxed);
    process::entered();
    target::find_build(construct as *const ());
    engine::streams_are_seen(stream::install());
    engine::start(symbols::real_calls(), &config, target::build());
    smc_core::sys::signals::install(symbols::real::sigaction, engine::before_abort);
    // SAFETY: the handlers live as long as the process; the library is never unloaded.
    unsafe {
        libc::pthread_atfork(
            Some(process::before_fork),
            Some(process::after_fork_in_parent),
            Some(process::after_fork_in_child),
        );
    }
    // SAFETY: as above.
    unsafe { at_quick_exit(process::exiting) };
    // Release: what the engine has set up is visible to whoever sees READY.
    STATE.store(READY, Ordering::Release);
}

/// A line of bounded length on the stack.
struct Line {
    bytes: [u8; 512],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = &mut self.bytes[self.len..];
        let len = text.len().min(room.len());
        room[..len].copy_from_slice(&text.as_bytes()[..len]);
        self.len += len;
        Ok(())
    }
}

/// The panic hook. An unwind must not run into the program's frames, and after a defect of ours
/// the program's stream cannot be trusted: say so and abort.
fn die(info: &PanicHookInfo<'_>) {
    let mut line = Line { bytes: [0; 512], len: 0 };
    // Line never fails.
    let _ = writeln!(line, "smc: internal error, aborting: {info}");
    // SAFETY: writes from a live buffer.
    unsafe {
        crate::cold::sys(libc::SYS_write, &[2, line.bytes.as_ptr() as usize, line.len]);
    }
    std::process::abort();
}
