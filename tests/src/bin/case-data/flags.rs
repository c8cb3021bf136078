//! C7: flags of receiving and sending calls, in all combinations.

use smc_tests::puppet::show::{self, Ret};
use smc_tests::puppet::sys::{self, In, Out};
use smc_tests::puppet::{wait, Conn, Subject};
use smc_tests::say;
use std::sync::atomic::{AtomicU32, Ordering};

const UNTOUCHED: u8 = 0xee;

/// One call into fresh room: what it returned, what it wrote there, what is left to read.
fn receive_one(conn: &Conn, way: In, room: usize, flags: i32) -> String {
    let mut data = vec![UNTOUCHED; room];
    let ret = way.call(conn.fd, &mut data[..], flags);
    let written = data.iter().rposition(|&byte| byte != UNTOUCHED).map_or(0, |at| at + 1);
    format!("{ret}, wrote {}, left {}", show::sum(&data[..written]), wait::available(conn.fd))
}

/// Empties the socket.
fn clear(conn: &Conn) {
    let mut room = [0; 4096];
    while sys::recv(conn.fd, &mut room, libc::MSG_DONTWAIT).value > 0 {}
}

fn combinations(flags: &[i32]) -> impl Iterator<Item = i32> + '_ {
    (0..1_usize << flags.len()).map(move |mask| {
        let chosen = flags.iter().enumerate().filter(|(bit, _)| mask & (1 << bit) != 0);
        chosen.fold(0, |all, (_, flag)| all | flag)
    })
}

/// PEEK, WAITALL, TRUNC, DONTWAIT with less, as much, more data than asked for, and none.
pub(crate) fn receive(subject: &Subject) {
    let conn = subject.connect();
    let set = [libc::MSG_PEEK, libc::MSG_WAITALL, libc::MSG_TRUNC, libc::MSG_DONTWAIT];
    for nonblocking in [false, true] {
        sys::nonblocking(conn.fd, nonblocking);
        for flags in combinations(&set) {
            let waits = !nonblocking && flags & libc::MSG_DONTWAIT == 0;
            for way in In::FLAGS {
                for (there, room) in [(0, 50), (100, 10), (100, 100), (100, 300)] {
                    let asks_for_more = flags & libc::MSG_WAITALL != 0 && there < room;
                    if waits && (there == 0 || asks_for_more) {
                        continue;
                    }
                    if there > 0 {
                        conn.peer_sends(there);
                    }
                    let what = receive_one(&conn, way, room, flags);
                    say!("{way:?} {} {there}/{room}: {what}", show::flags(flags));
                    clear(&conn);
                }
            }
        }
    }
    sys::nonblocking(conn.fd, false);
    for flags in [libc::MSG_OOB, libc::MSG_ERRQUEUE, libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT] {
        for way in In::FLAGS {
            say!("{way:?} {flags:#x}: {}", receive_one(&conn, way, 10, flags));
        }
    }
    conn.peer_sends(100);
    conn.peer_shuts(libc::SHUT_WR);
    wait::tcp_state(conn.fd, wait::state::CLOSE_WAIT);
    for flags in combinations(&set).filter(|flags| flags & libc::MSG_PEEK != 0) {
        say!("end {}: {}", show::flags(flags), receive_one(&conn, In::Recv, 300, flags));
    }
    say!("end WAITALL: {}", receive_one(&conn, In::Recv, 300, libc::MSG_WAITALL));
    for flags in combinations(&set) {
        say!("at end {}: {}", show::flags(flags), receive_one(&conn, In::Recvmsg, 300, flags));
    }
}

/// Blocking calls whose data comes in two parts.
pub(crate) fn waitall(subject: &Subject) {
    let conn = subject.connect();
    for trunc in [0, libc::MSG_TRUNC] {
        for peek in [0, libc::MSG_PEEK] {
            for way in In::FLAGS {
                for first in [0, 40] {
                    if first > 0 {
                        conn.peer_sends(first);
                    }
                    let flags = libc::MSG_WAITALL | trunc | peek;
                    conn.start_send(100 - first, 30);
                    let mut data = [UNTOUCHED; 100];
                    let ret = way.call(conn.fd, &mut data, flags);
                    let sent = conn.finish();
                    let what = show::flags(flags);
                    say!("{way:?} {what} {first}+{sent}: {ret} {}", show::sum(&data));
                    clear(&conn);
                }
            }
        }
    }
    // More than any buffer holds.
    const BIG: usize = 12 << 20;
    for way in In::FLAGS {
        conn.start_send(BIG, 10);
        let mut data = vec![0; BIG];
        let ret = way.call(conn.fd, &mut data[..], libc::MSG_WAITALL);
        say!("{way:?} big: {ret}, {} of {}", show::sum(&data), conn.finish());
    }
    conn.peer_sends(10);
    conn.start_shut(libc::SHUT_WR, 50);
    let mut data = [0; 100];
    say!("WAITALL to the end: {}", sys::recv(conn.fd, &mut data, libc::MSG_WAITALL));
    conn.finish();
}

/// MORE, DONTWAIT, NOSIGNAL, EOR, WAITALL of the sending calls: everything arrives, in order.
pub(crate) fn send(subject: &Subject) {
    let conn = subject.connect();
    let set = [libc::MSG_MORE, libc::MSG_DONTWAIT, libc::MSG_NOSIGNAL, libc::MSG_EOR];
    for nonblocking in [false, true] {
        sys::nonblocking(conn.fd, nonblocking);
        for flags in combinations(&set) {
            for way in [Out::Send, Out::Sendto, Out::Sendmsg, Out::Sendmmsg] {
                let mut returned = Vec::new();
                for size in [1, 1000, 0, 20_000] {
                    let ret = conn.sent(way.call(conn.fd, &conn.payload(size)[..], flags));
                    returned.push(ret.to_string());
                }
                // What MORE held back goes out with the next send, or by itself in 200 ms.
                if flags != libc::MSG_MORE {
                    returned.push(conn.send(9, 0).to_string());
                }
                conn.start_read(if flags == libc::MSG_MORE { 21_001 } else { 21_010 }, 0);
                let (what, all) = (show::flags(flags), returned.join(" "));
                say!("{way:?} {what}: {all}, peer read {}", conn.finish());
            }
        }
    }
    sys::nonblocking(conn.fd, false);
    for (name, level) in [(libc::TCP_NODELAY, 1), (libc::TCP_CORK, 1), (libc::TCP_CORK, 0)] {
        let set = sys::setsockopt(conn.fd, libc::IPPROTO_TCP, name, level);
        let got = sys::getsockopt::<i32>(conn.fd, libc::IPPROTO_TCP, name);
        let sent = [conn.send(100, 0), conn.send(5, 0)];
        let read = conn.peer_reads(105);
        say!("option {name}={level}: {set} {got:?}, {} {}, peer read {read}", sent[0], sent[1]);
    }
    corked(subject);
}

/// TCP_CORK at any length, and what is left of it when a connection goes back to TCP.
fn corked(subject: &Subject) {
    let (tcp, cork) = (libc::IPPROTO_TCP, libc::TCP_CORK);
    for last in [0, 1] {
        let conn = subject.connect();
        for level in [1, 0, 7, last] {
            let set = sys::setsockopt(conn.fd, tcp, cork, level);
            let whole = sys::getsockopt::<i32>(conn.fd, tcp, cork);
            let byte = sys::getsockopt::<u8>(conn.fd, tcp, cork);
            let three = sys::getsockopt::<[u8; 3]>(conn.fd, tcp, cork);
            let long = sys::getsockopt::<[u8; 8]>(conn.fd, tcp, cork);
            say!("cork {level}: {set} {whole:?} {byte:?} {three:?} {long:?}");
        }
        say!("too short {}", sys::setsockopt(conn.fd, tcp, cork, 1_u8));
        let sent = [conn.send(100, 0), conn.send(5, 0)];
        // The kernel has to obey this one.
        let set = sys::setsockopt(conn.fd, tcp, libc::TCP_USER_TIMEOUT, 60_000);
        let got = sys::getsockopt::<i32>(conn.fd, tcp, cork);
        let more = [conn.send(100, 0), conn.send(5, 0)];
        let off = sys::setsockopt(conn.fd, tcp, cork, 0);
        say!("{sent:?}, back {set} {got:?}, {more:?}, {off}, peer read {}", conn.peer_reads(210));
    }
}

static SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_signal: i32) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Counts SIGPIPE from here on.
fn count_signals() {
    // SAFETY: the handler only touches an atomic.
    unsafe { libc::signal(libc::SIGPIPE, count as *const () as libc::sighandler_t) };
}

/// EPIPE with and without its signal, after our own shutdown and after the peer is gone.
pub(crate) fn no_signal(subject: &Subject) {
    count_signals();
    let calls = || {
        let plain = Out::ALL.iter().map(|&way| (way, 0));
        let quiet = Out::ALL.iter().filter(|way| !matches!(way, Out::Write | Out::Writev));
        plain.chain(quiet.map(|&way| (way, libc::MSG_NOSIGNAL)))
    };
    let attempt = |fd, way: Out, flags, size: usize| -> (Ret, u32) {
        let before = SIGNALS.load(Ordering::Relaxed);
        let ret = way.call(fd, &vec![0; size][..], flags);
        (ret, SIGNALS.load(Ordering::Relaxed) - before)
    };
    for nonblocking in [false, true] {
        let conn = subject.connect();
        sys::nonblocking(conn.fd, nonblocking);
        say!("shutdown {}", sys::shutdown(conn.fd, libc::SHUT_WR));
        for (way, flags) in calls() {
            for size in [0, 10] {
                let (ret, signals) = attempt(conn.fd, way, flags, size);
                say!("{way:?} {} of {size}: {ret}, signals {signals}", show::flags(flags));
            }
        }
        conn.peer_sends(10);
        say!("still reads {}", show::yes(conn.takes(10)));

        let conn = subject.connect();
        sys::nonblocking(conn.fd, nonblocking);
        conn.peer_resets();
        wait::tcp_state(conn.fd, wait::state::CLOSE);
        for (way, flags) in calls() {
            let (ret, signals) = attempt(conn.fd, way, flags, 10);
            say!("reset: {way:?} {}: {ret}, signals {signals}", show::flags(flags));
        }
    }
}
