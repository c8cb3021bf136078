//! Every option that there is a number for, asked for and set with several values and odd lengths.

use super::differences::{is_left_out, NOT_SET_IN_USE};
use libc::{c_int, socklen_t, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET};
use smc_tests::puppet::show::{self, Ret};
use smc_tests::puppet::{sys, wait, Conn, Subject};
use smc_tests::say;

const LEVELS: [(&str, c_int); 4] =
    [("socket", SOL_SOCKET), ("tcp", IPPROTO_TCP), ("ip", IPPROTO_IP), ("ipv6", IPPROTO_IPV6)];
/// Past the last number of any level.
const NAMES: c_int = 90;
const ROOM: usize = 512;

/// Asks with this much room: what it returned, how long it says the value is, and the value.
fn get(fd: c_int, level: c_int, name: c_int, room: usize) -> (Ret, usize, Vec<u8>) {
    let mut value = vec![0xaa_u8; ROOM];
    let mut len = socklen_t::try_from(room).unwrap();
    // SAFETY: the value is longer than any length that is told.
    let ret = Ret::of(unsafe {
        libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut len)
    });
    (ret, len as usize, value)
}

fn set(fd: c_int, level: c_int, name: c_int, value: &[u8]) -> Ret {
    let len = socklen_t::try_from(value.len()).unwrap();
    // SAFETY: the length is that of the value.
    Ret::of(unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), len) })
}

/// What asking yields, with several lengths.
fn asked(fd: c_int, level: c_int, name: c_int) -> String {
    let one = |room: usize| {
        let (ret, len, value) = get(fd, level, name, room);
        if ret.value < 0 {
            return ret.to_string();
        }
        let shown = match len.min(ROOM) {
            _ if is_left_out(level, name) => "-".to_owned(),
            len @ 0..=8 => value[..len].iter().map(|byte| format!("{byte:02x}")).collect(),
            len => show::sum(&value[..len]),
        };
        format!("{len}:{shown}")
    };
    // A filter is copied out in units of eight bytes, so no room may be offered that is not there.
    [0, 1, 3, 4, 8, 16, 60].map(one).join(" ")
}

/// Values to set: of one, three, four, eight and sixteen bytes, and none.
fn values() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> =
        [1_i32, 2, 0, -1, 1000, 70_000].iter().map(|v| v.to_ne_bytes().to_vec()).collect();
    all.extend([vec![], vec![1], vec![1, 0, 0]]);
    all.extend([0_i64, 1, 5, -1].iter().map(|v| v.to_ne_bytes().to_vec()));
    all.push([1_i64, 0].iter().flat_map(|v| v.to_ne_bytes()).collect());
    all.push(b"reno\0".to_vec());
    all
}

/// Sets each value and says what it returned; the last word is what the option reads then.
fn tried(fd: c_int, level: c_int, name: c_int) -> String {
    let each =
        values().iter().map(|value| set(fd, level, name, value).to_string()).collect::<Vec<_>>();
    each.join(" ")
}

fn known(fd: c_int, level: c_int, name: c_int) -> bool {
    let none = [libc::ENOPROTOOPT, libc::EOPNOTSUPP];
    let (asked, ..) = get(fd, level, name, 4);
    let told = set(fd, level, name, &1_i32.to_ne_bytes());
    !(none.contains(&asked.errno) && none.contains(&told.errno))
}

fn listener() -> c_int {
    let fd = sys::socket();
    // SAFETY: no pointers.
    Ret::of(unsafe { libc::listen(fd, 4) }).expect("listen");
    fd
}

fn each(mut with: impl FnMut(&str, c_int, c_int)) {
    for (title, level) in LEVELS {
        for name in 0..NAMES {
            with(&format!("{title} {name}"), level, name);
        }
    }
}

fn unconnected(make: fn() -> c_int) {
    each(|title, level, name| {
        let fd = make();
        let before = asked(fd, level, name);
        let set = tried(fd, level, name);
        say!("{title}: {before} | {set} | {}", asked(fd, level, name));
        sys::close(fd);
    });
}

/// Sockets that are not connected. A short talk on a connection shows that it is accelerated.
pub(crate) fn fresh(subject: &Subject) {
    let _conn = subject.connect();
    unconnected(sys::socket);
}

/// Listeners.
pub(crate) fn listening(subject: &Subject) {
    let _conn = subject.connect();
    unconnected(listener);
}

/// Some traffic each way, without waiting for what an option may keep back.
fn works(conn: &Conn) -> String {
    let sent = conn.sent(sys::send(conn.fd, &conn.payload(300)[..], libc::MSG_DONTWAIT));
    let read = conn.peer_reads(sent.count());
    conn.start_send(200, 0);
    let back = conn.finish();
    let came = wait::until(|| wait::available(conn.fd) >= 200);
    let mut room = [0; 400];
    let ret = sys::recv(conn.fd, &mut room, libc::MSG_DONTWAIT);
    let right = conn.came(&room[..ret.count()]);
    format!("sent {sent} {read}, back {back} {ret} {} {}", show::yes(came), show::yes(right))
}

/// A connection in use, a new one for each option; it works as before when the option has been set
/// back.
pub(crate) fn connected(subject: &Subject) {
    let probe = sys::socket();
    each(|title, level, name| {
        if !known(probe, level, name) || NOT_SET_IN_USE.contains(&(level, name)) {
            return;
        }
        let conn = subject.connect();
        let before = asked(conn.fd, level, name);
        let (first, len, value) = get(conn.fd, level, name, 16);
        let set_values = tried(conn.fd, level, name);
        let after = asked(conn.fd, level, name);
        let restored = match first.value {
            0 => set(conn.fd, level, name, &value[..len.min(16)]),
            _ => first,
        };
        say!("{title}: {before} | {set_values} | {after} | {restored} | {}", works(&conn));
    });
    sys::close(probe);
}

/// Requests of `ioctl` that a TCP socket may be asked.
pub(crate) fn ioctls(subject: &Subject) {
    const REQUESTS: [(&str, libc::c_ulong); 12] = [
        ("FIONREAD", 0x541b),
        ("TIOCOUTQ", 0x5411),
        ("SIOCOUTQNSD", 0x894b),
        ("SIOCATMARK", 0x8905),
        ("FIONBIO", 0x5421),
        ("FIOASYNC", 0x5452),
        ("FIOCLEX", 0x5451),
        ("FIONCLEX", 0x5450),
        ("FIOGETOWN", 0x8903),
        ("SIOCGPGRP", 0x8904),
        ("SIOCGSTAMP", 0x8906),
        ("TCGETS", 0x5401),
    ];
    for (name, request) in REQUESTS {
        let (fresh, listening, conn) = (sys::socket(), listener(), subject.connect());
        conn.peer_sends(30);
        wait::delivered(conn.fd);
        for (what, fd) in [("fresh", fresh), ("listening", listening), ("connected", conn.fd)] {
            // An int, with room for the largest answer behind it.
            let mut room = [0_i32; 32];
            // SAFETY: the room is larger than any answer to these.
            let ret = Ret::of(unsafe { libc::ioctl(fd, request, room.as_mut_ptr()) });
            let shown = if ret.value < 0 { "-".to_owned() } else { room[0].to_string() };
            // SAFETY: the kernel checks the address, which is bad on purpose.
            let bad = Ret::of(unsafe { libc::ioctl(fd, request, 8_usize) });
            say!("{what} {name}: {ret} {shown}, bad address {bad}");
        }
        say!("takes {}", show::yes(conn.takes(30)));
        sys::close(fresh);
        sys::close(listening);
    }
}

/// What an accepted socket has from its listener: every option, before and after the first bytes.
pub(crate) fn inherited(subject: &Subject) {
    let tune = |fd: c_int| {
        for (level, name, value) in [
            (SOL_SOCKET, libc::SO_KEEPALIVE, 1),
            (SOL_SOCKET, libc::SO_OOBINLINE, 1),
            (SOL_SOCKET, libc::SO_RCVLOWAT, 7),
            (SOL_SOCKET, libc::SO_SNDBUF, 50_000),
            (SOL_SOCKET, libc::SO_RCVBUF, 60_000),
            (SOL_SOCKET, libc::SO_PRIORITY, 3),
            (IPPROTO_TCP, libc::TCP_NODELAY, 1),
            (IPPROTO_TCP, libc::TCP_KEEPIDLE, 77),
            (IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, 1),
            (IPPROTO_IP, libc::IP_TOS, 16),
            (IPPROTO_IP, libc::IP_TTL, 33),
            (IPPROTO_IP, libc::IP_MULTICAST_LOOP, 0),
            (IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1),
        ] {
            let ret = sys::setsockopt(fd, level, name, value);
            say!("set {level} {name}: {ret}");
        }
    };
    let dump = |what: &str, fd: c_int| {
        each(|title, level, name| {
            let text = asked(fd, level, name);
            if !text.starts_with("ENOPROTOOPT") {
                say!("{what} {title}: {text}");
            }
        });
    };
    let flags = |fd: c_int| {
        let status = sys::fcntl(fd, libc::F_GETFL, 0);
        format!("{status} {}", sys::fcntl(fd, libc::F_GETFD, 0))
    };
    for tuned in [false, true] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let listener = std::os::fd::IntoRawFd::into_raw_fd(listener);
        if tuned {
            tune(listener);
        }
        for kind in [0, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC, 1 << 30] {
            let client = sys::socket();
            sys::connect(client, port).expect("connect");
            sys::send(client, b"1", 0).expect("send");
            let none = std::ptr::null_mut();
            // SAFETY: null pointers are allowed.
            let ret = Ret::of(unsafe { libc::accept4(listener, none, std::ptr::null_mut(), kind) });
            if ret.value < 0 {
                say!("accept4 {kind:#x}: {ret}");
                sys::close(client);
                sys::close(sys::accept(listener).expect("accept"));
                continue;
            }
            let fd = ret.expect("accept4");
            say!("accept4 {kind:#x}: flags {}", flags(fd));
            dump("accepted", fd);
            sys::close(fd);
            sys::close(client);
        }
        sys::close(listener);
    }
    let conn = subject.connect();
    dump("in use", conn.fd);
    say!("{}", works(&conn));
}
