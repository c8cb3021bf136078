//! The calls that receive.

use super::send::{drop_pipe, message, parts};
use super::{pick, Means};
use crate::harness::net::{recv, Errno, Fd, Res};
use crate::harness::process;
use crate::libc_call as call;
use crate::soak::state::Kind;
use std::io::IoSliceMut;

/// These take flags.
const PLAIN: &[Kind] = &[
    Kind::Recv,
    Kind::RecvFrom,
    Kind::RecvMsg,
    Kind::RecvMmsg,
    Kind::Peek,
    Kind::WaitAll,
    Kind::Recv,
    Kind::Recv,
];
/// These do not.
const WHOLE: &[Kind] = &[Kind::Read, Kind::Readv, Kind::Read, Kind::Trunc];
const SPLICE: &[Kind] = &[Kind::SpliceIn];
/// This loses count where a call ends with a part.
const STDIO: &[Kind] = &[Kind::Fread];

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// So many bytes, in the buffer.
    Bytes(usize),
    /// So many bytes, which were dropped.
    Dropped(usize),
}

fn by_messages(fd: Fd, data: &mut [u8], flags: i32) -> Res {
    let half = data.len() / 2;
    let (a, b) = data.split_at_mut(half);
    let [mut a, mut b] = [parts(a), parts(b)];
    let mut messages = [message(&mut a), message(&mut b)];
    // A buffer of no bytes would be an end.
    let count = if half == 0 { 1 } else { 2 };
    let first = usize::from(half == 0);
    let flags = flags | libc::MSG_WAITFORONE;
    let none = std::ptr::null_mut();
    let from = messages[first..].as_mut_ptr();
    let count = call!(libc::recvmmsg(fd, from, count, flags, none))?;
    let lens = messages[first..].iter().map(|message| message.msg_len as usize);
    let lens: Vec<usize> = lens.take(count).collect();
    if let [first, second] = lens[..] {
        data.copy_within(half..half + second, first);
    }
    Ok(lens.iter().sum())
}

fn by_splice(fd: Fd, data: &mut [u8]) -> Res {
    let (out, into) = process::pipe();
    let none = std::ptr::null_mut();
    let moved = call!(libc::splice(fd, none, into, none, data.len(), 0));
    if let Ok(n) = moved {
        let mut have = 0;
        while have < n {
            let to = data[have..n].as_mut_ptr().cast();
            have += call!(libc::read(out, to, n - have)).unwrap();
        }
    }
    drop_pipe([out, into]);
    moved
}

/// What is looked at comes again.
fn by_peek(fd: Fd, data: &mut [u8], flags: i32) -> Res {
    let mut seen = vec![0; data.len()];
    let n = recv(fd, &mut seen, flags | libc::MSG_PEEK)?;
    if n == 0 {
        return Ok(0);
    }
    let got = recv(fd, &mut data[..n], flags)?;
    assert_eq!(seen[..got], data[..got], "MSG_PEEK: strange bytes");
    Ok(got)
}

/// Unbuffered, so that the stream takes nothing ahead.
fn by_stream(fd: Fd, data: &mut [u8]) -> Res {
    let copy = process::dup(fd)?;
    // SAFETY: the mode is a C string.
    let stream = unsafe { libc::fdopen(copy, c"r".as_ptr()) };
    assert!(!stream.is_null(), "fdopen: {}", Errno::last());
    // SAFETY: the stream lives; without a buffer none is passed.
    unsafe { libc::setvbuf(stream, std::ptr::null_mut(), libc::_IONBF, 0) };
    let got = call!(libc::fread(data.as_mut_ptr().cast(), 1, data.len(), stream));
    call!(libc::fclose(stream)).unwrap();
    got
}

/// Receives by one of several calls.
pub fn recv_by(way: u64, fd: Fd, data: &mut [u8], means: Means) -> (Kind, Result<Taken, Errno>) {
    let splice = if means.splices { SPLICE } else { &[] };
    let kind = match (means.flags, means.patient) {
        (0, true) => pick(way, &[PLAIN, WHOLE, splice, STDIO]),
        (0, false) => pick(way, &[PLAIN, WHOLE, splice]),
        _ => pick(way, &[PLAIN]),
    };
    let flags = means.flags;
    let got = match kind {
        Kind::Read => call!(libc::read(fd, data.as_mut_ptr().cast(), data.len())),
        Kind::Readv => {
            let (a, b) = data.split_at_mut(data.len() / 3);
            let mut parts = [IoSliceMut::new(a), IoSliceMut::new(b)];
            call!(libc::readv(fd, parts.as_mut_ptr().cast(), 2))
        }
        Kind::RecvFrom => {
            let (nobody, none) = (std::ptr::null_mut(), std::ptr::null_mut());
            let to = data.as_mut_ptr().cast();
            call!(libc::recvfrom(fd, to, data.len(), flags, nobody, none))
        }
        Kind::RecvMsg => call!(libc::recvmsg(fd, &mut message(&mut parts(data)).msg_hdr, flags)),
        Kind::RecvMmsg => by_messages(fd, data, flags),
        Kind::Peek => by_peek(fd, data, flags),
        Kind::WaitAll => recv(fd, data, flags | libc::MSG_WAITALL),
        Kind::Trunc => return (kind, recv(fd, data, flags | libc::MSG_TRUNC).map(Taken::Dropped)),
        Kind::SpliceIn => by_splice(fd, data),
        Kind::Fread => by_stream(fd, data),
        _ => recv(fd, data, flags),
    };
    (kind, got.map(Taken::Bytes))
}
