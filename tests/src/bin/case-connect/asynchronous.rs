//! Connecting without waiting.

use libc::{EPOLLET, EPOLLIN, EPOLLOUT, EPOLLRDHUP};
use smc_tests::harness::net::{
    accept, bind, close, connect, getsockname, listen, recv, send, serve, show, so_error, tcp,
    tcp_nonblocking, Addr, Errno, Fd,
};
use smc_tests::harness::process::pause_ms;
use smc_tests::harness::role::announce;
use smc_tests::harness::{ready, talk};
use smc_tests::say;

/// Registered before connect(), as event loops do; then it talks through the same registration.
pub(crate) fn epoll_before_connect(port: u16) {
    for (name, mask, extra) in [
        ("level", EPOLLIN | EPOLLOUT | EPOLLRDHUP, 0),
        ("edge", EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, EPOLLET),
        ("edge, narrowed", EPOLLIN | EPOLLOUT | EPOLLET, EPOLLET),
        ("level, narrowed", EPOLLIN | EPOLLOUT, 0),
    ] {
        let epoll = ready::epoll();
        let fd = tcp_nonblocking();
        ready::add(epoll, fd, mask, 1).unwrap();
        say!("{name}: unconnected {}", ready::show(&ready::wait(epoll, 8, 0)));
        say!("{name}: connect {}", show(connect(fd, &Addr::v4(port))));
        say!("{name}: connected {}", ready::show(&ready::wait(epoll, 8, 5000)));
        say!("{name}: error {}", so_error(fd));
        if name.ends_with("narrowed") {
            ready::modify(epoll, fd, EPOLLIN | extra, 2).unwrap();
        }
        for turn in 0..20 {
            round(epoll, fd, turn, name);
        }
        talk::ask_many(fd, 20).unwrap();
        close(fd).unwrap();
        say!("{name}: closed {}", ready::show(&ready::wait(epoll, 8, 0)));
        close(epoll).unwrap();
    }
}

/// One request, and its reply, which is read only when IN says so.
fn round(epoll: Fd, fd: Fd, turn: u32, name: &str) {
    let mut request = Vec::new();
    for word in [turn, 0, 900] {
        request.extend(word.to_le_bytes());
    }
    assert_eq!(send(fd, &request, 0), Ok(request.len()));
    let mut have = 0;
    let mut seen = 0;
    while have < 900 {
        let events = ready::wait(epoll, 8, 5000).unwrap();
        assert!(!events.is_empty(), "{name}: no event for the reply of turn {turn}");
        seen |= events[0].1;
        assert_eq!(events.len(), 1, "{name}: one event per descriptor");
        let mut buf = [0; 1024];
        // Where OUT was asked for as well, it comes alone at first.
        while events[0].1 & EPOLLIN.cast_unsigned() != 0 {
            match recv(fd, &mut buf, 0) {
                Ok(n) => {
                    assert!(n > 0, "{name}: end of stream in turn {turn}");
                    have += n;
                }
                Err(e) => {
                    assert_eq!(e, Errno(libc::EAGAIN));
                    break;
                }
            }
        }
    }
    if turn.is_multiple_of(5) {
        say!("{name}: turn {turn}: {have} bytes by {}", ready::names(seen));
    }
}

/// A port that nobody listens on, held by a bound socket so that nobody takes it.
fn closed_port() -> (Fd, u16) {
    let holder = tcp();
    bind(holder, &Addr::v4(0)).unwrap();
    (holder, getsockname(holder).unwrap().port())
}

/// Refused connections: the error is reported once, and the events come whatever the mask.
pub(crate) fn refused() {
    let (_holder, port) = closed_port();
    for (name, mask) in
        [("in", EPOLLIN), ("out", EPOLLOUT), ("in and out", EPOLLIN | EPOLLOUT), ("nothing", 0)]
    {
        for before in [true, false] {
            let epoll = ready::epoll();
            let fd = tcp_nonblocking();
            if before {
                ready::add(epoll, fd, mask, 1).unwrap();
            }
            let begun = show(connect(fd, &Addr::v4(port)));
            if !before {
                ready::add(epoll, fd, mask, 1).unwrap();
            }
            let events = ready::show(&ready::wait(epoll, 8, 2000));
            say!("mask {name}, before {before}: connect {begun}, events {events}");
            say!("  error {} then {}", so_error(fd), so_error(fd));
            say!("  send {}", show(send(fd, b"x", libc::MSG_NOSIGNAL)));
            say!("  recv {}", show(recv(fd, &mut [0; 4], 0)));
            say!("  again {}", show(connect(fd, &Addr::v4(port))));
            close(fd).unwrap();
            close(epoll).unwrap();
        }
    }
    let fd = tcp_nonblocking();
    say!("poll: connect {}", show(connect(fd, &Addr::v4(port))));
    let events = ready::poll_one(fd, libc::POLLIN, 2000).unwrap();
    say!("poll: events {}, recv {}", ready::names(events), show(recv(fd, &mut [0; 4], 0)));
    say!("poll: recv again {}", show(recv(fd, &mut [0; 4], 0)));
    close(fd).unwrap();
    let fd = tcp();
    say!("blocking: {}", show(connect(fd, &Addr::v4(port))));
    say!("blocking again: {}", show(connect(fd, &Addr::v4(port))));
    let (listener, open) = serve();
    say!("blocking, to an open port: {}", show(connect(fd, &Addr::v4(open))));
    say!("connected twice: {}", show(connect(fd, &Addr::v4(open))));
    close(fd).unwrap();
    close(listener).unwrap();
}

/// Calls on a socket whose connection is still being made: the listener's queue is full, so the
/// kernel lets the handshake wait.
pub(crate) fn in_progress() {
    let listener = tcp();
    bind(listener, &Addr::v4(0)).unwrap();
    listen(listener, 0).unwrap();
    let at = getsockname(listener).unwrap();
    let first = tcp();
    connect(first, &at).unwrap();
    let fd = tcp_nonblocking();
    let epoll = ready::epoll();
    ready::add(epoll, fd, EPOLLIN | EPOLLOUT, 1).unwrap();
    say!("connect {}", show(connect(fd, &at)));
    say!("events {}", ready::show(&ready::wait(epoll, 8, 50)));
    say!("send {}", show(send(fd, b"early", libc::MSG_NOSIGNAL)));
    say!("recv {}", show(recv(fd, &mut [0; 8], 0)));
    say!("peek {}", show(recv(fd, &mut [0; 8], libc::MSG_PEEK)));
    say!("connect again {}", show(connect(fd, &at)));
    say!("error {}", so_error(fd));
    let served = accept(listener).unwrap();
    close(first).unwrap();
    say!("first client's stream: {}", show(recv(served, &mut [0; 8], 0)));
    close(served).unwrap();
    say!("events after room was made {}", ready::show(&ready::wait(epoll, 8, 8000)));
    let served = accept(listener).unwrap();
    say!("connect when connected {}", show(connect(fd, &at)));
    say!("connect once more {}", show(connect(fd, &at)));
    say!("send {}", show(send(fd, b"hello", 0)));
    say!("server receives {}", show(recv(served, &mut [0; 8], 0)));
    say!("server sends {}", show(send(served, b"world!", 0)));
    let events = ready::poll_one(fd, libc::POLLIN, 2000).unwrap();
    say!("client has {}: {}", ready::names(events), show(recv(fd, &mut [0; 8], 0)));
}

const BATCHES: usize = 10;
const BATCH: usize = 200;

/// Takes connections that are all closed at once.
pub(crate) fn abandoned_server() {
    let listener = tcp();
    bind(listener, &Addr::v4(0)).unwrap();
    listen(listener, 4096).unwrap();
    announce(getsockname(listener).unwrap().port());
    let mut ends = 0;
    for _ in 0..BATCHES * BATCH {
        let fd = accept(listener).unwrap();
        if recv(fd, &mut [0; 8], 0) == Ok(0) {
            ends += 1;
        }
        close(fd).unwrap();
    }
    say!("{ends} streams ended without data");
    let fd = accept(listener).unwrap();
    say!("answered {}", talk::answer_all(fd));
}

/// Two thousand nonblocking connects, closed without a word, then one that talks.
pub(crate) fn abandoned_client(port: u16) {
    let mut outcomes = Vec::new();
    for _ in 0..BATCHES {
        let fds: Vec<Fd> = (0..BATCH).map(|_| tcp_nonblocking()).collect();
        outcomes.extend(fds.iter().map(|&fd| show(connect(fd, &Addr::v4(port)))));
        for fd in fds {
            close(fd).unwrap();
        }
        // The queue holds a whole batch; let the server come closer.
        pause_ms(5);
    }
    outcomes.sort_unstable();
    outcomes.dedup();
    say!("connects: {outcomes:?}");
    let fd = smc_tests::harness::net::dial(port);
    talk::ask_many(fd, 30).unwrap();
    say!("talked");
}
