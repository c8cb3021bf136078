//! D9 to D11: shutdown in every direction, reset, and the end after data.

use super::matrix::{ET, IN, OUT, RDHUP};
use smc_tests::puppet::show::Ret;
use smc_tests::puppet::wait::{self, Epoll};
use smc_tests::puppet::{show, sys, Conn, Subject};
use smc_tests::say;

/// Something that happens to a connection, complete when `take` returns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The peer sends this many bytes.
    Data(usize),
    /// We read this many.
    Read(usize),
    /// The peer shuts down its sending side.
    PeerShuts,
    /// The peer closes.
    PeerCloses,
    /// The peer resets.
    Reset,
    /// We read once more, to meet the end or the error.
    ReadEnd,
    /// We shut down.
    Shut(libc::c_int),
}

impl Step {
    pub(crate) fn take(self, conn: &Conn) {
        match self {
            Self::Data(count) => conn.peer_sends(count),
            Self::Read(count) => assert!(conn.takes(count), "wrong bytes"),
            Self::PeerShuts => {
                conn.peer_shuts(libc::SHUT_WR);
                wait::settle();
                wait::until(|| peer_ended(conn.fd));
                wait::settle();
            }
            Self::PeerCloses => {
                conn.peer_closes();
                wait::until(|| peer_ended(conn.fd));
                wait::settle();
            }
            Self::Reset => {
                conn.peer_resets();
                wait::tcp_state(conn.fd, wait::state::CLOSE);
            }
            Self::ReadEnd => {
                sys::recv(conn.fd, &mut [0; 100], libc::MSG_DONTWAIT);
            }
            Self::Shut(how) => {
                shut(conn.fd, how);
            }
        }
    }
}

/// Shuts down, and waits until the peer has acknowledged it if it told the peer: that is an event
/// of its own, which may come up to 200 ms later.
fn shut(fd: i32, how: libc::c_int) -> Ret {
    let ret = sys::shutdown(fd, how);
    // FIN_WAIT1, LAST_ACK, CLOSING.
    wait::until(|| !matches!(tcp_state(fd), 4 | 9 | 11));
    wait::settle();
    ret
}

fn tcp_state(fd: i32) -> u8 {
    sys::getsockopt::<u8>(fd, libc::IPPROTO_TCP, libc::TCP_INFO).unwrap_or(0)
}

/// Whether the peer's FIN is here: CLOSE_WAIT, LAST_ACK, CLOSING, TIME_WAIT or gone.
fn peer_ended(fd: i32) -> bool {
    matches!(tcp_state(fd), 6..=9 | 11)
}

/// Lives of a connection.
pub(crate) const STORIES: &[&[Step]] = &[
    &[
        Step::Data(10),
        Step::Data(10),
        Step::Read(5),
        Step::Read(15),
        Step::Data(1000),
        Step::Read(1000),
        Step::PeerShuts,
        Step::ReadEnd,
        Step::Shut(libc::SHUT_WR),
    ],
    &[Step::Data(10), Step::PeerShuts, Step::Read(10), Step::ReadEnd, Step::Shut(libc::SHUT_RDWR)],
    &[Step::Data(10), Step::PeerCloses, Step::Read(10), Step::ReadEnd],
    &[Step::Reset, Step::ReadEnd, Step::ReadEnd],
    &[Step::Data(10), Step::Reset, Step::Read(10), Step::ReadEnd, Step::ReadEnd],
    &[Step::Shut(libc::SHUT_WR), Step::Data(10), Step::Read(10), Step::PeerShuts, Step::ReadEnd],
    &[Step::Shut(libc::SHUT_RD), Step::ReadEnd, Step::Shut(libc::SHUT_WR), Step::PeerCloses],
];

/// Everything that a socket says of itself, and then what reading and writing it give.
fn state(conn: &Conn, epoll: &Epoll, edge: &Epoll) {
    say!("    poll {}, epoll {}, edge {}", wait::poll_now(conn.fd), epoll.twice(), edge.twice());
    let (dontwait, quiet) = (libc::MSG_DONTWAIT, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    let mut room = [0; 100];
    let peek = sys::recv(conn.fd, &mut room, dontwait | libc::MSG_PEEK);
    let read = sys::recv(conn.fd, &mut room, dontwait);
    let again = sys::recv(conn.fd, &mut room, dontwait);
    say!("    peek {peek}, read {read}, again {again}");
    let write = sys::send(conn.fd, &[], quiet);
    let error = show::errno(sys::so_error(conn.fd));
    say!("    write nothing {write}, SO_ERROR {error}");
}

/// Shutdown of each direction at each end, in each order, with and without data there.
pub(crate) fn shutdown(subject: &Subject) {
    let names = [(libc::SHUT_RD, "RD"), (libc::SHUT_WR, "WR"), (libc::SHUT_RDWR, "RDWR")];
    for data in [0, 20] {
        for remote in [None, Some(Step::PeerShuts), Some(Step::PeerCloses), Some(Step::Reset)] {
            for (how, name) in names {
                let conn = subject.connect();
                let (epoll, edge) = (Epoll::new(), Epoll::new());
                epoll.add(conn.fd, IN | OUT | RDHUP, 0);
                edge.add(conn.fd, IN | OUT | RDHUP | ET, 0);
                edge.now();
                if data > 0 {
                    conn.peer_sends(data);
                }
                say!("{data} there, {remote:?}, {name}");
                if let Some(step) = remote {
                    step.take(&conn);
                    say!("  {step:?}: poll {}, edge {}", wait::poll_now(conn.fd), edge.twice());
                }
                let ret = shut(conn.fd, how);
                say!("  shutdown {ret}");
                state(&conn, &epoll, &edge);
                say!("  again {}", sys::shutdown(conn.fd, how));
            }
        }
    }
    say!("bad how: {}", {
        let conn = subject.connect();
        sys::shutdown(conn.fd, 7)
    });
}

/// A reset: its events, ECONNRESET once, then the end; for sending ECONNRESET once, then EPIPE.
pub(crate) fn reset(subject: &Subject) {
    let quiet = libc::MSG_NOSIGNAL;
    for data in [0, 20] {
        for first in ["read", "write", "SO_ERROR"] {
            let conn = subject.connect();
            let (epoll, edge) = (Epoll::new(), Epoll::new());
            epoll.add(conn.fd, IN | OUT | RDHUP, 0);
            edge.add(conn.fd, IN | OUT | RDHUP | ET, 0);
            edge.now();
            if data > 0 {
                conn.peer_sends(data);
                edge.now();
            }
            Step::Reset.take(&conn);
            say!("{data} there, first {first}");
            say!(
                "  poll {}, epoll {}, edge {}",
                wait::poll_now(conn.fd),
                epoll.now(),
                edge.twice()
            );
            let mut room = [0; 100];
            for _ in 0..2 {
                match first {
                    "read" => say!("  read {}", sys::recv(conn.fd, &mut room, 0)),
                    "write" => say!("  write {}", sys::send(conn.fd, &[1], quiet)),
                    _ => say!("  SO_ERROR {}", show::errno(sys::so_error(conn.fd))),
                }
            }
            say!(
                "  poll {}, epoll {}, edge {}",
                wait::poll_now(conn.fd),
                epoll.now(),
                edge.twice()
            );
            let read = [sys::recv(conn.fd, &mut room, 0), sys::recv(conn.fd, &mut room, 0)];
            let write = [sys::send(conn.fd, &[1], quiet), sys::send(conn.fd, &[1], quiet)];
            say!("  then read {} {}, write {} {}", read[0], read[1], write[0], write[1]);
            say!("  SO_ERROR {}", show::errno(sys::so_error(conn.fd)));
        }
    }
    // The reset that answers data sent to a peer that has closed.
    let conn = subject.connect();
    Step::PeerCloses.take(&conn);
    say!("to a closed peer: {}", sys::send(conn.fd, &[1], quiet));
    wait::tcp_state(conn.fd, wait::state::CLOSE);
    say!("  poll {}", wait::poll_now(conn.fd));
    say!("  then {} {}", sys::send(conn.fd, &[1], quiet), sys::recv(conn.fd, &mut [0; 9], 0));
    // The peer closes with data of ours unread: a reset, not an end.
    let conn = subject.connect();
    say!("unread by the peer: {}", sys::send(conn.fd, &[1; 100], quiet));
    wait::delivered(conn.fd);
    conn.peer_closes();
    wait::tcp_state(conn.fd, wait::state::CLOSE);
    say!("  poll {}", wait::poll_now(conn.fd));
    let read = [sys::recv(conn.fd, &mut [0; 9], 0), sys::recv(conn.fd, &mut [0; 9], 0)];
    say!("  then {} {}", read[0], read[1]);
}

/// However it ends in order, the data comes first, all of it.
pub(crate) fn data_then_end(subject: &Subject) {
    for size in [1, 5_000, 100_000, 5_000_000] {
        for close in [false, true] {
            for step in [7_000, 1 << 20] {
                let conn = subject.connect();
                sys::nonblocking(conn.fd, true);
                let edge = Epoll::new();
                edge.add(conn.fd, IN | RDHUP | ET, 0);
                conn.start_send(size, 5);
                if close {
                    conn.start_close(0);
                } else {
                    conn.start_shut(libc::SHUT_WR, 0);
                }
                let mut have = 0;
                let mut ended = false;
                let mut right = true;
                let mut room = vec![0; step];
                while !ended {
                    let got = edge.wait(4, wait::LONG);
                    if got.is_empty() {
                        say!("no event after {have} bytes of {size}");
                        break;
                    }
                    loop {
                        let ret = sys::recv(conn.fd, &mut room[..], 0);
                        if ret.value <= 0 {
                            ended = ret.value == 0;
                            assert!(ended || ret.is(libc::EAGAIN), "recv {ret}");
                            break;
                        }
                        right &= conn.came(&room[..ret.count()]);
                        have += ret.count();
                    }
                }
                assert!(conn.finish() >= 0 && conn.finish() == 0, "the puppet failed");
                let poll = wait::poll_now(conn.fd);
                say!("{size} by {step}, close {}: {have} {} {poll}", show::yes(close), {
                    show::yes(right)
                });
            }
        }
    }
    // All there before the first look.
    let conn = subject.connect();
    let epoll = Epoll::new();
    epoll.add(conn.fd, IN | RDHUP, 0);
    conn.peer_sends(100);
    Step::PeerCloses.take(&conn);
    say!("data and end: {} {}", wait::poll_now(conn.fd), epoll.twice());
    let mut room = [0; 100];
    let all = [60, 60, 60].map(|n| sys::recv(conn.fd, &mut room[..n], 0).to_string());
    say!("  {} then {}", all.join(" "), epoll.twice());
}
