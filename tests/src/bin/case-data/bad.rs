//! C8: empty buffers and addresses that are not the program's.

use libc::{c_int, iovec, msghdr};
use smc_tests::puppet::show::{self, Ret};
use smc_tests::puppet::sys::{self, In, Mem, Out};
use smc_tests::puppet::{wait, Subject};
use smc_tests::say;
use std::ptr;

const PAGE: usize = 4096;

/// Memory with holes.
struct Holes {
    /// Two usable pages, then one without access.
    base: usize,
    /// A page that can only be read.
    read_only: usize,
    /// The end of a usable page, with nothing after it.
    edge: usize,
}

/// Far below everything that the loader, malloc or threads map, so that it stays empty.
const EMPTY: usize = 0x20_0000;

fn map(wish: usize, len: usize, protection: c_int) -> usize {
    let place = if wish == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | place;
    // SAFETY: a fresh mapping that replaces nothing.
    let at = unsafe { libc::mmap(wish as *mut _, len, protection, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    at as usize
}

impl Holes {
    fn new() -> Self {
        let usable = libc::PROT_READ | libc::PROT_WRITE;
        let base = map(0, 3 * PAGE, usable);
        // SAFETY: the page lies inside the mapping just made.
        unsafe { libc::mprotect((base + 2 * PAGE) as *mut _, PAGE, libc::PROT_NONE) };
        let edge = map(EMPTY, PAGE, usable) + PAGE;
        Self { base, read_only: map(0, PAGE, libc::PROT_READ), edge }
    }

    /// Places that must fail, or fail in part, for `len` bytes; `part` of them usable at first.
    fn places(&self, part: usize) -> Vec<(&'static str, usize)> {
        vec![
            ("null", 0),
            ("one", 1),
            ("unmapped", self.edge + 16),
            ("partly unmapped", self.edge - part),
            ("no access", self.base + 2 * PAGE + 16),
            ("partly no access", self.base + 2 * PAGE - part),
            ("kernel", 0xffff_8000_0000_1000),
            ("not canonical", 0x0000_8000_0000_1000),
            ("end of space", usize::MAX - 50),
        ]
    }
}

/// Nothing asked for, nothing given: with and without data, with and without a buffer.
pub(crate) fn empty(subject: &Subject) {
    let conn = subject.connect();
    let (bad, mut good) = (Mem::at(1, 0), [0_u8; 8]);
    for there in [0, 20] {
        if there > 0 {
            conn.peer_sends(there);
        }
        for nonblocking in [true, false] {
            sys::nonblocking(conn.fd, nonblocking);
            for way in In::ALL {
                // Of no data a blocking recv of nothing waits.
                let flagless = matches!(way, In::Read | In::Readv);
                if !nonblocking && there == 0 && !flagless {
                    continue;
                }
                let into = Mem::from(&mut good);
                let calls = [Mem::at(0, 0), bad, Mem::at(into.addr, 0)];
                let got: Vec<String> =
                    calls.iter().map(|&m| way.call(conn.fd, m, 0).to_string()).collect();
                say!("{way:?} of none, {there} there: {} left {}", got.join(" "), {
                    wait::available(conn.fd)
                });
            }
        }
    }
    say!("right {}", show::yes(conn.takes(20)));
    for way in Out::ALL {
        let calls = [Mem::at(0, 0), bad];
        let got: Vec<String> = calls.iter().map(|&m| way.call(conn.fd, m, 0).to_string()).collect();
        say!("{way:?} of none: {}", got.join(" "));
    }
    conn.send(30, 0);
    say!("nothing was sent: {}", conn.peer_reads(30));
    conn.peer_shuts(libc::SHUT_WR);
    wait::tcp_state(conn.fd, wait::state::CLOSE_WAIT);
    for way in In::ALL {
        say!("{way:?} of none at the end: {}", way.call(conn.fd, Mem::at(0, 0), 0));
    }
}

/// Reading to bad addresses fails and loses nothing.
pub(crate) fn receive(subject: &Subject) {
    let conn = subject.connect();
    let holes = Holes::new();
    let mut places = holes.places(10);
    places.push(("read-only", holes.read_only));
    for (name, addr) in &places {
        sys::nonblocking(conn.fd, true);
        let without: Vec<String> =
            In::ALL.iter().map(|w| w.call(conn.fd, Mem::at(*addr, 100), 0).to_string()).collect();
        say!("{name}, no data: {}", without.join(" "));
        for nonblocking in [true, false] {
            sys::nonblocking(conn.fd, nonblocking);
            for way in In::ALL {
                conn.peer_sends(100);
                let ret = way.call(conn.fd, Mem::at(*addr, 100), 0);
                let left = wait::available(conn.fd);
                say!("{name}: {way:?} {ret}, left {left}, right {}", show::yes(conn.takes(left)));
                assert_eq!(ret.count() + left, 100, "{name} {way:?} lost data");
            }
            conn.peer_sends(100);
            let flags = [libc::MSG_PEEK, libc::MSG_TRUNC | libc::MSG_PEEK, libc::MSG_WAITALL];
            for flags in flags {
                let ret = sys::recv(conn.fd, Mem::at(*addr, 100), flags);
                say!("{name}: {} {ret}, left {}", show::flags(flags), wait::available(conn.fd));
            }
            say!("{name}: right {}", show::yes(conn.takes(wait::available(conn.fd))));
        }
    }
    // A good piece before a bad one.
    let mut good = [0; 40];
    conn.peer_sends(100);
    let ret = sys::readv(conn.fd, &sys::iov(&[Mem::from(&mut good), Mem::at(8, 60)]));
    say!("good then bad: {ret}, left {}", wait::available(conn.fd));
    say!("right {}", show::yes(conn.takes(wait::available(conn.fd))));
    // Room enough in the good part: the bad part is never touched.
    conn.peer_sends(10);
    let ret = sys::recv(conn.fd, Mem::at(holes.base + 2 * PAGE - 10, 5000), 0);
    say!("fits before the hole: {ret}, left {}", wait::available(conn.fd));
}

/// Writing from bad addresses fails, and nothing, or what was said, is sent.
pub(crate) fn send(subject: &Subject) {
    let conn = subject.connect();
    let holes = Holes::new();
    for nonblocking in [true, false] {
        sys::nonblocking(conn.fd, nonblocking);
        for (name, addr) in holes.places(10) {
            for way in Out::ALL {
                let ret = way.call(conn.fd, Mem::at(addr, 100), 0);
                say!("{name}: {way:?} {ret}");
                assert!(ret.value <= 0, "{name} {way:?} sent {ret}");
            }
        }
        let good = conn.payload(40);
        let vector = sys::iov(&[Mem::from(&good[..]), Mem::at(8, 60)]);
        let ret = conn.sent(sys::writev(conn.fd, &vector));
        say!("good then bad: {ret}");
        conn.send(30, 0);
        let all = ret.count() + 30;
        say!("the peer has only good bytes: {}", show::yes(conn.peer_reads(all) == all as i64));
    }
}

fn raw_readv(fd: c_int, at: usize, count: c_int) -> Ret {
    // SAFETY: the kernel checks the vector's address, which is bad on purpose.
    Ret::of_size(unsafe { libc::readv(fd, at as *const iovec, count) })
}

fn raw_writev(fd: c_int, at: usize, count: c_int) -> Ret {
    // SAFETY: as above.
    Ret::of_size(unsafe { libc::writev(fd, at as *const iovec, count) })
}

fn raw_recvmsg(fd: c_int, at: usize) -> Ret {
    // SAFETY: as above.
    Ret::of_size(unsafe { libc::recvmsg(fd, at as *mut msghdr, libc::MSG_DONTWAIT) })
}

fn raw_sendmsg(fd: c_int, at: usize) -> Ret {
    // SAFETY: as above.
    Ret::of_size(unsafe { libc::sendmsg(fd, at as *const msghdr, libc::MSG_DONTWAIT) })
}

/// Vectors and headers that are too long, negative, empty or not there.
pub(crate) fn vectors(subject: &Subject) {
    let conn = subject.connect();
    let fd = conn.fd;
    conn.peer_sends(100);
    let holes = Holes::new();
    let mut byte = [0_u8; 1];
    let one = Mem::from(&mut byte).iov();
    let many = vec![iovec { iov_len: 0, ..one }; 1025];
    let at = many.as_ptr() as usize;
    for count in [0, -1, 1024, 1025, c_int::MIN] {
        say!("count {count}: {} {}", raw_readv(fd, at, count), raw_writev(fd, at, count));
    }
    for (name, addr) in holes.places(10) {
        for count in [0, 1, 2] {
            let (r, w) = (raw_readv(fd, addr, count), raw_writev(fd, addr, count));
            say!("vector at {name}, {count}: {r} {w}");
        }
        say!("header at {name}: {} {}", raw_recvmsg(fd, addr), raw_sendmsg(fd, addr));
    }
    let lengths = [usize::MAX, isize::MAX.unsigned_abs() + 1, isize::MAX.unsigned_abs()];
    for len in lengths {
        let two = [iovec { iov_len: 0, ..one }, iovec { iov_len: len, ..one }];
        say!("length {len:#x}: {} {}", sys::readv(fd, &two), sys::writev(fd, &two));
        let (mut r, mut w) = (two, two);
        let (mut r, w) = (sys::msg(&mut r), sys::msg(&mut w));
        let got = sys::recvmsg(fd, &mut r, libc::MSG_DONTWAIT);
        say!("  in messages: {got} {}", sys::sendmsg(fd, &w, libc::MSG_DONTWAIT));
    }
    for count in [0, 1024, 1025, usize::MAX] {
        let mut vector = many.clone();
        let mut header = sys::msg(&mut vector);
        header.msg_iovlen = count;
        let got = sys::recvmsg(fd, &mut header, libc::MSG_DONTWAIT);
        say!("messages of {count}: {got} {}", sys::sendmsg(fd, &header, libc::MSG_DONTWAIT));
    }
    for (name, addr) in holes.places(0) {
        let mut vector = [iovec { iov_len: 0, ..one }];
        let mut header = sys::msg(&mut vector);
        header.msg_name = addr as *mut _;
        header.msg_namelen = 16;
        let got = sys::recvmsg(fd, &mut header, libc::MSG_DONTWAIT);
        let len = header.msg_namelen;
        header.msg_namelen = 16;
        say!("name at {name}: {got} {len} {}", sys::sendmsg(fd, &header, libc::MSG_DONTWAIT));
        header.msg_name = ptr::null_mut();
        header.msg_namelen = 0;
        header.msg_control = addr as *mut _;
        header.msg_controllen = 32;
        let got = sys::recvmsg(fd, &mut header, libc::MSG_DONTWAIT);
        header.msg_controllen = 32;
        say!("control at {name}: {got} {}", sys::sendmsg(fd, &header, libc::MSG_DONTWAIT));
    }
    say!("left {}, right {}", wait::available(fd), { show::yes(conn.takes(wait::available(fd))) });
    say!("still sends {}, {}", conn.send(5, 0), conn.peer_reads(5));
}

/// Descriptors that are closed, or no sockets, next to one that is.
pub(crate) fn descriptors(subject: &Subject) {
    let mut conn = subject.connect();
    let old = conn.fd;
    say!("closed {}", conn.close());
    let mut pipe = [0; 2];
    // SAFETY: room for two descriptors.
    Ret::of(unsafe { libc::pipe(pipe.as_mut_ptr()) }).expect("pipe");
    sys::close(pipe[0]);
    sys::close(pipe[1]);
    // Both numbers are free again, one of them the connection's.
    let null = std::fs::File::open("/dev/null").unwrap();
    let file = std::os::fd::AsRawFd::as_raw_fd(&null);
    say!("the number is used again: {}", show::yes(file == old));
    let mut room = [0; 10];
    for (name, fd) in [("minus one", -1), ("large", 100_000), ("file", file), ("closed", pipe[1])] {
        for way in In::ALL {
            let bad = way.call(fd, Mem::at(1, 10), 0);
            say!("{name}: {way:?} {} {bad}", way.call(fd, &mut room, libc::MSG_DONTWAIT));
        }
        for way in Out::ALL {
            say!("{name}: {way:?} {}", way.call(fd, &room, libc::MSG_NOSIGNAL));
        }
        say!("{name}: shutdown {}", sys::shutdown(fd, libc::SHUT_WR));
    }
    say!("closing twice {}", sys::close(pipe[1]));
}
