//! How much of a closed TCP socket's stream is unread: exactly, and without taking its error.
//!
//! The kernel counts a FIN as a byte that was received. A live socket's state tells whether there was
//! one; that of a closed one does not, since a reset may have come behind it. TCP_INQ counts an
//! unread FIN where FIONREAD does not, and TCP_ZEROCOPY_RECEIVE fails on a socket with nothing to read
//! only after a FIN (`tcp_inq_hint` and `tcp_zerocopy_receive` in `net/ipv4/tcp.c`).
use super::raw;
use crate::errno::Errno;
use libc::{c_int, iovec, msghdr};

const SIOCINQ: u64 = 0x541b;
const TCP_ZEROCOPY_RECEIVE: c_int = 35;
const TCP_INQ: c_int = 36;

/// Words for the control messages of a look: a time stamp of three times and the hint fit.
const CONTROL: usize = 32;

/// Sets an option for as long as this lives.
struct For(c_int, c_int, c_int, c_int);

impl For {
    fn new(fd: c_int, level: c_int, name: c_int) -> Result<Self, Errno> {
        let mut before: c_int = 0;
        raw::getsockopt(fd, level, name, &mut before)?;
        raw::setsockopt(fd, level, name, &1_i32)?;
        Ok(Self(fd, level, name, before))
    }
}

impl Drop for For {
    fn drop(&mut self) {
        let Self(fd, level, name, before) = *self;
        let _ = raw::setsockopt(fd, level, name, &before);
    }
}

/// Bytes that wait to be read, urgent ones too, and one more for a FIN that was received.
pub(super) fn unread_with_fin(fd: c_int) -> Result<u32, Errno> {
    let _all = For::new(fd, libc::SOL_SOCKET, libc::SO_OOBINLINE)?;
    // With nothing there a look would take the error of the socket.
    if raw::ioctl_int(fd, SIOCINQ)? == 0 {
        return Ok(u32::from(has_fin(fd)));
    }
    let _hint = For::new(fd, libc::IPPROTO_TCP, TCP_INQ)?;
    hint(fd)
}

/// Whether a socket with nothing to read has got a FIN, read or not.
fn has_fin(fd: c_int) -> bool {
    // struct tcp_zerocopy_receive up to `recv_skip_hint`: a longer one takes the error of the socket.
    let mut nothing = [0_u64; 2];
    match raw::getsockopt(fd, libc::IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, &mut nothing) {
        Err(Errno(libc::EIO)) => true,
        Ok(_) => false,
        // An older kernel: a socket that closed without an error was closed by FINs.
        Err(_) => raw::poll_now(fd, 0) & libc::POLLERR == 0,
    }
}

/// Looks at the first byte, for what comes with it.
fn hint(fd: c_int) -> Result<u32, Errno> {
    let (mut byte, mut control) = ([0_u8; 1], [0_u64; CONTROL]);
    let mut data = iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: requires an all-zero bit pattern to be a valid `msghdr`: integers and null pointers.
    let mut header: msghdr = unsafe { core::mem::zeroed() };
    header.msg_iov = &mut data;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = CONTROL * 8;
    raw::recvmsg(fd, &mut header, libc::MSG_PEEK)?;
    // struct cmsghdr: a 64-bit length, level, type; the data follow, in whole words.
    let mut rest = control.get(..header.msg_controllen / 8).unwrap_or_default();
    while let [len, kind, value, ..] = *rest {
        if kind == u64::from(libc::IPPROTO_TCP.unsigned_abs()) | (TCP_INQ as u64) << 32 {
            return Ok(value as u32);
        }
        let words = usize::try_from(len.div_ceil(8)).unwrap_or(usize::MAX).max(2);
        rest = rest.get(words..).unwrap_or_default();
    }
    Err(Errno::PROTO)
}
