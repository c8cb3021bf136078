//! The end of a process, and its replacement.
use crate::dispatch::born;
use crate::process::{borrowed_memory, exiting, not_replaced, replacing};
use crate::symbols::real;
use crate::target::{of_file, of_path, of_search, own_environment, Words};
use libc::{c_char, c_int, c_long, AT_EMPTY_PATH};
use smc_core::engine;

macro_rules! execs {
    ($(fn $name:ident($($arg:ident : $type:ty),*), $target:expr;)*) => {$(
        #[no_mangle]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            // SAFETY: the program's own arguments.
            let plan = replacing(|| unsafe { $target });
            // SAFETY: the program's own call with its own arguments, whose contract it keeps.
            let failed = unsafe { real::$name($($arg),*) };
            not_replaced(plan);
            failed
        }
    )*};
}

execs! {
    fn execve(path: *const c_char, argv: Words, envp: Words), of_path(path, envp, true);
    fn execv(path: *const c_char, argv: Words), of_path(path, own_environment(), true);
    fn execvp(file: *const c_char, argv: Words), of_search(file, own_environment(), true);
    fn execvpe(file: *const c_char, argv: Words, envp: Words), of_search(file, envp, true);
    fn execveat(dir: c_int, path: *const c_char, argv: Words, envp: Words, flags: c_int),
        of_file(dir, path, flags, envp);
    fn fexecve(fd: c_int, argv: Words, envp: Words), of_file(fd, c"".as_ptr(), AT_EMPTY_PATH, envp);
}

/// `seccomp`, operation SECCOMP_SET_MODE_STRICT and SECCOMP_SET_MODE_FILTER.
const STRICT: usize = 0;
const FILTER: usize = 1;

/// A filter is about to be installed. Libraries ask whether they could by giving none.
fn confining(strict: bool, filter: usize) {
    if (strict || filter != 0) && crate::init::on() && !borrowed_memory() {
        engine::before_confinement();
    }
}

/// What is variadic in C takes its words as they come.
#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn prctl(
    option: c_int,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
) -> c_int {
    if option == libc::PR_SET_SECCOMP {
        confining(a == libc::SECCOMP_MODE_STRICT as usize, b);
    }
    // SAFETY: the program's own call.
    unsafe { real::prctl(option, a, b, c, d) }
}

/// `syscall(SYS_seccomp, …)`: libc has no function of this name.
pub(crate) unsafe fn seccomp(operation: usize, flags: usize, filter: usize) -> c_long {
    if matches!(operation, STRICT | FILTER) {
        confining(operation == STRICT, filter);
    }
    // SAFETY: the program's own call.
    unsafe { real::syscall(libc::SYS_seccomp, operation, flags, filter, 0, 0, 0) }
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn _exit(status: c_int) -> ! {
    exiting();
    // SAFETY: the program's own call.
    unsafe { real::_exit(status) }
}

/// The same by the name of the C standard.
#[export_name = "_Exit"]
pub(crate) unsafe extern "C-unwind" fn c99_exit(status: c_int) -> ! {
    // SAFETY: the program's own call.
    unsafe { _exit(status) }
}

/// Forks inside libc (our fork handlers run) and puts /dev/null on the standard descriptors.
#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn daemon(nochdir: c_int, noclose: c_int) -> c_int {
    // SAFETY: the program's own call.
    let done = unsafe { real::daemon(nochdir, noclose) };
    if done == 0 && noclose == 0 {
        (0..=2).for_each(born);
    }
    done
}
