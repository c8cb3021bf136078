//! The calls that send.

use super::{pick, Means};
use crate::harness::net::{close, send, Errno, Fd, Res};
use crate::harness::process;
use crate::libc_call as call;
use crate::soak::state::Kind;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Bytes that a pipe takes.
const PIPE: usize = 64 << 10;
/// Bytes of a `dprintf`.
const CHARS: usize = 8;

/// These take flags.
const PLAIN: &[Kind] =
    &[Kind::Send, Kind::SendTo, Kind::SendMsg, Kind::SendMmsg, Kind::SendMore, Kind::Send];
/// These do not: for a nonblocking socket, or one that may block.
const WHOLE: &[Kind] =
    &[Kind::Write, Kind::Writev, Kind::Sendfile, Kind::SpliceOut, Kind::Vmsplice, Kind::Write];
/// These lose count where a call ends with a part.
const STDIO: &[Kind] = &[Kind::Dprintf, Kind::Fwrite];

extern "C" {
    fn dprintf(fd: libc::c_int, format: *const libc::c_char, ...) -> libc::c_int;
}

/// A message in two parts.
pub(super) fn parts(data: &mut [u8]) -> [libc::iovec; 2] {
    let (a, b) = data.split_at_mut(data.len() / 3);
    [a, b].map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() })
}

pub(super) fn message(parts: &mut [libc::iovec]) -> libc::mmsghdr {
    // SAFETY: plain numbers and pointers, for which zero is valid.
    let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
    message.msg_hdr.msg_iov = parts.as_mut_ptr();
    message.msg_hdr.msg_iovlen = parts.len() as _;
    message
}

fn pipe() -> [OwnedFd; 2] {
    let (out, into) = process::pipe();
    // SAFETY: new descriptors, which nobody else has.
    [out, into].map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

fn by_sendfile(fd: Fd, data: &[u8]) -> Res {
    let file = call!(libc::memfd_create(c"soak".as_ptr(), libc::MFD_CLOEXEC))?;
    // SAFETY: a new descriptor, which nobody else has.
    let file = unsafe { OwnedFd::from_raw_fd(i32::try_from(file).unwrap()) };
    assert_eq!(
        call!(libc::write(file.as_raw_fd(), data.as_ptr().cast(), data.len())),
        Ok(data.len())
    );
    let mut at: libc::off_t = 0;
    call!(libc::sendfile(fd, file.as_raw_fd(), &mut at, data.len()))
}

fn by_splice(fd: Fd, data: &[u8]) -> Res {
    let [out, into] = pipe();
    let len = data.len().min(PIPE);
    assert_eq!(call!(libc::write(into.as_raw_fd(), data.as_ptr().cast(), len)), Ok(len));
    let none = std::ptr::null_mut();
    call!(libc::splice(out.as_raw_fd(), none, fd, none, len, 0))
}

/// Pages that are given away: the kernel may send them after the call.
fn by_vmsplice(fd: Fd, data: &[u8]) -> Res {
    let [out, into] = pipe();
    let len = data.len().min(PIPE / 2);
    let (access, own) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let null = std::ptr::null_mut();
    // SAFETY: a mapping of its own, at an address of the kernel's choice.
    let pages = unsafe { libc::mmap(null, len, access, own, -1, 0) };
    assert_ne!(pages, libc::MAP_FAILED);
    // SAFETY: `len` bytes were just mapped, and `data` has as many.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), pages.cast(), len) };
    let part = libc::iovec { iov_base: pages, iov_len: len };
    let put = call!(libc::vmsplice(into.as_raw_fd(), &part, 1, 0)).unwrap();
    let none = std::ptr::null_mut();
    let sent = call!(libc::splice(out.as_raw_fd(), none, fd, none, put, 0));
    // SAFETY: the mapping made above, of which no reference is left.
    unsafe { libc::munmap(pages, len) };
    sent
}

fn by_dprintf(fd: Fd, data: &[u8]) -> Res {
    let at = |index: usize| libc::c_uint::from(data[index]);
    if data.len() < CHARS {
        return send(fd, data, libc::MSG_NOSIGNAL);
    }
    call!(dprintf(
        fd,
        c"%c%c%c%c%c%c%c%c".as_ptr(),
        at(0),
        at(1),
        at(2),
        at(3),
        at(4),
        at(5),
        at(6),
        at(7)
    ))
}

fn by_stream(fd: Fd, data: &[u8]) -> Res {
    let copy = process::dup(fd)?;
    // SAFETY: the mode is a C string.
    let stream = unsafe { libc::fdopen(copy, c"w".as_ptr()) };
    assert!(!stream.is_null(), "fdopen: {}", Errno::last());
    let put = call!(libc::fwrite(data.as_ptr().cast(), 1, data.len(), stream))?;
    // It says how much it took, not that it failed.
    let error = Errno::last();
    let flushed = if put < data.len() { Err(error) } else { call!(libc::fflush(stream)) };
    let closed = call!(libc::fclose(stream));
    flushed.and(closed).map(|_| put)
}

/// Several messages by one call.
fn by_messages(fd: Fd, data: &mut [u8], flags: i32) -> Res {
    let (a, b) = data.split_at_mut(data.len() / 2);
    let [mut a, mut b] = [parts(a), parts(b)];
    let mut messages = [message(&mut a), message(&mut b)];
    let count = call!(libc::sendmmsg(fd, messages.as_mut_ptr(), 2, flags))?;
    Ok(messages[..count].iter().map(|message| message.msg_len as usize).sum())
}

/// Sends by one of several calls. A call that cannot say MSG_NOSIGNAL is made all the same: the
/// program ignores SIGPIPE, as Rust's do.
pub fn send_by(way: u64, fd: Fd, data: &mut [u8], means: Means) -> (Kind, Res) {
    let kind = match (means.flags, means.patient) {
        (0, true) => pick(way, &[PLAIN, WHOLE, STDIO]),
        (0, false) => pick(way, &[PLAIN, WHOLE]),
        _ => pick(way, &[PLAIN]),
    };
    let flags = means.flags | libc::MSG_NOSIGNAL;
    let sent = match kind {
        Kind::Write => call!(libc::write(fd, data.as_ptr().cast(), data.len())),
        Kind::Writev => {
            let (a, b) = data.split_at(data.len() / 3);
            let parts = [IoSlice::new(a), IoSlice::new(b)];
            call!(libc::writev(fd, parts.as_ptr().cast(), 2))
        }
        Kind::SendMsg => call!(libc::sendmsg(fd, &message(&mut parts(data)).msg_hdr, flags)),
        Kind::SendMmsg => by_messages(fd, data, flags),
        Kind::SendTo => {
            let none = std::ptr::null();
            call!(libc::sendto(fd, data.as_ptr().cast(), data.len(), flags, none, 0))
        }
        Kind::SendMore if means.more => send(fd, data, flags | libc::MSG_MORE),
        Kind::Sendfile => by_sendfile(fd, data),
        Kind::SpliceOut => by_splice(fd, data),
        Kind::Vmsplice => by_vmsplice(fd, data),
        Kind::Dprintf => by_dprintf(fd, data),
        Kind::Fwrite => by_stream(fd, data),
        _ => send(fd, data, flags),
    };
    (kind, sent)
}

/// A number that is not used any more.
pub(super) fn drop_pipe(ends: [Fd; 2]) {
    for end in ends {
        close(end).unwrap();
    }
}
