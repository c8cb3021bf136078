//! The calls that move bytes, by turns.

use crate::harness::net::{recv, send, Errno, Fd};
use crate::libc_call as call;
use std::io::{IoSlice, IoSliceMut};

/// A buffer in two parts, as vectored calls want it.
fn parts(data: &mut [u8]) -> [libc::iovec; 2] {
    let (a, b) = data.split_at_mut(data.len() / 3);
    [a, b].map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() })
}

fn message(parts: &mut [libc::iovec; 2]) -> libc::mmsghdr {
    // SAFETY: plain numbers and pointers, for which zero is valid.
    let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
    message.msg_hdr.msg_iov = parts.as_mut_ptr();
    message.msg_hdr.msg_iovlen = 2;
    message
}

/// Sends by one of several calls. A call that cannot say MSG_NOSIGNAL is made all the same: the
/// program ignores SIGPIPE, as Rust's do.
pub fn send_by(way: u64, fd: Fd, data: &mut [u8], flags: i32) -> Result<usize, Errno> {
    let whole = flags & !libc::MSG_NOSIGNAL == 0;
    match way % 5 {
        0 if whole => call!(libc::write(fd, data.as_ptr().cast(), data.len())),
        1 if whole => {
            let (a, b) = data.split_at(data.len() / 3);
            let parts = [IoSlice::new(a), IoSlice::new(b)];
            call!(libc::writev(fd, parts.as_ptr().cast(), 2))
        }
        2 => call!(libc::sendmsg(fd, &message(&mut parts(data)).msg_hdr, flags)),
        3 => {
            let mut parts = parts(data);
            let mut message = message(&mut parts);
            call!(libc::sendmmsg(fd, &mut message, 1, flags)).map(|_| message.msg_len as usize)
        }
        _ => send(fd, data, flags),
    }
}

/// Receives by one of several calls.
pub fn recv_by(way: u64, fd: Fd, data: &mut [u8], flags: i32) -> Result<usize, Errno> {
    match way % 5 {
        0 if flags == 0 => call!(libc::read(fd, data.as_mut_ptr().cast(), data.len())),
        1 if flags == 0 => {
            let (a, b) = data.split_at_mut(data.len() / 3);
            let mut parts = [IoSliceMut::new(a), IoSliceMut::new(b)];
            call!(libc::readv(fd, parts.as_mut_ptr().cast(), 2))
        }
        2 => call!(libc::recvmsg(fd, &mut message(&mut parts(data)).msg_hdr, flags)),
        3 => {
            let mut parts = parts(data);
            let mut message = message(&mut parts);
            let none = std::ptr::null_mut();
            call!(libc::recvmmsg(fd, &mut message, 1, flags.cast_unsigned().cast_signed(), none))
                .map(|_| message.msg_len as usize)
        }
        _ => recv(fd, data, flags),
    }
}
