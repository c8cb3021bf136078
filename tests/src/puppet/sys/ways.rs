//! Each way to read and to write, with the same arguments, so that a case can try them all.

use super::{msg, Mem};
use crate::puppet::show::Ret;
use libc::{c_int, mmsghdr};
use std::ptr;

/// The ways to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum In {
    /// `read`
    Read,
    /// `recv`
    Recv,
    /// `recvfrom` without an address
    Recvfrom,
    /// `readv` of one buffer
    Readv,
    /// `recvmsg` of one buffer
    Recvmsg,
    /// `recvmmsg` of one message of one buffer; its length, not the count, is the result
    Recvmmsg,
}

impl In {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Recv, Self::Recvfrom, Self::Readv, Self::Recvmsg, Self::Recvmmsg];
    /// Those that take flags.
    pub const FLAGS: [Self; 3] = [Self::Recv, Self::Recvmsg, Self::Recvfrom];

    /// Makes the call; `read` and `readv` have no flags.
    pub fn call(self, fd: c_int, to: impl Into<Mem>, flags: c_int) -> Ret {
        let to = to.into();
        let mut one = [to.iov()];
        let mut header = msg(&mut one);
        // SAFETY: the vector and headers live here; the kernel checks the address of the buffer,
        // which is either the caller's own memory or bad on purpose.
        unsafe {
            match self {
                Self::Read => Ret::of_size(libc::read(fd, to.ptr(), to.len)),
                Self::Recv => Ret::of_size(libc::recv(fd, to.ptr(), to.len, flags)),
                Self::Recvfrom => {
                    let none = ptr::null_mut();
                    let n = libc::recvfrom(fd, to.ptr(), to.len, flags, none, ptr::null_mut());
                    Ret::of_size(n)
                }
                Self::Readv => Ret::of_size(libc::readv(fd, one.as_ptr(), 1)),
                Self::Recvmsg => Ret::of_size(libc::recvmsg(fd, &raw mut header, flags)),
                Self::Recvmmsg => {
                    let mut many = [mmsghdr { msg_hdr: header, msg_len: 0 }];
                    let n =
                        Ret::of(libc::recvmmsg(fd, many.as_mut_ptr(), 1, flags, ptr::null_mut()));
                    if n.value == 1 {
                        Ret::of(many[0].msg_len)
                    } else {
                        n
                    }
                }
            }
        }
    }
}

/// The ways to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// `write`
    Write,
    /// `send`
    Send,
    /// `sendto` without an address
    Sendto,
    /// `writev` of one buffer
    Writev,
    /// `sendmsg` of one buffer
    Sendmsg,
    /// `sendmmsg` of one message of one buffer; its length, not the count, is the result
    Sendmmsg,
}

impl Out {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Write, Self::Send, Self::Sendto, Self::Writev, Self::Sendmsg, Self::Sendmmsg];

    /// Makes the call; `write` and `writev` have no flags.
    pub fn call(self, fd: c_int, from: impl Into<Mem>, flags: c_int) -> Ret {
        let from = from.into();
        let mut one = [from.iov()];
        let header = msg(&mut one);
        // SAFETY: as in `In::call`; the kernel only reads.
        unsafe {
            match self {
                Self::Write => Ret::of_size(libc::write(fd, from.ptr(), from.len)),
                Self::Send => Ret::of_size(libc::send(fd, from.ptr(), from.len, flags)),
                Self::Sendto => {
                    Ret::of_size(libc::sendto(fd, from.ptr(), from.len, flags, ptr::null(), 0))
                }
                Self::Writev => Ret::of_size(libc::writev(fd, one.as_ptr(), 1)),
                Self::Sendmsg => Ret::of_size(libc::sendmsg(fd, &raw const header, flags)),
                Self::Sendmmsg => {
                    let mut many = [mmsghdr { msg_hdr: header, msg_len: 0 }];
                    let n = Ret::of(libc::sendmmsg(fd, many.as_mut_ptr(), 1, flags));
                    if n.value == 1 {
                        Ret::of(many[0].msg_len)
                    } else {
                        n
                    }
                }
            }
        }
    }
}
