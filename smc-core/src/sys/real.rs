//! The real libc functions that the engine itself calls: those that may block.
use libc::{
    c_int, c_void, epoll_event, iovec, msghdr, nfds_t, pollfd, sigset_t, size_t, ssize_t, timespec,
};

/// Real functions, resolved by the preload library in its constructor.
///
/// `C-unwind`: a thread may be cancelled inside any of them.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct RealCalls {
    pub recv: unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t, c_int) -> ssize_t,
    pub sendmsg: unsafe extern "C-unwind" fn(c_int, *const msghdr, c_int) -> ssize_t,
    pub ppoll:
        unsafe extern "C-unwind" fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int,
    pub epoll_pwait: unsafe extern "C-unwind" fn(
        c_int,
        *mut epoll_event,
        c_int,
        c_int,
        *const sigset_t,
    ) -> c_int,
}

impl RealCalls {
    /// `sendmsg` of a part of what the program sends, without SIGPIPE; a bad address is EFAULT.
    pub fn send_part(&self, fd: c_int, base: *mut u8, len: usize, flags: c_int) -> ssize_t {
        let mut part = iovec { iov_base: base.cast(), iov_len: len };
        // SAFETY: requires an all-zero bit pattern to be a valid `msghdr`: integers and null
        // pointers.
        let mut message: msghdr = unsafe { core::mem::zeroed() };
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        // SAFETY: requires a valid header and vector: both are locals. The kernel finds an address
        // that is none.
        unsafe { (self.sendmsg)(fd, &message, flags | libc::MSG_NOSIGNAL) }
    }
}
