//! Listeners, and connections that wait in their queue.

use libc::{SOL_SOCKET, SO_REUSEPORT};
use smc_tests::harness::net::{
    accept, accept4, bind, close, connect, dial, getsockname, listen, recv, recv_exact,
    recv_to_end, send, send_all, serve, set_linger, set_option, show, tcp, Addr, Fd,
};
use smc_tests::harness::payload::{bytes, Sum};
use smc_tests::harness::process::{child, pause_ms, pipe, wait};
use smc_tests::harness::ready;
use smc_tests::harness::role::announce;
use smc_tests::harness::talk::{answer, ask, ask_many};
use smc_tests::say;

const WORKERS: usize = 4;
const DIALS: u32 = 200;

fn reuseport_listener(port: u16) -> Fd {
    let fd = tcp();
    set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1_i32).unwrap();
    bind(fd, &Addr::v4(port)).unwrap();
    listen(fd, 256).unwrap();
    fd
}

/// Accepts until the pipe closes; greets with its own number, then answers; tells the parent when
/// a client says that it was the last.
fn worker(number: usize, listener: Fd, until: Fd, last: Fd) -> i32 {
    loop {
        let mut set =
            [listener, until].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        ready::poll(&mut set, -1).unwrap();
        if set[1].revents != 0 {
            return 0;
        }
        let fd = accept(listener).unwrap();
        send_all(fd, &[u8::try_from(number).unwrap()]).unwrap();
        while let Ok(Some(turn)) = answer(fd) {
            if turn == u32::MAX {
                smc_tests::harness::net::write(last, b"!").unwrap();
            }
        }
        close(fd).unwrap();
    }
}

/// Four processes listen on one port, each with a socket of its own.
pub(crate) fn reuseport_server() {
    let holder = tcp();
    set_option(holder, SOL_SOCKET, SO_REUSEPORT, 1_i32).unwrap();
    bind(holder, &Addr::v4(0)).unwrap();
    let port = getsockname(holder).unwrap().port();
    let (until, stop) = pipe();
    let (told, last) = pipe();
    let mut pids = Vec::new();
    for number in 0..WORKERS {
        let (up, ready) = pipe();
        pids.push(child(|| {
            close(stop).unwrap();
            let listener = reuseport_listener(port);
            close(ready).unwrap();
            worker(number, listener, until, last)
        }));
        close(ready).unwrap();
        assert_eq!(smc_tests::harness::net::read(up, &mut [0]), Ok(0), "worker {number} is up");
        close(up).unwrap();
    }
    announce(port);
    assert_eq!(smc_tests::harness::net::read(told, &mut [0]), Ok(1));
    close(stop).unwrap();
    for pid in pids {
        say!("worker: {}", wait(pid));
    }
}

/// Enough connections that each of the four gets some.
pub(crate) fn reuseport_client(port: u16) {
    let mut seen = [0; WORKERS];
    for dialled in 0..DIALS {
        let fd = dial(port);
        let mut number = [0];
        assert_eq!(recv_exact(fd, &mut number), Ok(1));
        seen[usize::from(number[0])] += 1;
        ask_many(fd, 8).unwrap();
        if dialled + 1 == DIALS {
            ask(fd, u32::MAX, 0, 1).unwrap();
        }
        close(fd).unwrap();
    }
    say!("every worker was reached: {}", seen.iter().all(|&n| n > 0));
    say!("{} connections", seen.iter().sum::<i32>());
}

/// Client and server in one thread: nobody else can make progress meanwhile.
pub(crate) fn one_thread() {
    let (listener, port) = serve();
    let client = dial(port);
    say!("sent before accept: {}", show(send(client, b"before", 0)));
    let (server, from) = accept4(listener, 0).unwrap();
    say!("accepted from {from}");
    let mut buf = vec![0; 20_000];
    say!("received {}", show(recv(server, &mut buf, 0)));
    let mut sums = [Sum::default(); 2];
    for turn in 0..120_usize {
        let data = bytes(turn as u64, 1 + turn * 131 % 16_000);
        for (from, to, sum) in [(client, server, 0), (server, client, 1)] {
            assert_eq!(send(from, &data, 0), Ok(data.len()), "turn {turn}");
            let got = &mut buf[..data.len()];
            assert_eq!(recv_exact(to, got), Ok(data.len()), "turn {turn}");
            assert!(got == data.as_slice(), "turn {turn}");
            sums[sum].add(got);
        }
    }
    say!("to the server {}, to the client {}", sums[0], sums[1]);
    say!("nothing more: {}", show(recv(server, &mut buf, libc::MSG_DONTWAIT)));
    close(client).unwrap();
    say!("end: {}", show(recv(server, &mut buf, 0)));
    close(server).unwrap();
}

/// Connections that are over before the server looks at them.
pub(crate) fn reset_before_accept() {
    let (listener, port) = serve();
    for (name, data, reset) in [
        ("reset, silent", 0, true),
        ("reset, with data", 700, true),
        ("closed, silent", 0, false),
        ("closed, with data", 70_000, false),
    ] {
        let client = dial(port);
        send_all(client, &bytes(7, data)).unwrap();
        if reset {
            set_linger(client, true, 0).unwrap();
        }
        close(client).unwrap();
        pause_ms(20);
        let listening = ready::poll_one(listener, libc::POLLIN, 1000).unwrap();
        say!("{name}: listener {}", ready::names(listening));
        let server = accept(listener).unwrap();
        let events = ready::poll_one(server, libc::POLLIN | libc::POLLOUT, 1000).unwrap();
        say!("{name}: events {}", ready::names(events));
        if !reset {
            let (sum, error) = recv_to_end(server);
            say!("{name}: received {sum}, error {error:?}");
        } else {
            say!("{name}: recv {}", show(recv(server, &mut [0; 16], 0)));
            say!("{name}: recv again {}", show(recv(server, &mut [0; 16], 0)));
            say!("{name}: send {}", show(send(server, b"late", libc::MSG_NOSIGNAL)));
        }
        close(server).unwrap();
    }
    // The listener is none the worse for it.
    let client = tcp();
    connect(client, &Addr::v4(port)).unwrap();
    let server = accept(listener).unwrap();
    say!("afterwards: sent {}", show(send(client, b"fine", 0)));
    say!("afterwards: received {}", show(recv(server, &mut [0; 16], 0)));
}
