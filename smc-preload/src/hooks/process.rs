//! The end of a process, and its replacement.
use crate::dispatch::born;
use crate::process::{exiting, not_replaced, replacing};
use crate::symbols::real;
use crate::target::{of_file, of_path, of_search, own_environment, Words};
use libc::{c_char, c_int, AT_EMPTY_PATH};

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
