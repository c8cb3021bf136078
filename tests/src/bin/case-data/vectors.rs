//! C9: vectors and messages.

use smc_tests::puppet::show;
use smc_tests::puppet::sys::{self, Mem};
use smc_tests::puppet::{wait, Conn, Subject};
use smc_tests::say;
use std::mem::size_of;

/// Cuts memory into pieces of these sizes over and over; the last one takes the rest.
fn cut(whole: Mem, sizes: &[usize], most: usize) -> Vec<Mem> {
    let mut pieces = Vec::new();
    let mut at = 0;
    for &size in sizes.iter().cycle().take(most - 1) {
        let size = size.min(whole.len - at);
        pieces.push(Mem::at(whole.addr + at, size));
        at += size;
    }
    pieces.push(Mem::at(whole.addr + at, whole.len - at));
    pieces
}

const SHAPES: &[(&str, &[usize], usize)] = &[
    ("one", &[0], 1),
    ("empty first", &[0, 0, 7], 3),
    ("uneven", &[1, 0, 4095, 3, 0, 10_000], 40),
    ("single bytes", &[1], 1024),
    ("large", &[70_001], 5),
];

fn send_vector(conn: &Conn, size: usize, sizes: &[usize], most: usize, message: bool) -> show::Ret {
    let data = conn.payload(size);
    let mut vector = sys::iov(&cut(Mem::from(&data[..]), sizes, most));
    let ret = if message {
        sys::sendmsg(conn.fd, &sys::msg(&mut vector), 0)
    } else {
        sys::writev(conn.fd, &vector)
    };
    conn.sent(ret)
}

/// `readv` and `writev` of every shape, large and small, with less and more data than room.
pub(crate) fn vectors(subject: &Subject) {
    let conn = subject.connect();
    for &(name, sizes, most) in SHAPES {
        for size in [1, 100, 4096, 50_000, 400_000] {
            conn.start_read(size, 0);
            let ret = send_vector(&conn, size, sizes, most, false);
            say!("writev {name} of {size}: {ret}, peer read {}", conn.finish());
            conn.start_read(size, 0);
            let ret = send_vector(&conn, size, sizes, most, true);
            say!("sendmsg {name} of {size}: {ret}, peer read {}", conn.finish());
        }
        for (there, size) in [(1, 10), (5000, 5000), (5000, 3000), (3000, 60_000)] {
            conn.peer_sends(there);
            let mut room = vec![0xee; size];
            let vector = sys::iov(&cut(Mem::from(&mut room[..]), sizes, most));
            let ret = sys::readv(conn.fd, &vector);
            let right = conn.came(&room[..ret.count()]);
            let beyond = room[ret.count()..].iter().all(|&byte| byte == 0xee);
            let (right, beyond) = (show::yes(right), show::yes(beyond));
            say!("readv {name} {there}/{size}: {ret}, right {right}, no more {beyond}");
            say!("  rest {}", show::yes(conn.takes(there - ret.count())));
        }
    }
}

/// `recvmsg`'s other results, and addresses on a connected socket.
pub(crate) fn messages(subject: &Subject) {
    let conn = subject.connect();
    let fd = conn.fd;
    for flags in [0, libc::MSG_PEEK, libc::MSG_TRUNC, libc::MSG_WAITALL, libc::MSG_DONTWAIT] {
        conn.peer_sends(100);
        let mut room = [0_u8; 60];
        let mut vector = sys::iov(&[Mem::from(&mut room)]);
        let mut header = sys::msg(&mut vector);
        let (mut name, mut control) = ([0xee_u8; 64], [0xee_u8; 64]);
        header.msg_name = name.as_mut_ptr().cast();
        header.msg_namelen = 64;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = 64;
        header.msg_flags = -1;
        let ret = sys::recvmsg(fd, &mut header, flags);
        let (len, aux, out) = (header.msg_namelen, header.msg_controllen, header.msg_flags);
        let clean = name == [0xee; 64] && control == [0xee; 64];
        say!("{}: {ret}, name {len}, control {aux}, flags {}", show::flags(flags), {
            show::flags(out)
        });
        say!("  {} left alone {}", show::sum(&room), show::yes(clean));
        let left = wait::available(fd);
        let mut rest = vec![0; left];
        sys::recv(fd, &mut rest[..], 0);
        say!("  then {left} {}", show::sum(&rest));
    }
    conn.peer_sends(10);
    let mut room = [0_u8; 10];
    let mut from = [0xee_u8; 64];
    let mut len: libc::socklen_t = 64;
    // SAFETY: both buffers live here with their lengths.
    let ret = show::Ret::of_size(unsafe {
        libc::recvfrom(fd, room.as_mut_ptr().cast(), 10, 0, from.as_mut_ptr().cast(), &raw mut len)
    });
    say!("recvfrom with an address: {ret}, length {len}, clean {}", show::yes(from == [0xee; 64]));
    let data = conn.payload(10);
    let to = libc::sockaddr_in {
        sin_family: 2,
        sin_port: 9_u16.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 9]) },
        sin_zero: [0; 8],
    };
    let size = libc::socklen_t::try_from(size_of::<libc::sockaddr_in>()).unwrap_or(0);
    // SAFETY: the data and the address live here with their lengths.
    let ret = show::Ret::of_size(unsafe {
        libc::sendto(fd, data.as_ptr().cast(), 10, 0, (&raw const to).cast(), size)
    });
    conn.sent(ret);
    say!("sendto another address: {ret}, peer read {}", conn.peer_reads(ret.count()));
}

/// `sendmmsg` and `recvmmsg`.
pub(crate) fn many(subject: &Subject) {
    let conn = subject.connect();
    let fd = conn.fd;
    for count in [0, 1, 5, 64] {
        let total = (1..=count).map(|n| n * 37).sum();
        let data = conn.payload(total);
        let mut at = 0;
        let mut vectors: Vec<[libc::iovec; 1]> = (1..=count)
            .map(|n| {
                at += n * 37;
                [Mem::from(&data[at - n * 37..at]).iov()]
            })
            .collect();
        let mut all: Vec<_> = vectors.iter_mut().map(|vector| sys::mmsg(vector)).collect();
        let ret = sys::sendmmsg(fd, &mut all, 0);
        let sent: usize = all.iter().map(|one| one.msg_len as usize).sum();
        conn.sent(show::Ret { value: sent as i64, errno: 0 });
        say!("sendmmsg of {count}: {ret}, bytes {sent}, peer read {}", conn.peer_reads(sent));
    }
    for (there, flags) in [
        (0, libc::MSG_DONTWAIT),
        (250, libc::MSG_DONTWAIT),
        (250, libc::MSG_WAITFORONE),
        (400, 0),
        (400, libc::MSG_WAITALL),
    ] {
        if there > 0 {
            conn.peer_sends(there);
        }
        let mut room = [[0_u8; 100]; 4];
        let mut vectors: Vec<[libc::iovec; 1]> =
            room.iter_mut().map(|one| [Mem::from(one).iov()]).collect();
        let mut all: Vec<_> = vectors.iter_mut().map(|vector| sys::mmsg(vector)).collect();
        let ret = sys::recvmmsg(fd, &mut all, flags);
        let lengths: Vec<u32> = all.iter().take(ret.count()).map(|one| one.msg_len).collect();
        let total: u32 = lengths.iter().sum();
        let flat: Vec<u8> = room.concat();
        let right = conn.came(&flat[..total as usize]);
        say!("recvmmsg of {there} {flags:#x}: {ret} {lengths:?} {}", show::yes(right));
        say!("  rest {}", show::yes(conn.takes(wait::available(fd))));
    }
}

/// Calls with a position: not for sockets.
pub(crate) fn not_for_sockets(subject: &Subject) {
    let conn = subject.connect();
    let fd = conn.fd;
    conn.peer_sends(10);
    let mut room = [0_u8; 10];
    let vector = sys::iov(&[Mem::from(&mut room)]);
    // SAFETY: buffer and vector live here with their lengths.
    let results = unsafe {
        [
            ("pread", libc::pread(fd, room.as_mut_ptr().cast(), 10, 0)),
            ("pwrite", libc::pwrite(fd, room.as_ptr().cast(), 10, 0)),
            ("preadv", libc::preadv(fd, vector.as_ptr(), 1, 0)),
            ("pwritev", libc::pwritev(fd, vector.as_ptr(), 1, 0)),
        ]
        .map(|(name, value)| format!("{name} {}", show::Ret::of_size(value)))
    };
    for line in results {
        say!("{line}");
    }
    for (name, at) in [("lseek", 0), ("lseek on", 5)] {
        // SAFETY: no pointers.
        let ret = unsafe { libc::lseek(fd, at, libc::SEEK_SET) };
        say!("{name} {}", show::Ret::of(ret));
    }
    // SAFETY: the vector lives here.
    let ret = unsafe { libc::preadv2(fd, vector.as_ptr(), 1, -1, 0) };
    say!("preadv2 at -1: {}", show::Ret::of_size(ret));
    say!("left {}", wait::available(fd));
    let data = conn.payload(10);
    let vector = sys::iov(&[Mem::from(&data[..])]);
    // SAFETY: the vector lives here.
    let ret =
        conn.sent(show::Ret::of_size(unsafe { libc::pwritev2(fd, vector.as_ptr(), 1, -1, 0) }));
    say!("pwritev2 at -1: {ret}, peer read {}", conn.peer_reads(ret.count()));
    // SAFETY: no pointers.
    let ret = show::Ret::of(unsafe { libc::fsync(fd) });
    say!("fsync {ret}");
}
