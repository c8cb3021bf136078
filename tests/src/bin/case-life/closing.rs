//! What a close says to the peer.

use smc_tests::harness::net::{
    accept, accept_warm, close, dial, dial_warm, recv, recv_exact, recv_to_end, send, send_all,
    serve, set_linger, show, shutdown, so_error, Fd,
};
use smc_tests::harness::payload::{bytes, Sum};
use smc_tests::harness::process::{child, kill, leave, pause_ms, wait, Leave};
use smc_tests::harness::ready;
use smc_tests::harness::role::announce;
use smc_tests::say;

fn peer_is_gone(fd: Fd) -> String {
    let events = libc::POLLRDHUP;
    ready::poll_one(fd, events, 5000).unwrap();
    // The kernel sets a reset's events one after the other; who wakes at the first sees not all.
    pause_ms(10);
    ready::names(ready::poll_one(fd, events, 0).unwrap())
}

/// Closes with SO_LINGER 0, once with nothing outstanding, once with data on its way.
pub(crate) fn linger_zero_server() {
    let (listener, port) = serve();
    announce(port);
    for extra in [0, 1000] {
        let fd = accept_warm(listener);
        send_all(fd, &bytes(5, extra)).unwrap();
        if extra > 0 {
            // The peer has it in its queue before the reset comes.
            pause_ms(200);
        }
        set_linger(fd, true, 0).unwrap();
        say!("close {}", show(close(fd)));
    }
}

/// Sees a reset, not an end.
pub(crate) fn linger_zero_client(port: u16) {
    for extra in [0, 1000] {
        let fd = dial_warm(port);
        say!("{extra}: events {}", peer_is_gone(fd));
        let mut buf = vec![0; 4096];
        say!("{extra}: recv {}", show(recv(fd, &mut buf, 0)));
        say!("{extra}: recv again {}", show(recv(fd, &mut buf, 0)));
        say!("{extra}: send {}", show(send(fd, b"x", libc::MSG_NOSIGNAL)));
        say!("{extra}: error {}", so_error(fd));
        close(fd).unwrap();
    }
}

const BULK: usize = 3 << 20;

/// Sends much to a slow reader and closes, lingering: nothing is lost.
pub(crate) fn linger_data_server() {
    let (listener, port) = serve();
    announce(port);
    for linger in [false, true] {
        let fd = accept_warm(listener);
        if linger {
            set_linger(fd, true, 20).unwrap();
        }
        send_all(fd, &bytes(6, BULK)).unwrap();
        say!("close {}", show(close(fd)));
    }
}

/// Reads slowly to the end.
pub(crate) fn linger_data_client(port: u16) {
    for _ in 0..2 {
        let fd = dial_warm(port);
        let mut sum = Sum::default();
        let mut buf = vec![0; 256 << 10];
        pause_ms(100);
        loop {
            let got = recv_exact(fd, &mut buf).unwrap();
            sum.add(&buf[..got]);
            if got < buf.len() {
                break;
            }
            pause_ms(5);
        }
        say!("received {sum}, right {}", sum == Sum::of(&bytes(6, BULK)));
        say!("end: {:?}", recv_to_end(fd));
        close(fd).unwrap();
    }
}

/// Closes with data unread: the peer must learn that it was lost.
pub(crate) fn unread_server() {
    let (listener, port) = serve();
    announce(port);
    for reply in [0, 500] {
        let fd = accept_warm(listener);
        // Wait until all of it is here, read a part, and leave the rest.
        let mut part = vec![0; 100];
        recv_exact(fd, &mut part).unwrap();
        pause_ms(200);
        send_all(fd, &bytes(11, reply)).unwrap();
        pause_ms(100);
        say!("{reply}: close {}", show(close(fd)));
    }
}

/// Dies by SIGKILL, or by an exit of which nobody hears, with data unread.
pub(crate) fn died_unread_server(way: &str) {
    let (listener, port) = serve();
    announce(port);
    for reply in [0, 500] {
        // In a child, which alone has the connection.
        let pid = child(|| {
            let fd = accept_warm(listener);
            let mut part = vec![0; 100];
            recv_exact(fd, &mut part).unwrap();
            pause_ms(200);
            send_all(fd, &bytes(11, reply)).unwrap();
            pause_ms(100);
            if way == "exits" {
                leave(Leave::Quick, 5);
            }
            kill(i32::try_from(std::process::id()).unwrap(), libc::SIGKILL).unwrap();
            0
        });
        say!("{reply}: {}", wait(pid));
    }
}

/// Says its last word, reads nothing more, and dies by SIGKILL.
pub(crate) fn died_half_closed_server() {
    let (listener, port) = serve();
    announce(port);
    let pid = child(|| {
        let fd = accept_warm(listener);
        say!("shutdown {}", show(shutdown(fd, libc::SHUT_WR)));
        pause_ms(700);
        kill(i32::try_from(std::process::id()).unwrap(), libc::SIGKILL).unwrap();
        0
    });
    say!("{}", wait(pid));
}

/// Reads the end, then sends until nobody can read it any more.
pub(crate) fn died_half_closed_client(port: u16) {
    let fd = dial_warm(port);
    say!("recv {:?}", recv_to_end(fd));
    let chunk = bytes(10, 10_000);
    let error = loop {
        if let Err(error) = send(fd, &chunk, libc::MSG_NOSIGNAL) {
            break error;
        }
    };
    say!("send {error:?}, again {}", show(send(fd, &chunk, libc::MSG_NOSIGNAL)));
    say!("recv {}", show(recv(fd, &mut [0; 10], 0)));
    say!("close {}", show(close(fd)));
}

/// Sees a reset after what was sent to it.
pub(crate) fn unread_client(port: u16) {
    for reply in [0, 500] {
        let fd = dial_warm(port);
        send_all(fd, &bytes(10, 5000)).unwrap();
        say!("{reply}: events {}", peer_is_gone(fd));
        let mut buf = vec![0; 4096];
        say!("{reply}: recv {}", show(recv(fd, &mut buf, 0)));
        say!("{reply}: recv again {}", show(recv(fd, &mut buf, 0)));
        say!("{reply}: send {}", show(send(fd, b"x", libc::MSG_NOSIGNAL)));
        close(fd).unwrap();
    }
}

/// Turns of request and reply before the last reply, which is read when all is over: the
/// connection is caught in every state between its first byte and a ring in both directions.
const TURNS: usize = 8;
/// How a connection is over when the client reads.
const ENDS: [&str; 3] = ["half closed", "greeted", "reset"];

fn is_answered(end: &str) -> bool {
    end != "greeted"
}

/// Replies a last time and closes.
pub(crate) fn late_server() {
    let (listener, port) = serve();
    announce(port);
    for end in ENDS {
        for turns in 0..TURNS {
            let fd = accept(listener).unwrap();
            let mut request = [0; 10];
            for turn in 0..turns {
                recv_exact(fd, &mut request).unwrap();
                send_all(fd, &bytes(turn as u64, 20)).unwrap();
            }
            if is_answered(end) {
                recv_exact(fd, &mut request).unwrap();
            }
            send_all(fd, &bytes(100, 500)).unwrap();
            say!("{end} after {turns}: close {}", show(close(fd)));
        }
    }
    let fd = accept_warm(listener);
    say!("end: {:?}", recv_to_end(fd));
}

/// Reads the last reply after the kernel has forgotten how the connection ended.
pub(crate) fn late_client(port: u16) {
    for end in ENDS {
        for turns in 0..TURNS {
            let fd = dial(port);
            for turn in 0..turns {
                send_all(fd, &bytes(1, 10)).unwrap();
                let mut reply = [0; 20];
                recv_exact(fd, &mut reply).unwrap();
                assert!(reply[..] == bytes(turn as u64, 20));
            }
            if is_answered(end) {
                send_all(fd, &bytes(1, 10)).unwrap();
            }
            // "half closed": both directions may end while the reply is on its way.
            if end != "half closed" {
                pause_ms(50);
            }
            if end == "reset" {
                // What comes after the peer's close is answered by a reset.
                while send(fd, b"more", libc::MSG_NOSIGNAL).is_ok() {
                    pause_ms(10);
                }
            } else {
                say!("{end} after {turns}: shutdown {}", show(shutdown(fd, libc::SHUT_WR)));
            }
            pause_ms(50);
            let mut reply = vec![0; 1000];
            let got = recv_exact(fd, &mut reply);
            let right = got.is_ok_and(|got| reply[..got] == bytes(100, 500));
            say!("{end} after {turns}: received {got:?}, right {right}");
            close(fd).unwrap();
        }
    }
    close(dial_warm(port)).unwrap();
}
