//! Descriptors that share one connection.

use libc::{MSG_DONTWAIT, SHUT_WR};
use smc_tests::harness::net::{
    accept_warm, close, dial_warm, is_nonblocking, recv, recv_exact, recv_to_end, send, send_all,
    serve, set_nonblocking, show, shutdown, warm_client, warm_server, Fd,
};
use smc_tests::harness::process::{child, dup, dup2, wait};
use smc_tests::harness::role::announce;
use smc_tests::{libc_call, say};

fn try_recv(fd: Fd) -> String {
    show(recv(fd, &mut [0; 16], 0))
}

/// The flag belongs to the open connection, whoever sets it.
fn nonblock_everywhere(fd: Fd) {
    let twin = dup(fd).unwrap();
    set_nonblocking(twin, true);
    say!("set through a dup: {} {}", is_nonblocking(fd), try_recv(fd));
    set_nonblocking(fd, false);
    say!("cleared through the first: {}", is_nonblocking(twin));
    let pid = child(|| {
        set_nonblocking(twin, true);
        0
    });
    say!("child: {}", wait(pid));
    say!("set in a child: {} {} {}", is_nonblocking(fd), try_recv(fd), try_recv(twin));
    let mut off = 0;
    libc_call!(libc::ioctl(twin, libc::FIONBIO, std::ptr::from_mut(&mut off))).unwrap();
    say!("cleared by ioctl: {}", is_nonblocking(fd));
    let mut on = 1;
    libc_call!(libc::ioctl(fd, libc::FIONBIO, std::ptr::from_mut(&mut on))).unwrap();
    let pid = child(|| {
        say!("seen in a child: {} {}", is_nonblocking(twin), try_recv(twin));
        set_nonblocking(fd, false);
        0
    });
    say!("child: {}", wait(pid));
    say!("cleared in a child: {}", is_nonblocking(twin));
    say!("one call only: {}", show(recv(fd, &mut [0; 16], MSG_DONTWAIT)));
    close(twin).unwrap();
}

/// Both ends try it while the other is silent.
pub(crate) fn nonblock_server() {
    let (listener, port) = serve();
    announce(port);
    let fd = accept_warm(listener);
    nonblock_everywhere(fd);
    send_all(fd, b"g").unwrap();
    warm_server(fd);
    let (sum, error) = recv_to_end(fd);
    say!("end: {sum} {error:?}");
}

/// The client is silent until the server has tried, then it tries itself.
pub(crate) fn nonblock_client(port: u16) {
    let fd = dial_warm(port);
    assert_eq!(recv_exact(fd, &mut [0]), Ok(1));
    nonblock_everywhere(fd);
    warm_client(fd);
    close(fd).unwrap();
}

/// One connection under several numbers; it ends with the last of them.
fn through_dups(fd: Fd) {
    let second = dup(fd).unwrap();
    let third = dup2(second, 200).unwrap();
    say!("third is {third}");
    let mut got = Vec::new();
    for (number, from) in [fd, second, third].into_iter().enumerate() {
        let message = [u8::try_from(number).unwrap() + b'a'; 3];
        say!("send {}", show(send(from, &message, 0)));
        let mut buf = [0; 3];
        recv_exact(from, &mut buf).unwrap();
        got.push(String::from_utf8_lossy(&buf).into_owned());
    }
    say!("got {got:?}");
    say!("close the first: {}", show(close(fd)));
    say!("use the first: {}", show(send(fd, b"x", libc::MSG_NOSIGNAL)));
    warm_or_answer(second);
    say!("close the second: {}", show(close(second)));
    warm_or_answer(third);
    say!("shutdown: {}", show(shutdown(third, SHUT_WR)));
    let (sum, error) = recv_to_end(third);
    say!("end: {sum} {error:?}");
    close(third).unwrap();
}

fn warm_or_answer(fd: Fd) {
    if std::env::args().nth(2).as_deref() == Some("server") {
        warm_server(fd);
    } else {
        warm_client(fd);
    }
}

/// Uses a warm connection through dups.
pub(crate) fn dups_server() {
    let (listener, port) = serve();
    announce(port);
    through_dups(accept_warm(listener));
}

/// The other side, in the same way.
pub(crate) fn dups_client(port: u16) {
    through_dups(dial_warm(port));
}
