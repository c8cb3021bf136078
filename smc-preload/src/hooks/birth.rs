//! Calls that make a descriptor which is not a socket. If its number was one of ours, that one was
//! closed behind our back, and what we knew of it is forgotten.
use super::msg::arrived;
use crate::dispatch::{born, born_pair};
use crate::symbols::real;
use libc::{c_char, c_int, c_uint, c_void, mode_t, sigset_t, DIR};

macro_rules! births {
    ($(fn $name:ident($($arg:ident : $type:ty),*);)*) => {$(
        #[no_mangle]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            // SAFETY: the program's own call with its own arguments, whose contract it keeps.
            let fd = unsafe { real::$name($($arg),*) };
            born(fd);
            fd
        }
    )*};
}

births! {
    // Variadic in C. On x86-64 and aarch64 Linux the last argument travels like a fixed one.
    fn open(path: *const c_char, flags: c_int, mode: mode_t);
    fn openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t);
    fn mq_open(name: *const c_char, flags: c_int, mode: mode_t, attr: *mut c_void);

    fn __open_2(path: *const c_char, flags: c_int);
    fn __open64_2(path: *const c_char, flags: c_int);
    fn __openat_2(dir: c_int, path: *const c_char, flags: c_int);
    fn __openat64_2(dir: c_int, path: *const c_char, flags: c_int);
    fn creat(path: *const c_char, mode: mode_t);
    fn open_by_handle_at(mount: c_int, handle: *mut c_void, flags: c_int);
    fn eventfd(value: c_uint, flags: c_int);
    fn timerfd_create(clock: c_int, flags: c_int);
    fn signalfd(fd: c_int, mask: *const sigset_t, flags: c_int);
    fn inotify_init();
    fn inotify_init1(flags: c_int);
    fn fanotify_init(flags: c_uint, event_flags: c_uint);
    fn memfd_create(name: *const c_char, flags: c_uint);
    fn pidfd_open(pid: c_int, flags: c_uint);
    fn shm_open(name: *const c_char, flags: c_int, mode: mode_t);
    fn posix_openpt(flags: c_int);
    fn getpt();
    fn mkstemp(template: *mut c_char);
    fn mkstemp64(template: *mut c_char);
    fn mkostemp(template: *mut c_char, flags: c_int);
    fn mkostemp64(template: *mut c_char, flags: c_int);
    fn mkstemps(template: *mut c_char, suffix: c_int);
    fn mkstemps64(template: *mut c_char, suffix: c_int);
    fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int);
    fn mkostemps64(template: *mut c_char, suffix: c_int, flags: c_int);
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn pipe(fds: *mut c_int) -> c_int {
    // SAFETY: the program's own call.
    let done = unsafe { real::pipe(fds) };
    if done == 0 {
        // SAFETY: the call has succeeded.
        unsafe { born_pair(fds) };
    }
    done
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn pipe2(fds: *mut c_int, flags: c_int) -> c_int {
    // SAFETY: the program's own call.
    let done = unsafe { real::pipe2(fds, flags) };
    if done == 0 {
        // SAFETY: the call has succeeded.
        unsafe { born_pair(fds) };
    }
    done
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn openpty(
    master: *mut c_int,
    slave: *mut c_int,
    name: *mut c_char,
    termios: *const c_void,
    size: *const c_void,
) -> c_int {
    // SAFETY: the program's own call.
    let done = unsafe { real::openpty(master, slave, name, termios, size) };
    if done == 0 {
        // SAFETY: the call has succeeded, so both are stored.
        unsafe {
            born(*master);
            born(*slave);
        }
    }
    done
}

/// Puts the terminal on the standard descriptors, inside libc.
#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn login_tty(fd: c_int) -> c_int {
    // SAFETY: the program's own call.
    let done = unsafe { real::login_tty(fd) };
    if done == 0 {
        (0..=2).for_each(born);
    }
    done
}

/// So does the child of this one.
#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn forkpty(
    master: *mut c_int,
    name: *mut c_char,
    termios: *const c_void,
    size: *const c_void,
) -> c_int {
    // SAFETY: the program's own call.
    let child = unsafe { real::forkpty(master, name, termios, size) };
    if child == 0 {
        (0..=2).for_each(born);
    } else if child > 0 {
        // SAFETY: the call has succeeded, so it is stored.
        born(unsafe { *master });
    }
    child
}

/// The copy may be a socket of another process.
#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn pidfd_getfd(
    pidfd: c_int,
    target: c_int,
    flags: c_uint,
) -> c_int {
    // SAFETY: the program's own call.
    let fd = unsafe { real::pidfd_getfd(pidfd, target, flags) };
    if fd >= 0 {
        arrived(fd);
    }
    fd
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn opendir(path: *const c_char) -> *mut DIR {
    // SAFETY: the program's own call.
    let dir = unsafe { real::opendir(path) };
    if !dir.is_null() {
        // SAFETY: an open directory stream.
        born(unsafe { libc::dirfd(dir) });
    }
    dir
}
