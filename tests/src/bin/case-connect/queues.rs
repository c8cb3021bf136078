//! Listeners that are full, deferred, shut down or gone, and connections that begin with data.

use libc::{IPPROTO_TCP, SHUT_RD, SHUT_RDWR, TCP_DEFER_ACCEPT, TCP_FASTOPEN};
use smc_tests::harness::net::{
    accept, bind, close, connect, dial, getsockname, listen, recv, send, send_all, serve,
    set_option, show, show_ok, shutdown, tcp, tcp_nonblocking, Addr, Fd,
};
use smc_tests::harness::process::pause_ms;
use smc_tests::harness::ready;
use smc_tests::harness::role::announce;
use smc_tests::harness::talk::{answer_all, ask_many};
use smc_tests::{libc_call, say};

const TCP_FASTOPEN_CONNECT: i32 = 30;
/// A request that asks for nothing.
const EMPTY_REQUEST: [u8; 12] = [0; 12];

/// Serves connections whose first bytes may come with the SYN.
pub(crate) fn fast_open_server() {
    let (listener, port) = serve();
    say!("option: {}", show(set_option(listener, IPPROTO_TCP, TCP_FASTOPEN, 16_i32)));
    announce(port);
    for _ in 0..4 {
        let fd = accept(listener).unwrap();
        say!("answered {}", answer_all(fd));
        close(fd).unwrap();
    }
}

/// By MSG_FASTOPEN in place of `connect`, by TCP_FASTOPEN_CONNECT, and twice each, since the first time
/// only brings the cookie.
pub(crate) fn fast_open_client(port: u16) {
    let to = Addr::v4(port);
    for _ in 0..2 {
        let fd = tcp();
        let sent = libc_call!(libc::sendto(
            fd,
            EMPTY_REQUEST.as_ptr().cast(),
            EMPTY_REQUEST.len(),
            libc::MSG_FASTOPEN,
            to.as_ptr(),
            to.len()
        ));
        say!("sendto: {}", show(sent));
        say!("again: {}", show(send(fd, &EMPTY_REQUEST, libc::MSG_FASTOPEN)));
        ask_many(fd, 25).unwrap();
        close(fd).unwrap();
    }
    for _ in 0..2 {
        let fd = tcp();
        say!("option: {}", show(set_option(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1_i32)));
        say!("connect: {}", show(connect(fd, &to)));
        ask_many(fd, 25).unwrap();
        close(fd).unwrap();
    }
}

fn bound() -> Fd {
    let fd = tcp();
    bind(fd, &Addr::v4(0)).unwrap();
    fd
}

fn begin(port: u16) -> Fd {
    let fd = tcp_nonblocking();
    let _ = connect(fd, &Addr::v4(port));
    fd
}

/// `listen` twice, with a negative and with a small backlog that overflows.
pub(crate) fn backlogs() {
    let fd = bound();
    say!("listen -1: {}", show(listen(fd, -1)));
    say!("listen again: {}", show(listen(fd, 1)));
    let port = getsockname(fd).unwrap().port();
    let clients: Vec<Fd> = (0..6).map(|_| begin(port)).collect();
    let is_up = |client: &&Fd| ready::poll_one(**client, libc::POLLOUT, 100) == Ok(0x004);
    say!("up: {}", clients.iter().filter(is_up).count());
    // A connection that found the queue full comes when its SYN, or what follows it, is sent again.
    let mut accepted = 0;
    while accepted < clients.len() {
        if ready::poll_one(fd, libc::POLLIN, 4000) != Ok(0x001) {
            break;
        }
        close(accept(fd).unwrap()).unwrap();
        accepted += 1;
    }
    say!("accepted {accepted}");
}

/// A listener that is closed while connections wait in its queue.
pub(crate) fn closed_with_queue() {
    let (listener, port) = serve();
    let clients: Vec<Fd> = (0..50).map(|_| dial(port)).collect();
    for (number, client) in clients.iter().enumerate() {
        if number % 2 == 1 {
            send_all(*client, &[1; 300]).unwrap();
        }
    }
    close(listener).unwrap();
    for (number, client) in clients.iter().enumerate() {
        let events = ready::poll_one(*client, libc::POLLIN, 2000).unwrap();
        let got = show(recv(*client, &mut [0; 16], 0));
        let sent = show(send(*client, b"late", libc::MSG_NOSIGNAL));
        say!("{number}: {} recv {got} send {sent}", ready::names(events));
        close(*client).unwrap();
    }
    say!("dial again: {}", show(connect(tcp(), &Addr::v4(port))));
}

/// A listener that is shut down or closed under a thread in `accept`.
pub(crate) fn ended_in_accept() {
    for how in [SHUT_RD, SHUT_RDWR] {
        let (listener, _) = serve();
        let waiting = std::thread::spawn(move || show_ok(&accept(listener)));
        pause_ms(100);
        say!("shutdown {how}: {}", show(shutdown(listener, how)));
        say!("accept: {}", waiting.join().unwrap());
        say!("accept again: {}", show_ok(&accept(listener)));
        say!("listen again: {}", show(listen(listener, 3)));
        close(listener).unwrap();
    }
    // The call holds the socket: one more connection can be had.
    let (listener, port) = serve();
    let waiting = std::thread::spawn(move || {
        let fd = accept(listener).unwrap();
        answer_all(fd)
    });
    pause_ms(100);
    close(listener).unwrap();
    let client = dial(port);
    ask_many(client, 20).unwrap();
    close(client).unwrap();
    say!("answered {}", waiting.join().unwrap());
    say!("dial again: {}", show(connect(tcp(), &Addr::v4(port))));
}

/// TCP_DEFER_ACCEPT: a connection is there for the listener once it has data.
pub(crate) fn deferred() {
    let (listener, port) = serve();
    say!("option: {}", show(set_option(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, 5_i32)));
    let client = dial(port);
    let there = |millis| ready::names(ready::poll_one(listener, libc::POLLIN, millis).unwrap());
    say!("silent: {}", there(200));
    send_all(client, &EMPTY_REQUEST).unwrap();
    say!("with data: {}", there(2000));
    let server = accept(listener).unwrap();
    let answering = std::thread::spawn(move || answer_all(server));
    ask_many(client, 30).unwrap();
    close(client).unwrap();
    say!("answered {}", answering.join().unwrap());
}
