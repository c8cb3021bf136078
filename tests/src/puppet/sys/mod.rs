//! The libc calls that the cases make, each exactly once and unadorned.

mod ways;

pub use ways::{In, Out};

use super::show::Ret;
use libc::{c_int, c_void, iovec, mmsghdr, msghdr, sockaddr_in};
use std::mem::size_of;
use std::ptr;

/// Memory as a call sees it: an address, which a case may choose to be bad, and a length.
#[derive(Clone, Copy, Debug)]
pub struct Mem {
    /// The address.
    pub addr: usize,
    /// The length.
    pub len: usize,
}

impl Mem {
    /// Any address at all.
    pub fn at(addr: usize, len: usize) -> Self {
        Self { addr, len }
    }

    fn ptr(self) -> *mut c_void {
        self.addr as *mut c_void
    }

    /// As an element of a vector.
    pub fn iov(self) -> iovec {
        iovec { iov_base: self.ptr(), iov_len: self.len }
    }
}

impl From<&mut [u8]> for Mem {
    fn from(data: &mut [u8]) -> Self {
        Self::at(data.as_mut_ptr() as usize, data.len())
    }
}

impl From<&[u8]> for Mem {
    fn from(data: &[u8]) -> Self {
        Self::at(data.as_ptr() as usize, data.len())
    }
}

impl<const N: usize> From<&mut [u8; N]> for Mem {
    fn from(data: &mut [u8; N]) -> Self {
        Self::at(data.as_mut_ptr() as usize, N)
    }
}

impl<const N: usize> From<&[u8; N]> for Mem {
    fn from(data: &[u8; N]) -> Self {
        Self::at(data.as_ptr() as usize, N)
    }
}

/// Pieces of one buffer as a vector.
pub fn iov(pieces: &[Mem]) -> Vec<iovec> {
    pieces.iter().map(|piece| piece.iov()).collect()
}

/// A message header without name and control data.
pub fn msg(vector: &mut [iovec]) -> msghdr {
    // SAFETY: msghdr is plain data, for which all zero is a valid value.
    let mut msg: msghdr = unsafe { std::mem::zeroed() };
    msg.msg_iov = vector.as_mut_ptr();
    msg.msg_iovlen = vector.len();
    msg
}

/// One message of `sendmmsg` or `recvmmsg`.
pub fn mmsg(vector: &mut [iovec]) -> mmsghdr {
    mmsghdr { msg_hdr: msg(vector), msg_len: 0 }
}

/// `recv`.
pub fn recv(fd: c_int, to: impl Into<Mem>, flags: c_int) -> Ret {
    In::Recv.call(fd, to, flags)
}

/// `send`.
pub fn send(fd: c_int, from: impl Into<Mem>, flags: c_int) -> Ret {
    Out::Send.call(fd, from, flags)
}

/// `readv` of a true vector.
pub fn readv(fd: c_int, vector: &[iovec]) -> Ret {
    let count = c_int::try_from(vector.len()).unwrap_or(c_int::MAX);
    // SAFETY: the vector is the caller's; the kernel checks the buffers.
    Ret::of_size(unsafe { libc::readv(fd, vector.as_ptr(), count) })
}

/// `writev` of a true vector.
pub fn writev(fd: c_int, vector: &[iovec]) -> Ret {
    let count = c_int::try_from(vector.len()).unwrap_or(c_int::MAX);
    // SAFETY: as in `readv`.
    Ret::of_size(unsafe { libc::writev(fd, vector.as_ptr(), count) })
}

/// `recvmsg`.
pub fn recvmsg(fd: c_int, msg: &mut msghdr, flags: c_int) -> Ret {
    // SAFETY: the header is the caller's; the kernel checks what it points to.
    Ret::of_size(unsafe { libc::recvmsg(fd, msg, flags) })
}

/// `sendmsg`.
pub fn sendmsg(fd: c_int, msg: &msghdr, flags: c_int) -> Ret {
    // SAFETY: as in `recvmsg`.
    Ret::of_size(unsafe { libc::sendmsg(fd, msg, flags) })
}

/// `recvmmsg` without a timeout.
pub fn recvmmsg(fd: c_int, all: &mut [mmsghdr], flags: c_int) -> Ret {
    let count = u32::try_from(all.len()).unwrap_or(0);
    // SAFETY: as in `recvmsg`.
    Ret::of(unsafe { libc::recvmmsg(fd, all.as_mut_ptr(), count, flags, ptr::null_mut()) })
}

/// `sendmmsg`.
pub fn sendmmsg(fd: c_int, all: &mut [mmsghdr], flags: c_int) -> Ret {
    let count = u32::try_from(all.len()).unwrap_or(0);
    // SAFETY: as in `recvmsg`.
    Ret::of(unsafe { libc::sendmmsg(fd, all.as_mut_ptr(), count, flags) })
}

/// `close`.
pub fn close(fd: c_int) -> Ret {
    // SAFETY: no pointers; the cases own the descriptors that they close.
    Ret::of(unsafe { libc::close(fd) })
}

/// `shutdown`.
pub fn shutdown(fd: c_int, how: c_int) -> Ret {
    // SAFETY: no pointers.
    Ret::of(unsafe { libc::shutdown(fd, how) })
}

/// `dup`.
pub fn dup(fd: c_int) -> Ret {
    // SAFETY: no pointers.
    Ret::of(unsafe { libc::dup(fd) })
}

/// `ioctl` with an int behind its argument.
pub fn ioctl(fd: c_int, request: libc::c_ulong, value: &mut c_int) -> Ret {
    // SAFETY: every request used with this takes a pointer to an int.
    Ret::of(unsafe { libc::ioctl(fd, request, ptr::from_mut(value)) })
}

/// `fcntl` with a number.
pub fn fcntl(fd: c_int, command: c_int, value: c_int) -> Ret {
    // SAFETY: every command used with this takes a number.
    Ret::of(unsafe { libc::fcntl(fd, command, value) })
}

/// Switches `O_NONBLOCK`.
pub fn nonblocking(fd: c_int, on: bool) {
    let old = fcntl(fd, libc::F_GETFL, 0).expect("F_GETFL");
    let new = if on { old | libc::O_NONBLOCK } else { old & !libc::O_NONBLOCK };
    fcntl(fd, libc::F_SETFL, new).expect("F_SETFL");
}

/// `setsockopt` of any plain value.
pub fn setsockopt<T: Copy>(fd: c_int, level: c_int, name: c_int, value: T) -> Ret {
    let len = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0);
    let from = (&raw const value).cast();
    // SAFETY: the value lives here and the length is its own.
    Ret::of(unsafe { libc::setsockopt(fd, level, name, from, len) })
}

/// `getsockopt` of any plain value, which must be there.
pub fn getsockopt<T: Copy + Default>(fd: c_int, level: c_int, name: c_int) -> Result<T, Ret> {
    let mut value = T::default();
    let mut len = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0);
    let to = (&raw mut value).cast();
    // SAFETY: the value lives here and the length is its own.
    let ret = Ret::of(unsafe { libc::getsockopt(fd, level, name, to, &raw mut len) });
    if ret.value < 0 {
        Err(ret)
    } else {
        Ok(value)
    }
}

/// The pending error of a socket, taken.
pub fn so_error(fd: c_int) -> c_int {
    getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(-1)
}

fn loopback(port: u16) -> sockaddr_in {
    sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    }
}

/// A TCP socket.
pub fn socket() -> c_int {
    // SAFETY: no pointers.
    Ret::of(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })
        .expect("socket")
}

/// `connect` to a port of this host.
pub fn connect(fd: c_int, port: u16) -> Ret {
    let to = loopback(port);
    let len = libc::socklen_t::try_from(size_of::<sockaddr_in>()).unwrap_or(0);
    // SAFETY: the address lives here and the length is its own.
    Ret::of(unsafe { libc::connect(fd, (&raw const to).cast(), len) })
}

/// `accept`.
pub fn accept(fd: c_int) -> Ret {
    // SAFETY: null pointers are allowed.
    Ret::of(unsafe { libc::accept(fd, ptr::null_mut(), ptr::null_mut()) })
}
