//! A process that becomes another image with a connection in use: unread data on both sides.

use crate::images::Next;
use smc_tests::harness::net::{
    accept_warm, close, dial_warm, ioctl_int, recv_exact, recv_to_end, send_all, serve, shutdown,
    Fd,
};
use smc_tests::harness::payload::bytes;
use smc_tests::harness::process::open_fds;
use smc_tests::harness::ready;
use smc_tests::harness::role::announce;
use smc_tests::harness::talk::{answer_all, ask_many};
use smc_tests::say;

/// What lies unread at the server, and at the client, when either becomes another image.
const TO_SERVER: usize = 30_000;
const TO_CLIENT: usize = 70_000;

/// Waits until so much lies unread.
pub(crate) fn await_unread(fd: Fd, count: usize) {
    while (ioctl_int(fd, libc::FIONREAD).unwrap() as usize) < count {
        ready::poll_one(fd, libc::POLLIN, 10).unwrap();
    }
}

/// The server: the client's first bytes stay unread over the exec, and so do its own.
pub(crate) fn server(execs: bool) {
    let (listener, port) = serve();
    announce(port);
    let fd = accept_warm(listener);
    await_unread(fd, TO_SERVER);
    send_all(fd, &bytes(2, TO_CLIENT)).unwrap();
    if execs {
        say!("exec: {}", Next::this("again_serve", &[fd]).exec(&[fd]));
    }
    close(listener).unwrap();
    serve_on(fd);
}

/// What the server does in its next image.
pub(crate) fn serve_on(fd: Fd) {
    let mut unread = vec![0; TO_SERVER];
    assert_eq!(recv_exact(fd, &mut unread), Ok(TO_SERVER));
    say!("unread is right: {}", unread == bytes(1, TO_SERVER));
    say!("answered {}", answer_all(fd));
    let open = open_fds().into_iter().filter(|fd| *fd > 2).count();
    say!("descriptors: {open}");
    shutdown(fd, libc::SHUT_WR).unwrap();
    close(fd).unwrap();
}

/// The client.
pub(crate) fn client(port: u16, execs: bool) {
    let fd = dial_warm(port);
    send_all(fd, &bytes(1, TO_SERVER)).unwrap();
    await_unread(fd, TO_CLIENT);
    if execs {
        say!("exec: {}", Next::this("again_ask", &[fd]).exec(&[fd]));
    }
    ask_on(fd);
}

/// What the client does in its next image.
pub(crate) fn ask_on(fd: Fd) {
    let mut unread = vec![0; TO_CLIENT];
    assert_eq!(recv_exact(fd, &mut unread), Ok(TO_CLIENT));
    say!("unread is right: {}", unread == bytes(2, TO_CLIENT));
    ask_many(fd, 60).unwrap();
    shutdown(fd, libc::SHUT_WR).unwrap();
    let (rest, error) = recv_to_end(fd);
    say!("then {rest}, error {error:?}");
    close(fd).unwrap();
}
