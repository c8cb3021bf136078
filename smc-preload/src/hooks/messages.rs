//! What libc says on descriptor 2 by calls inside, past the streams.
//!
//! Under inetd and its like that is a connection. Most of these are rare: it goes back to TCP before.
use super::life::dup;
use crate::dispatch::{errno, tracked};
use crate::stream;
use crate::symbols::real;
use libc::{c_char, c_int, c_void, siginfo_t, FILE, LOG_PERROR, STDERR_FILENO};
use smc_core::engine;

extern "C" {
    static stderr: *mut FILE;
    fn fwide(file: *mut FILE, mode: c_int) -> c_int;
}

fn say_by_itself(fd: c_int) {
    if tracked(fd) {
        engine::before_unseen(fd);
    }
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn herror(text: *const c_char) {
    say_by_itself(STDERR_FILENO);
    // SAFETY: the program's own call.
    unsafe { real::herror(text) };
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn psiginfo(info: *const siginfo_t, text: *const c_char) {
    say_by_itself(STDERR_FILENO);
    // SAFETY: the program's own call.
    unsafe { real::psiginfo(info, text) };
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn backtrace_symbols_fd(
    buffer: *const *mut c_void,
    size: c_int,
    fd: c_int,
) {
    say_by_itself(fd);
    // SAFETY: the program's own call.
    unsafe { real::backtrace_symbols_fd(buffer, size, fd) };
}

/// With LOG_PERROR each message goes to descriptor 2 as well.
#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn openlog(
    name: *const c_char,
    options: c_int,
    facility: c_int,
) {
    if options & LOG_PERROR != 0 {
        engine::unseen_from_now_on();
    }
    // SAFETY: the program's own call.
    unsafe { real::openlog(name, options, facility) };
}

/// While `stderr` is neither for bytes nor for wide characters, libc writes to a copy of its
/// descriptor, which it makes inside; here it is made by our hook.
#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn perror(text: *const c_char) {
    let error = errno();
    // SAFETY: libc's stream; the program's own text.
    unsafe {
        let fd = stream::descriptor(stderr);
        if fd < 0 || !tracked(fd) || fwide(stderr, 0) != 0 {
            return real::perror(text);
        }
        let copy = dup(fd);
        let file = if copy < 0 { std::ptr::null_mut() } else { real::fdopen(copy, c"w+".as_ptr()) };
        if file.is_null() {
            if copy >= 0 {
                super::life::close(copy);
            }
            *libc::__errno_location() = error;
            return real::perror(text);
        }
        let mut meaning = [0; 1024];
        libc::strerror_r(error, meaning.as_mut_ptr(), meaning.len());
        if !text.is_null() && *text != 0 {
            libc::fputs(text, file);
            libc::fputs(c": ".as_ptr(), file);
        }
        libc::fputs(meaning.as_ptr(), file);
        libc::fputs(c"\n".as_ptr(), file);
        if libc::fflush(file) != 0 {
            stream::has_failed(stderr);
        }
        super::stdio::fclose(file);
    }
}
