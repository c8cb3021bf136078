//! Sockets for case programs: each function is one libc call, its result a value or an errno.
//!
//! The standard library's sockets would do, but they hide calls, retry on EINTR and set flags; a
//! case must make the very calls that it is about.

mod addr;
mod errno;
mod flow;

pub use addr::Addr;
pub use errno::{name_of, Errno};
pub use flow::{
    accept_warm, dial, dial_warm, fill, pair_warm, recv_exact, recv_to_end, send_all, send_file,
    serve, serve_at, warm_client, warm_server,
};

/// A file descriptor as the program sees it.
pub type Fd = i32;

/// What a libc call returned.
pub type Res = Result<usize, Errno>;

/// Turns a libc return value into a result; read errno before anything else can change it.
pub fn check(ret: isize) -> Res {
    usize::try_from(ret).map_err(|_| Errno::last())
}

/// `check`, for calls that return a file descriptor.
pub fn check_fd(ret: i32) -> Result<Fd, Errno> {
    if ret < 0 {
        Err(Errno::last())
    } else {
        Ok(ret)
    }
}

/// Calls libc and checks the result. Only for calls whose pointers come from live Rust objects
/// with the length passed beside them.
#[macro_export]
macro_rules! libc_call {
    ($call:expr) => {
        // SAFETY: every pointer in the call comes from a live reference, or is null where libc
        // allows it, and the length beside it is that of the object.
        $crate::harness::net::check(unsafe { $call } as isize)
    };
}
use crate::libc_call as call;

/// What a call did, in transcript form: the number or the errno's name.
pub fn show(res: Res) -> String {
    match res {
        Ok(n) => n.to_string(),
        Err(e) => e.to_string(),
    }
}

/// `show` for calls whose value varies between runs, such as a new descriptor.
pub fn show_ok<T>(res: &Result<T, Errno>) -> String {
    match res {
        Ok(_) => "ok".to_owned(),
        Err(e) => e.to_string(),
    }
}

/// socket(2).
pub fn socket(domain: i32, kind: i32) -> Result<Fd, Errno> {
    // SAFETY: no pointers.
    check_fd(unsafe { libc::socket(domain, kind, 0) })
}

/// A blocking IPv4 TCP socket.
pub fn tcp() -> Fd {
    socket(libc::AF_INET, libc::SOCK_STREAM).unwrap()
}

/// A nonblocking IPv4 TCP socket.
pub fn tcp_nonblocking() -> Fd {
    socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK).unwrap()
}

/// bind(2).
pub fn bind(fd: Fd, addr: &Addr) -> Res {
    call!(libc::bind(fd, addr.as_ptr(), addr.len()))
}

/// listen(2).
pub fn listen(fd: Fd, backlog: i32) -> Res {
    call!(libc::listen(fd, backlog))
}

/// connect(2).
pub fn connect(fd: Fd, addr: &Addr) -> Res {
    call!(libc::connect(fd, addr.as_ptr(), addr.len()))
}

/// accept(2) without the address.
pub fn accept(fd: Fd) -> Result<Fd, Errno> {
    // SAFETY: both pointers may be null.
    check_fd(unsafe { libc::accept(fd, std::ptr::null_mut(), std::ptr::null_mut()) })
}

/// accept4(2), with the peer's address.
pub fn accept4(fd: Fd, flags: i32) -> Result<(Fd, Addr), Errno> {
    let mut addr = Addr::empty();
    let (ptr, len) = addr.out();
    // SAFETY: `ptr` has room for `*len` bytes and both live as long as `addr`.
    let fd = check_fd(unsafe { libc::accept4(fd, ptr, len, flags) })?;
    Ok((fd, addr))
}

/// getsockname(2).
pub fn getsockname(fd: Fd) -> Result<Addr, Errno> {
    let mut addr = Addr::empty();
    let (ptr, len) = addr.out();
    call!(libc::getsockname(fd, ptr, len)).map(|_| addr)
}

/// getpeername(2).
pub fn getpeername(fd: Fd) -> Result<Addr, Errno> {
    let mut addr = Addr::empty();
    let (ptr, len) = addr.out();
    call!(libc::getpeername(fd, ptr, len)).map(|_| addr)
}

/// send(2).
pub fn send(fd: Fd, data: &[u8], flags: i32) -> Res {
    call!(libc::send(fd, data.as_ptr().cast(), data.len(), flags))
}

/// recv(2).
pub fn recv(fd: Fd, data: &mut [u8], flags: i32) -> Res {
    call!(libc::recv(fd, data.as_mut_ptr().cast(), data.len(), flags))
}

/// write(2).
pub fn write(fd: Fd, data: &[u8]) -> Res {
    call!(libc::write(fd, data.as_ptr().cast(), data.len()))
}

/// read(2).
pub fn read(fd: Fd, data: &mut [u8]) -> Res {
    call!(libc::read(fd, data.as_mut_ptr().cast(), data.len()))
}

/// shutdown(2).
pub fn shutdown(fd: Fd, how: i32) -> Res {
    call!(libc::shutdown(fd, how))
}

/// close(2).
pub fn close(fd: Fd) -> Res {
    call!(libc::close(fd))
}

/// setsockopt(2) of an option of any plain type.
pub fn set_option<T: Copy>(fd: Fd, level: i32, option: i32, value: T) -> Res {
    let len = u32::try_from(size_of::<T>()).unwrap();
    call!(libc::setsockopt(fd, level, option, std::ptr::from_ref(&value).cast(), len))
}

/// getsockopt(2) of an `int` option.
pub fn get_option(fd: Fd, level: i32, option: i32) -> Result<i32, Errno> {
    let mut value = 0_i32;
    let mut len = u32::try_from(size_of::<i32>()).unwrap();
    call!(libc::getsockopt(fd, level, option, std::ptr::from_mut(&mut value).cast(), &mut len))?;
    Ok(value)
}

/// The pending error of a socket, by name, which getting it clears.
pub fn so_error(fd: Fd) -> String {
    match get_option(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
        Ok(0) => "0".to_owned(),
        Ok(code) => name_of(code),
        Err(e) => e.to_string(),
    }
}

/// SO_LINGER.
pub fn set_linger(fd: Fd, on: bool, seconds: i32) -> Res {
    let value = libc::linger { l_onoff: i32::from(on), l_linger: seconds };
    set_option(fd, libc::SOL_SOCKET, libc::SO_LINGER, value)
}

/// SO_RCVTIMEO or SO_SNDTIMEO.
pub fn set_timeout(fd: Fd, option: i32, millis: i64) -> Res {
    let value = libc::timeval { tv_sec: millis / 1000, tv_usec: millis % 1000 * 1000 };
    set_option(fd, libc::SOL_SOCKET, option, value)
}

/// Whether O_NONBLOCK is set.
pub fn is_nonblocking(fd: Fd) -> bool {
    let flags = call!(libc::fcntl(fd, libc::F_GETFL)).unwrap();
    flags & usize::try_from(libc::O_NONBLOCK).unwrap() != 0
}

/// Sets or clears O_NONBLOCK.
pub fn set_nonblocking(fd: Fd, on: bool) {
    let flags = i32::try_from(call!(libc::fcntl(fd, libc::F_GETFL)).unwrap()).unwrap();
    let flags = if on { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
    call!(libc::fcntl(fd, libc::F_SETFL, flags)).unwrap();
}

/// Whether the descriptor stays open over an exec.
pub fn set_inherited(fd: Fd, inherited: bool) {
    let flags = if inherited { 0 } else { libc::FD_CLOEXEC };
    call!(libc::fcntl(fd, libc::F_SETFD, flags)).unwrap();
}

/// An `ioctl` that yields an `int`, such as FIONREAD.
pub fn ioctl_int(fd: Fd, request: u64) -> Result<i32, Errno> {
    let mut value = 0_i32;
    call!(libc::ioctl(fd, request, std::ptr::from_mut(&mut value)))?;
    Ok(value)
}
