//! Options that only TCP can honour: they do on a connection in use what they do bare.

use libc::{c_int, SOL_SOCKET};
use smc_tests::puppet::show::{self, Ret};
use smc_tests::puppet::{sys, wait, Conn, Subject};
use smc_tests::say;
use std::sync::atomic::{AtomicU32, Ordering};

const TCP: c_int = libc::IPPROTO_TCP;
const TCP_USER_TIMEOUT: c_int = 18;
const TCP_ZEROCOPY_RECEIVE: c_int = 35;
const TCP_INQ: c_int = 36;

/// `recvmsg` with room for control data: what came, and which kinds of control data.
fn with_control(conn: &Conn, room: usize, flags: c_int) -> String {
    let mut data = vec![0; room];
    let mut control = [0_u64; 64];
    let mut vector = [sys::Mem::from(&mut data[..]).iov()];
    let mut msg = sys::msg(&mut vector);
    msg.msg_control = control.as_mut_ptr().cast();
    msg.msg_controllen = size_of_val(&control);
    let ret = sys::recvmsg(conn.fd, &mut msg, flags);
    let right = flags & libc::MSG_PEEK != 0 || conn.came(&data[..ret.count()]);
    let mut kinds = Vec::new();
    // SAFETY: the header is the one that the call has filled in.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(&raw const msg) };
    while !at.is_null() {
        // SAFETY: a header inside the control data, as the macros walk it.
        let head = unsafe { at.read() };
        kinds.push(format!("{}/{}/{}", head.cmsg_level, head.cmsg_type, head.cmsg_len));
        // SAFETY: as above.
        at = unsafe { libc::CMSG_NXTHDR(&raw const msg, at) };
    }
    format!("{ret} {} flags {:#x} control [{}]", show::yes(right), msg.msg_flags, kinds.join(" "))
}

/// Both directions still work.
fn works(conn: &Conn) -> String {
    let ret = conn.send(5000, 0);
    let read = conn.peer_reads(5000);
    conn.peer_sends(3000);
    format!("sent {ret} {read}, back {}", show::yes(conn.takes(3000)))
}

/// Control data with what is received: set in use, with data in the ring, and on a listener before.
pub(crate) fn timestamps(subject: &Subject) {
    // The kernel begins to note times a while after the first socket has asked for them.
    let asking = sys::socket();
    for (name, value) in [(libc::SO_TIMESTAMP, 1), (libc::SO_TIMESTAMPING, (1 << 3) | (1 << 4))] {
        sys::setsockopt(asking, SOL_SOCKET, name, value);
    }
    wait::pause(200);
    for (name, value) in [
        (libc::SO_TIMESTAMP, 1),
        (libc::SO_TIMESTAMPNS, 1),
        // Of software, received.
        (libc::SO_TIMESTAMPING, (1 << 3) | (1 << 4)),
    ] {
        let conn = subject.connect();
        conn.peer_sends(100);
        say!("{name}: without {}", with_control(&conn, 50, 0));
        say!("{name}: set {}", sys::setsockopt(conn.fd, SOL_SOCKET, name, value));
        // What came before the option was set may or may not bear a time.
        say!("{name}: old ones {}", show::yes(conn.takes(50)));
        for size in [10, 3000] {
            conn.peer_sends(size);
            say!("{name}: with {}", with_control(&conn, size, 0));
        }
        say!("{name}: {}", works(&conn));
        // Readiness, level-triggered, of what comes over TCP again.
        let epoll = wait::Epoll::new();
        epoll.add(conn.fd, libc::EPOLLIN.cast_unsigned(), 1);
        conn.peer_sends(30);
        let first = epoll.soon();
        say!("{name}: epoll {first}, took {}, {}", show::yes(conn.takes(10)), epoll.twice());
        say!(
            "{name}: took {}, {} {}",
            show::yes(conn.takes(20)),
            epoll.now(),
            wait::poll_now(conn.fd)
        );
        say!("{name}: off {}", sys::setsockopt(conn.fd, SOL_SOCKET, name, 0));
        conn.peer_sends(10);
        say!("{name}: after {}", with_control(&conn, 10, 0));
    }
    let Some(listener) = subject.listener() else { return };
    let name = libc::SO_TIMESTAMP;
    say!("listener: {}", sys::setsockopt(listener, SOL_SOCKET, name, 1));
    let conn = subject.connect();
    conn.peer_sends(10);
    say!("accepted: {}", with_control(&conn, 10, 0));
    say!("accepted: {}", works(&conn));
    sys::setsockopt(listener, SOL_SOCKET, name, 0);
}

/// TCP_INQ: how much is left, with each message.
pub(crate) fn bytes_in_queue(subject: &Subject) {
    let conn = subject.connect();
    say!("set {}", sys::setsockopt(conn.fd, TCP, TCP_INQ, 1));
    conn.peer_sends(100);
    say!("{}", with_control(&conn, 30, 0));
    conn.peer_sends(500);
    say!("{}", with_control(&conn, 570, 0));
    say!("{}", works(&conn));
}

/// SO_PEEK_OFF: each peek goes on where the last one ended, where the kernel has it for TCP.
pub(crate) fn peek_offset(subject: &Subject) {
    let conn = subject.connect();
    say!("set {}", sys::setsockopt(conn.fd, SOL_SOCKET, libc::SO_PEEK_OFF, 0));
    conn.peer_sends(100);
    let mut room = [0; 30];
    for _ in 0..3 {
        let ret = sys::recv(conn.fd, &mut room, libc::MSG_PEEK | libc::MSG_DONTWAIT);
        say!("peek {ret} {}", show::sum(&room[..ret.count()]));
    }
    say!("takes {}", show::yes(conn.takes(40)));
    let ret = sys::recv(conn.fd, &mut room, libc::MSG_PEEK | libc::MSG_DONTWAIT);
    say!("peek {ret} {}", show::sum(&room[..ret.count()]));
    say!("takes {}", show::yes(conn.takes(60)));
    say!("off {}", sys::setsockopt(conn.fd, SOL_SOCKET, libc::SO_PEEK_OFF, -1));
    say!("{}", works(&conn));
}

/// A filter that lets all packets pass, attached and locked.
pub(crate) fn filter(subject: &Subject) {
    // ret #-1
    let pass = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: u32::MAX };
    let mut code = [pass];
    let program = libc::sock_fprog { len: 1, filter: code.as_mut_ptr() };
    let conn = subject.connect();
    conn.peer_sends(100);
    say!("attach {}", sys::setsockopt(conn.fd, SOL_SOCKET, libc::SO_ATTACH_FILTER, program));
    say!("takes {}", show::yes(conn.takes(100)));
    say!("{}", works(&conn));
    say!("lock {}", sys::setsockopt(conn.fd, SOL_SOCKET, libc::SO_LOCK_FILTER, 1));
    say!("detach {}", sys::setsockopt(conn.fd, SOL_SOCKET, libc::SO_DETACH_FILTER, 0));
    say!("{}", works(&conn));
}

/// TCP_ZEROCOPY_RECEIVE: maps what came, or says how much is to be read by copying.
pub(crate) fn zero_copy_receive(subject: &Subject) {
    const LEN: usize = 64 << 10;
    let conn = subject.connect();
    conn.peer_sends(20_000);
    // SAFETY: a new mapping of the socket, at an address of the kernel's choice.
    let at = unsafe {
        libc::mmap(std::ptr::null_mut(), LEN, libc::PROT_READ, libc::MAP_SHARED, conn.fd, 0)
    };
    say!("mmap {}", show::yes(at != libc::MAP_FAILED));
    // address, length, recv_skip_hint, inq, err
    let mut ask = [0_u32; 6];
    ask[..2].copy_from_slice(&[at as u64 as u32, (at as u64 >> 32) as u32]);
    ask[2] = LEN as u32;
    let mut len = size_of_val(&ask) as libc::socklen_t;
    // SAFETY: the request lives here and is as long as told.
    let ret = Ret::of(unsafe {
        let to = ask.as_mut_ptr().cast();
        libc::getsockopt(conn.fd, TCP, TCP_ZEROCOPY_RECEIVE, to, &raw mut len)
    });
    let (mapped, skip) = (ask[2] as usize, ask[3] as usize);
    say!("ask {ret}, everything is told of {}", show::yes(mapped + skip >= 20_000 || skip > 0));
    let mut rest = 20_000 - mapped.min(20_000);
    if mapped > 0 {
        // SAFETY: the kernel has mapped this much.
        let data = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), mapped) };
        say!("mapped ones are right {}", show::yes(conn.came(data)));
    } else {
        say!("mapped ones are right yes");
    }
    if rest > 20_000 {
        rest = 0;
    }
    say!("the rest {}", show::yes(conn.takes(rest)));
    say!("{}", works(&conn));
    // SAFETY: the mapping made above.
    unsafe { libc::munmap(at, LEN) };
}

/// TCP_USER_TIMEOUT: a peer that does not read for so long loses the connection.
pub(crate) fn user_timeout(subject: &Subject) {
    for in_use in [false, true] {
        let conn = subject.connect();
        if in_use {
            say!("{}", works(&conn));
        }
        say!("set {}", sys::setsockopt(conn.fd, TCP, TCP_USER_TIMEOUT, 600));
        sys::nonblocking(conn.fd, false);
        // Filled up, then one call that cannot go on.
        let big = vec![1; 1 << 20];
        let mut total = 0;
        let end = loop {
            let ret = sys::send(conn.fd, &big[..], libc::MSG_NOSIGNAL);
            if ret.value < 0 {
                break ret;
            }
            total += ret.count();
        };
        say!("sent some {}, then {end}", show::yes(total > 0));
        say!("events {}", wait::poll_now(conn.fd));
    }
}

/// SO_MAX_PACING_RATE: all arrives, at whatever rate the kernel makes of it.
pub(crate) fn pacing(subject: &Subject) {
    let conn = subject.connect();
    say!("set {}", sys::setsockopt(conn.fd, SOL_SOCKET, libc::SO_MAX_PACING_RATE, 4_000_000_u32));
    let before = std::time::Instant::now();
    conn.start_read(2_000_000, 0);
    let ret = conn.send(2_000_000, 0);
    say!("sent {ret}, peer read {}", conn.finish());
    // A fifth of the time that the rate would take, since the first bytes may come in a burst.
    say!("takes its time {}", show::yes(before.elapsed().as_millis() > 100));
    say!("{}", works(&conn));
}

static SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_signal: c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// O_ASYNC, by `fcntl` and by `ioctl`: a signal when data come.
pub(crate) fn signals(subject: &Subject) {
    // SAFETY: the handler only touches an atomic.
    unsafe { libc::signal(libc::SIGIO, count as *const () as libc::sighandler_t) };
    // SAFETY: no pointers.
    let own = unsafe { libc::getpid() };
    for by_ioctl in [false, true] {
        for early in [true, false] {
            let conn = subject.connect();
            if !early {
                say!("{}", works(&conn));
            }
            sys::fcntl(conn.fd, libc::F_SETOWN, own).expect("F_SETOWN");
            let ret = if by_ioctl {
                sys::ioctl(conn.fd, 0x5452, &mut 1)
            } else {
                let flags = sys::fcntl(conn.fd, libc::F_GETFL, 0).expect("F_GETFL");
                sys::fcntl(conn.fd, libc::F_SETFL, flags | libc::O_ASYNC)
            };
            // A byte each way: what was in a ring has gone back to TCP by then.
            conn.send(10, 0);
            conn.peer_reads(10);
            SIGNALS.store(0, Ordering::Relaxed);
            conn.start_send(40, 50);
            conn.finish();
            let came = wait::until(|| SIGNALS.load(Ordering::Relaxed) > 0);
            say!("ioctl {}: set {ret}, signal {}", show::yes(by_ioctl), show::yes(came));
            say!("takes {}, {}", show::yes(conn.takes(40)), works(&conn));
        }
    }
}
