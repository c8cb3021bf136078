//! Error numbers as values; the hook layer alone stores one in the C `errno`.

/// An error number of the kernel, `E…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// Resource temporarily unavailable.
    pub const AGAIN: Self = Self(libc::EAGAIN);
    /// Bad address.
    pub const FAULT: Self = Self(libc::EFAULT);
    /// Interrupted by a signal handler.
    pub const INTR: Self = Self(libc::EINTR);
    /// Invalid argument.
    pub const INVAL: Self = Self(libc::EINVAL);
    /// Bad file descriptor.
    pub const BADF: Self = Self(libc::EBADF);
    /// Out of memory.
    pub const NOMEM: Self = Self(libc::ENOMEM);
    /// Protocol error: the peer broke the rules of the shared memory or of a message.
    pub const PROTO: Self = Self(libc::EPROTO);
    /// Message too long.
    pub const MSGSIZE: Self = Self(libc::EMSGSIZE);
}

/// What a call of the engine comes to: the C return value, or an error of ours.
pub type Ret = Result<isize, Errno>;
