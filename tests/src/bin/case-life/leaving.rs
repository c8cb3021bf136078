//! Connections that leave shared memory while bytes lie unread in their rings.

use super::passing::through_a_message;
use smc_tests::harness::net::{
    accept_warm, close, dial_warm, ioctl_int, read, recv, recv_exact, recv_to_end, send, send_all,
    serve, set_nonblocking, set_option, show, shutdown, so_error, Fd,
};
use smc_tests::harness::payload::{bytes, Sum};
use smc_tests::harness::process::{child_that_leaves, pause_ms, pipe, wait, Leave};
use smc_tests::harness::ready;
use smc_tests::harness::role::announce;
use smc_tests::{libc_call, say};
use std::sync::atomic::{AtomicBool, Ordering};

fn await_bytes(fd: Fd, count: i32) {
    while ioctl_int(fd, libc::FIONREAD).unwrap() < count {
        pause_ms(1);
    }
}

const OWED: usize = 3_000;

/// Leaves with what the peer has sent unread, and gets it although the peer waits for another
/// connection.
pub(crate) fn owed_server() {
    let (listener, port) = serve();
    announce(port);
    let [left, other] = [(); 2].map(|()| accept_warm(listener));
    await_bytes(left, OWED as i32);
    // Time for the peer to fall asleep.
    pause_ms(20);
    let left = through_a_message(left);
    let mut data = vec![0; OWED];
    assert_eq!(recv_exact(left, &mut data), Ok(OWED));
    say!("got {}", Sum::of(&data));
    send_all(other, b"g").unwrap();
    say!("then {:?}", recv_to_end(left));
}

/// Sends on one connection and waits for another in the given way.
pub(crate) fn owed_client(port: u16, how: &str) {
    let [left, other] = [(); 2].map(|()| dial_warm(port));
    send_all(left, &bytes(3, OWED)).unwrap();
    match how {
        "recv" => {}
        "poll" => say!("{}", show(ready::poll_one(other, libc::POLLIN, -1).map(|n| n as usize))),
        "select" => {
            // SAFETY: plain bits, for which zero is valid.
            let mut set: libc::fd_set = unsafe { std::mem::zeroed() };
            // SAFETY: a valid set, and a number below its size.
            unsafe { libc::FD_SET(other, &mut set) };
            let none = std::ptr::null_mut();
            let got = libc_call!(libc::select(other + 1, &mut set, none, none, none.cast()));
            say!("{}", show(got));
        }
        _ => {
            let epoll = ready::epoll();
            ready::add(epoll, other, libc::EPOLLIN, 7).unwrap();
            say!("{}", ready::show(&ready::wait(epoll, 4, -1)));
        }
    }
    say!("released: {}", show(recv_exact(other, &mut [0])));
    close(left).unwrap();
}

/// More than one chunk of a copy, and no whole number of segments.
const COPIED: usize = 20_001;

/// Sends, leaves, and says so by the other connection.
pub(crate) fn copied_server() {
    let (listener, port) = serve();
    announce(port);
    let [left, other] = [(); 2].map(|()| accept_warm(listener));
    send_all(left, &bytes(4, COPIED)).unwrap();
    let left = through_a_message(left);
    send_all(other, b"g").unwrap();
    say!("then {:?}", recv_to_end(left));
    assert_eq!(recv_exact(other, &mut [0]), Ok(1));
}

/// Has all from the ring and shuts both directions: nothing that comes then is new.
pub(crate) fn copied_client(port: u16) {
    let [left, other] = [(); 2].map(|()| dial_warm(port));
    await_bytes(left, COPIED as i32);
    assert_eq!(recv_exact(other, &mut [0]), Ok(1));
    let mut data = vec![0; COPIED];
    assert_eq!(recv_exact(left, &mut data), Ok(COPIED));
    say!("got {}", Sum::of(&data));
    say!("shutdown {}", show(shutdown(left, libc::SHUT_RDWR)));
    // Longer than an acknowledgement is delayed.
    pause_ms(60);
    say!("then {}, error {}", show(recv(left, &mut [0; 8], 0)), so_error(left));
    send_all(other, b"g").unwrap();
}

/// Receives over TCP again and still sends through the ring: whether there is room is the ring's to say.
pub(crate) fn half_server() {
    let (listener, port) = serve();
    announce(port);
    let fd = accept_warm(listener);
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMP, 1_i32).unwrap();
    send_all(fd, b"a").unwrap();
    say!("answer: {}", show(recv_exact(fd, &mut [0])));
    set_nonblocking(fd, true);
    let full = loop {
        match send(fd, &[7; 4096], libc::MSG_NOSIGNAL) {
            Ok(_) => {}
            other => break other,
        }
    };
    say!("full: {}", show(full));
    say!("poll: {}", show(ready::poll_one(fd, libc::POLLOUT, 0).map(|n| n as usize)));
    let epoll = ready::epoll();
    ready::add(epoll, fd, libc::EPOLLOUT | libc::EPOLLET, 7).unwrap();
    say!("epoll: {}", ready::show(&ready::wait(epoll, 4, 0)));
    say!("then: {}", ready::show(&ready::wait(epoll, 4, 10_000)));
    set_nonblocking(fd, false);
    shutdown(fd, libc::SHUT_WR).unwrap();
    say!("end: {:?}", recv_to_end(fd));
}

/// Reads nothing for a while.
pub(crate) fn half_client(port: u16) {
    let fd = dial_warm(port);
    assert_eq!(recv_exact(fd, &mut [0]), Ok(1));
    send_all(fd, b"b").unwrap();
    pause_ms(300);
    let mut buffer = vec![0; 64 << 10];
    let error = loop {
        match recv(fd, &mut buffer, 0) {
            Ok(0) => break None,
            Ok(_) => {}
            Err(error) => break Some(error),
        }
    };
    say!("error {error:?}");
}

const ROUNDS: u64 = 80;
const BURST: usize = 20_000;

/// Closes connections while another thread forks: what a peer has not read when it leaves the ring is
/// in its socket, whoever held the connection last.
pub(crate) fn closed_in_forks_server() {
    let (listener, port) = serve();
    announce(port);
    // One more of the family lives, so that who holds what goes by the counts alone.
    let (hears, ends) = pipe();
    let other = child_that_leaves(Leave::Quick, || {
        close(ends).unwrap();
        read(hears, &mut [0]).map_or(1, |n| i32::try_from(n).unwrap())
    });
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                wait(child_that_leaves(Leave::Quick, || 0));
            }
        });
        for seed in 0..ROUNDS {
            let fd = accept_warm(listener);
            send_all(fd, &bytes(seed, BURST)).unwrap();
            close(fd).unwrap();
        }
        over.store(true, Ordering::Release);
    });
    close(ends).unwrap();
    say!("the other: {}", wait(other));
}

/// Leaves each with all unread, once the peer has closed it.
pub(crate) fn closed_in_forks_client(port: u16) {
    let mut right = 0;
    for seed in 0..ROUNDS {
        let fd = dial_warm(port);
        ready::poll_one(fd, libc::POLLRDHUP, -1).unwrap();
        let fd = through_a_message(fd);
        let mut data = vec![0; BURST];
        let got = recv_exact(fd, &mut data);
        let end = recv(fd, &mut [0; 8], 0);
        if (got, end) == (Ok(BURST), Ok(0)) && data == bytes(seed, BURST) {
            right += 1;
        } else {
            say!("{seed}: {got:?}, then {end:?}");
        }
        close(fd).unwrap();
    }
    say!("{right} right");
}
