//! io_uring works on sockets where no hook sees it. While the engine runs, the program is told that
//! the kernel has none, and takes its other way; `SMC_IO_URING=allow` leaves it alone.
use crate::dispatch::set_errno;
use crate::init::io_uring_refused;
use crate::symbols::real;
use libc::{c_int, c_long, c_uint, c_void, size_t};

/// `syscall(SYS_io_uring_setup, …)`.
pub(crate) unsafe fn setup(entries: usize, params: usize) -> c_long {
    if io_uring_refused() {
        set_errno(libc::ENOSYS);
        return -1;
    }
    // SAFETY: the program's own call.
    unsafe { real::syscall(libc::SYS_io_uring_setup, entries, params, 0, 0, 0, 0) }
}

/// Functions of liburing, which return a negative error number.
macro_rules! liburing {
    ($(fn $name:ident($($arg:ident : $type:ty),*);)*) => {$(
        #[no_mangle]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            if io_uring_refused() {
                return -libc::ENOSYS;
            }
            // SAFETY: the program's own call with its own arguments, whose contract it keeps.
            unsafe { real::$name($($arg),*) }
        }
    )*};
}

liburing! {
    fn io_uring_setup(entries: c_uint, params: *mut c_void);
    fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint);
    fn io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, params: *mut c_void);
    fn io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, params: *mut c_void, buf: *mut c_void, size: size_t);
}
