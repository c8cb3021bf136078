//! A connection that becomes the standard input of a child while its peer is sending, or when it
//! has sent all and ended.

use crate::again::await_unread;
use crate::images::Next;
use smc_tests::harness::net::{
    accept_warm, close, dial_warm, read, recv_to_end, send, send_all, serve, set_inherited,
    shutdown, Fd,
};
use smc_tests::harness::payload::{bytes, Sum};
use smc_tests::harness::process::{child_that_leaves, dup2, wait, Leave};
use smc_tests::harness::ready;
use smc_tests::harness::role::announce;
use smc_tests::say;

const LARGE: usize = 6 << 20;
const SMALL: usize = 50_000;

fn child_with_input(fd: Fd, next: &Next) -> i32 {
    let pid = child_that_leaves(Leave::Quick, || {
        dup2(fd, 0).unwrap();
        dup2(fd, 1).unwrap();
        close(fd).unwrap();
        next.exec(&[]);
        127
    });
    close(fd).unwrap();
    pid
}

/// The server gives a stream away that is coming in.
pub(crate) fn busy_server() {
    let (listener, port) = serve();
    announce(port);
    set_inherited(listener, false);
    let fd = accept_warm(listener);
    await_unread(fd, 1000);
    let pid = child_with_input(fd, &Next::this("take_input", &[]));
    say!("child left with {}", wait(pid));
}

/// What takes it counts it and says so on the connection.
pub(crate) fn take_input() {
    let mut sum = Sum::default();
    let mut room = vec![0; 30_000];
    loop {
        match read(0, &mut room).unwrap() {
            0 => break,
            n => sum.add(&room[..n]),
        }
    }
    send_all(1, format!("{sum}").as_bytes()).unwrap();
}

/// Its client sends all in one call, which returns when all is sent.
pub(crate) fn busy_client(port: u16) {
    let fd = dial_warm(port);
    let all = bytes(9, LARGE);
    say!("sent {:?}", send(fd, &all, libc::MSG_NOSIGNAL));
    shutdown(fd, libc::SHUT_WR).unwrap();
    let mut room = [0; 200];
    let n = read(fd, &mut room).unwrap();
    let mut sum = Sum::default();
    sum.add(&all);
    say!("the child got the same: {}", room[..n] == *format!("{sum}").as_bytes());
    close(fd).unwrap();
}

/// The server gives a stream away that has ended and lies unread.
pub(crate) fn ended_server() {
    let (listener, port) = serve();
    announce(port);
    set_inherited(listener, false);
    for round in 0..3 {
        let fd = accept_warm(listener);
        await_unread(fd, SMALL);
        while ready::poll_one(fd, libc::POLLRDHUP, -1).unwrap() == 0 {}
        let pid = child_with_input(fd, &Next::program("/bin/cat", &[]));
        say!("round {round}: cat left with {}", wait(pid));
    }
}

/// Its client.
pub(crate) fn ended_client(port: u16) {
    for round in 0..3 {
        let fd = dial_warm(port);
        let all = bytes(round, SMALL);
        send_all(fd, &all).unwrap();
        shutdown(fd, libc::SHUT_WR).unwrap();
        let mut sum = Sum::default();
        sum.add(&all);
        let (echo, error) = recv_to_end(fd);
        say!("round {round}: the echo is the same: {}", format!("{echo}") == format!("{sum}"));
        say!("error {error:?}");
        close(fd).unwrap();
    }
}
