//! Descriptors sent over a Unix socket (SCM_RIGHTS): one at most with each message, or many.
use super::raw;
use crate::errno::Errno;
use libc::{c_int, cmsghdr, iovec, msghdr};

const HEADER: usize = core::mem::size_of::<cmsghdr>();
const SPACE: usize = HEADER + 8;

/// Room for one control message with one descriptor, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; SPACE]);

fn message(data: &mut iovec, control: &mut Control, with: bool) -> msghdr {
    // SAFETY: requires an all-zero bit pattern to be a valid `msghdr`: integers and null pointers.
    let mut header: msghdr = unsafe { core::mem::zeroed() };
    header.msg_iov = data;
    header.msg_iovlen = 1;
    if with {
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = SPACE as _;
    }
    header
}

/// Sends one message, with a descriptor if there is one.
pub fn send(socket: c_int, bytes: &[u8], fd: Option<c_int>) -> Result<(), Errno> {
    let mut data = iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; SPACE]);
    if let Some(fd) = fd {
        let len = (HEADER + 4) as u64;
        control.0[..8].copy_from_slice(&len.to_ne_bytes());
        control.0[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
        control.0[12..16].copy_from_slice(&libc::SCM_RIGHTS.to_ne_bytes());
        control.0[16..20].copy_from_slice(&fd.to_ne_bytes());
    }
    let mut header = message(&mut data, &mut control, fd.is_some());
    if fd.is_some() {
        header.msg_controllen = (HEADER + 4) as _;
    }
    match raw::sendmsg(socket, &header, 0) {
        Ok(sent) if sent == bytes.len() => Ok(()),
        Ok(_) => Err(Errno::MSGSIZE),
        Err(errno) => Err(errno),
    }
}

/// Receives one message: its length (0: the other end is gone) and its descriptor, if any.
pub fn recv(socket: c_int, bytes: &mut [u8]) -> Result<(usize, Option<c_int>), Errno> {
    let mut data = iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = Control([0; SPACE]);
    let mut header = message(&mut data, &mut control, true);
    let got = raw::recvmsg(socket, &mut header, 0)?;
    let mut fd = None;
    if header.msg_controllen >= HEADER + 4 {
        let int = |at: usize| {
            let mut word = [0_u8; 4];
            word.copy_from_slice(&control.0[at..at + 4]);
            i32::from_ne_bytes(word)
        };
        if int(8) == libc::SOL_SOCKET && int(12) == libc::SCM_RIGHTS {
            fd = Some(int(16));
        }
    }
    if header.msg_flags & libc::MSG_TRUNC != 0 {
        if let Some(fd) = fd {
            raw::close(fd);
        }
        return Err(Errno::MSGSIZE);
    }
    Ok((got, fd))
}

/// Descriptors that go with one message, at most (`SCM_MAX_FD`).
pub const MANY: usize = 253;

/// Room for one control message with as many descriptors as there may be.
#[repr(C, align(8))]
struct Rights {
    length: usize,
    kind: [c_int; 2],
    fds: [c_int; MANY + 1],
}

fn message_of_rights(byte: &mut iovec, rights: &mut Rights, count: usize) -> msghdr {
    // SAFETY: requires an all-zero bit pattern to be a valid `msghdr`: integers and null pointers.
    let mut header: msghdr = unsafe { core::mem::zeroed() };
    header.msg_iov = byte;
    header.msg_iovlen = 1;
    header.msg_control = (rights as *mut Rights).cast();
    header.msg_controllen = HEADER + 4 * count;
    header
}

/// Sends a message that is nothing but descriptors, [`MANY`] at most.
pub fn send_rights(socket: c_int, fds: &[c_int]) -> Result<(), Errno> {
    let count = fds.len().min(MANY);
    let kind = [libc::SOL_SOCKET, libc::SCM_RIGHTS];
    let mut rights = Rights { length: HEADER + 4 * count, kind, fds: [-1; MANY + 1] };
    rights.fds[..count].copy_from_slice(&fds[..count]);
    let mut byte = iovec { iov_base: c"x".as_ptr().cast_mut().cast(), iov_len: 1 };
    raw::sendmsg(socket, &message_of_rights(&mut byte, &mut rights, count), 0).map(|_| ())
}

/// Copies of the descriptors of such a message, which stays where it is, and how many there are.
pub fn peek_rights(socket: c_int) -> Result<([c_int; MANY], usize), Errno> {
    let mut rights = Rights { length: 0, kind: [0; 2], fds: [-1; MANY + 1] };
    let mut room = [0_u8; 1];
    let mut byte = iovec { iov_base: room.as_mut_ptr().cast(), iov_len: 1 };
    let mut header = message_of_rights(&mut byte, &mut rights, MANY);
    raw::recvmsg(socket, &mut header, libc::MSG_PEEK)?;
    let count = header.msg_controllen.saturating_sub(HEADER) / 4;
    let mut fds = [-1; MANY];
    let count = count.min(rights.length.saturating_sub(HEADER) / 4).min(MANY);
    fds[..count].copy_from_slice(&rights.fds[..count]);
    Ok((fds, count))
}

/// The address of an abstract Unix socket: `sun_family`, a NUL, the name.
pub fn abstract_address(gid: &[u8; 16], out: &mut [u8; 64]) -> usize {
    const PREFIX: &[u8] = b"\0smc-run-";
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
    let mut at = 2;
    for &byte in PREFIX {
        out[at] = byte;
        at += 1;
    }
    for &byte in gid {
        out[at] = DIGITS[usize::from(byte >> 4)];
        out[at + 1] = DIGITS[usize::from(byte & 15)];
        at += 2;
    }
    at
}

/// The user who holds the other end of a connected Unix socket.
pub fn peer_uid(socket: c_int) -> Option<(u32, u32)> {
    let mut cred = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    raw::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, &mut cred).ok()?;
    Some((cred.uid, cred.pid.unsigned_abs()))
}
