//! Calls that make and end streams, and those that print to a descriptor. What goes through a stream
//! is told in [`crate::stream`].
use super::spawn::shell;
use crate::dispatch::{born, errno, ret, set_errno, tracked};
use crate::process::{borrowed_memory, spawned};
use crate::stream;
use crate::symbols::real;
use libc::{c_char, c_int, c_void, FILE};
use smc_core::engine;
use std::ptr::null_mut;

macro_rules! streams {
    ($(fn $name:ident($($arg:ident : $type:ty),*);)*) => {$(
        #[no_mangle]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> *mut FILE {
            // SAFETY: the program's own call with its own arguments, whose contract it keeps.
            let stream = unsafe { real::$name($($arg),*) };
            if !stream.is_null() {
                // SAFETY: an open stream.
                born(unsafe { stream::descriptor(stream) });
            }
            stream
        }
    )*};
}

streams! {
    fn fopen(path: *const c_char, mode: *const c_char);
    fn fopen64(path: *const c_char, mode: *const c_char);
    fn tmpfile();
    fn tmpfile64();
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn popen(
    command: *const c_char,
    mode: *const c_char,
) -> *mut FILE {
    let plan = shell(false);
    // SAFETY: the program's own call.
    let stream = unsafe { real::popen(command, mode) };
    spawned(plan, !stream.is_null());
    if !stream.is_null() {
        // SAFETY: an open stream.
        born(unsafe { stream::descriptor(stream) });
    }
    stream
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    if tracked(fd) {
        engine::stream_opened(fd);
    }
    // SAFETY: the program's own call.
    unsafe { real::fdopen(fd, mode) }
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn fclose(file: *mut FILE) -> c_int {
    // SAFETY: the program's own stream.
    let real = || unsafe { real::fclose(file) };
    // SAFETY: as above.
    let fd = if stream::are_seen() { -1 } else { unsafe { tracked_in(file) } };
    if fd < 0 {
        return real();
    }
    ret(engine::close(fd, || real() as isize))
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn freopen(
    path: *const c_char,
    mode: *const c_char,
    file: *mut FILE,
) -> *mut FILE {
    // SAFETY: the program's own call.
    unsafe { reopen(file, || real::freopen(path, mode, file)) }
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn freopen64(
    path: *const c_char,
    mode: *const c_char,
    file: *mut FILE,
) -> *mut FILE {
    // SAFETY: the program's own call.
    unsafe { reopen(file, || real::freopen64(path, mode, file)) }
}

/// The old descriptor ends by calls inside libc, and a new one begins, mostly with the same number.
unsafe fn reopen(file: *mut FILE, real: impl Fn() -> *mut FILE) -> *mut FILE {
    // SAFETY: the program's own stream.
    let fd = unsafe { tracked_in(file) };
    let mut stream = null_mut();
    if fd < 0 {
        stream = real();
    } else {
        // While the number is known; what cannot be written now is lost, as it is in libc.
        // SAFETY: as above.
        unsafe {
            libc::fflush(file);
            __fpurge(file);
        }
        let done: c_int = ret(engine::close(fd, || {
            stream = real();
            if stream.is_null() {
                -1
            } else {
                0
            }
        }));
        if done < 0 {
            return null_mut();
        }
    }
    if !stream.is_null() {
        // SAFETY: an open stream.
        born(unsafe { stream::descriptor(stream) });
    }
    stream
}

extern "C" {
    fn __fpurge(file: *mut FILE);
}

/// The descriptor of a stream, if it is tracked, else -1.
unsafe fn tracked_in(file: *mut FILE) -> c_int {
    // SAFETY: the program's own stream.
    let fd = unsafe { stream::descriptor(file) };
    if fd >= 0 && tracked(fd) && !borrowed_memory() {
        fd
    } else {
        -1
    }
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn vdprintf(
    fd: c_int,
    format: *const c_char,
    args: *mut c_void,
) -> c_int {
    // SAFETY: the program's own call.
    unsafe {
        if tracked(fd) {
            print(fd, format, args)
        } else {
            real::vdprintf(fd, format, args)
        }
    }
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn __vdprintf_chk(
    fd: c_int,
    level: c_int,
    format: *const c_char,
    args: *mut c_void,
) -> c_int {
    // SAFETY: the program's own call.
    unsafe {
        if tracked(fd) {
            print(fd, format, args)
        } else {
            real::__vdprintf_chk(fd, level, format, args)
        }
    }
}

extern "C" {
    fn vasprintf(text: *mut *mut c_char, format: *const c_char, args: *mut c_void) -> c_int;
}

/// Memory that libc allocated; freed also when the thread is cancelled in a write.
struct Text(*mut c_char);

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: from vasprintf, freed once.
        unsafe { libc::free(self.0.cast()) };
    }
}

/// Formats, then writes by the hook.
///
/// # Safety
/// As `vdprintf`; `args` is a `va_list`.
unsafe fn print(fd: c_int, format: *const c_char, args: *mut c_void) -> c_int {
    let before = errno();
    let mut text = null_mut();
    // SAFETY: the program's own format and arguments.
    let len = unsafe { vasprintf(&raw mut text, format, args) };
    if len < 0 {
        return -1;
    }
    let text = Text(text);
    // SAFETY: vasprintf has stored `len` bytes there.
    let written = unsafe { stream::write_all(fd, text.0.cast(), len as usize) };
    if written < len as usize {
        return -1;
    }
    set_errno(before);
    len
}
