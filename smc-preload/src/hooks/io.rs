//! One buffer or several, in or out.
use crate::dispatch::{hook, ret, set_errno, tracked};
use libc::{c_int, c_void, iovec, off_t, size_t, sockaddr, socklen_t, ssize_t};
use smc_core::engine;
use smc_core::errno::Errno;

/// `RWF_NOWAIT` of `preadv2`: not in libc's headers for Rust.
const RWF_NOWAIT: c_int = 8;
/// The flags from RWF_HIPRI to RWF_NOAPPEND, which the kernel takes for any file.
const RWF_OF_SOCKETS: c_int = 0x3f;
/// The longest address that the kernel takes.
const ADDR_MAX: socklen_t = size_of::<libc::sockaddr_storage>() as socklen_t;

hook! {
    fn read(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t,
    if tracked(fd) && len != 0 => |real| ret(engine::recv(fd, buf, len, 0, real));

    fn recv(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t,
    if tracked(fd) => |real| ret(engine::recv(fd, buf, len, flags, real));

    fn recvfrom(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int, addr: *mut sockaddr, addr_len: *mut socklen_t) -> ssize_t,
    if tracked(fd) => |real| {
        let got: ssize_t = ret(engine::recv(fd, buf, len, flags, real));
        // SAFETY: the program's own pointers.
        if got < 0 || addr.is_null() { got } else { unsafe { no_address(got, addr_len) } }
    };

    fn readv(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t,
    if tracked(fd) => |real| ret(engine::recv_vec(fd, iov, count, 0, real));

    fn preadv2(fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t,
    if offset == -1 && tracked(fd) => |real| ret(message_flags(flags).and_then(|flags| engine::recv_vec(fd, iov, count, flags, real)));

    fn write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t,
    if tracked(fd) => |real| ret(engine::send(fd, buf, len, 0, real));

    fn send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t,
    if tracked(fd) => |real| ret(engine::send(fd, buf, len, flags, real));

    fn sendto(fd: c_int, buf: *const c_void, len: size_t, flags: c_int, addr: *const sockaddr, addr_len: socklen_t) -> ssize_t,
    if tracked(fd) && (addr.is_null() || addr_len <= ADDR_MAX) => |real| ret(engine::send(fd, buf, len, flags, real));

    fn writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t,
    if tracked(fd) => |real| ret(engine::send_vec(fd, iov, count, 0, real));

    fn pwritev2(fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t,
    if offset == -1 && tracked(fd) => |real| ret(message_flags(flags).and_then(|flags| engine::send_vec(fd, iov, count, flags, real)));
}

/// The flags of `preadv2` as flags of `recvmsg`. Those about files mean nothing to a socket; those
/// that no socket knows are refused.
fn message_flags(flags: c_int) -> Result<c_int, Errno> {
    if flags & !RWF_OF_SOCKETS != 0 {
        Err(Errno(libc::EOPNOTSUPP))
    } else if flags & RWF_NOWAIT != 0 {
        Ok(libc::MSG_DONTWAIT)
    } else {
        Ok(0)
    }
}

/// What the kernel does with the address arguments of `recvfrom` on a stream: the bytes are
/// taken, the address length becomes 0.
///
/// # Safety
/// `addr_len` is null or valid.
unsafe fn no_address(got: ssize_t, addr_len: *mut socklen_t) -> ssize_t {
    if addr_len.is_null() {
        set_errno(libc::EFAULT);
        return -1;
    }
    // SAFETY: not null, so valid.
    unsafe { *addr_len = 0 };
    got
}
