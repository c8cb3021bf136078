//! What nearly every case does with a connection.

use super::{
    accept, bind, close, connect, getsockname, listen, recv, send, set_option, socket, tcp, Addr,
    Errno, Fd,
};
use crate::harness::payload::Sum;
use crate::harness::ready;
use crate::libc_call;
use std::os::fd::AsRawFd;

/// A listener at 127.0.0.1 on a port of the kernel's choice.
pub fn serve() -> (Fd, u16) {
    serve_at(&Addr::v4(0), libc::AF_INET)
}

/// A listener at this address.
pub fn serve_at(addr: &Addr, domain: i32) -> (Fd, u16) {
    let fd = socket(domain, libc::SOCK_STREAM).unwrap();
    set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1_i32).unwrap();
    bind(fd, addr).unwrap();
    listen(fd, 128).unwrap();
    (fd, getsockname(fd).unwrap().port())
}

/// A blocking connection to a port of 127.0.0.1.
pub fn dial(port: u16) -> Fd {
    let fd = tcp();
    connect(fd, &Addr::v4(port)).unwrap();
    fd
}

/// Waits for readiness where a nonblocking socket says EAGAIN; any other error is the caller's.
fn wait_or_fail(fd: Fd, events: i16, error: Errno) -> Result<(), Errno> {
    match error.0 {
        libc::EAGAIN => ready::poll_one(fd, events, -1).map(|_| ()),
        libc::EINTR => Ok(()),
        _ => Err(error),
    }
}

/// Sends everything, on blocking and nonblocking sockets alike, without SIGPIPE.
pub fn send_all(fd: Fd, mut data: &[u8]) -> Result<(), Errno> {
    while !data.is_empty() {
        match send(fd, data, libc::MSG_NOSIGNAL) {
            Ok(n) => data = &data[n..],
            Err(e) => wait_or_fail(fd, libc::POLLOUT, e)?,
        }
    }
    Ok(())
}

/// Receives until the buffer is full or the stream ends; returns how much came.
pub fn recv_exact(fd: Fd, data: &mut [u8]) -> Result<usize, Errno> {
    let mut have = 0;
    while have < data.len() {
        match recv(fd, &mut data[have..], 0) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(e) => wait_or_fail(fd, libc::POLLIN, e)?,
        }
    }
    Ok(have)
}

/// Receives to the end of the stream: the checksum, and the error that ended it if any.
pub fn recv_to_end(fd: Fd) -> (Sum, Option<Errno>) {
    let mut sum = Sum::default();
    let mut buf = vec![0; 65536];
    loop {
        match recv(fd, &mut buf, 0) {
            Ok(0) => return (sum, None),
            Ok(n) => sum.add(&buf[..n]),
            Err(e) => {
                if let Err(e) = wait_or_fail(fd, libc::POLLIN, e) {
                    return (sum, Some(e));
                }
            }
        }
    }
}

/// Writes until a nonblocking socket refuses; returns how many bytes went in.
pub fn fill(fd: Fd, chunk: usize) -> usize {
    let data = vec![0x55; chunk];
    let mut total = 0;
    loop {
        match send(fd, &data, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
            Ok(n) => total += n,
            Err(_) => return total,
        }
    }
}

/// sendfile(2) from the start of a file.
pub fn send_file(fd: Fd, path: &str, len: usize) -> Result<usize, Errno> {
    let file = std::fs::File::open(path).unwrap();
    let mut at: libc::off_t = 0;
    libc_call!(libc::sendfile(fd, file.as_raw_fd(), &mut at, len))
}

const TURNS: u8 = 12;
const TURN: usize = 200;

/// The client's half of the warm-up: request and reply, often enough that a connection which can
/// be accelerated is so afterwards. Bare it is simply traffic.
pub fn warm_client(fd: Fd) {
    for turn in 0..TURNS {
        send_all(fd, &[turn; TURN]).unwrap();
        let mut reply = [0; TURN];
        assert_eq!(recv_exact(fd, &mut reply).unwrap(), TURN, "warm-up cut short");
        assert_eq!(reply, [turn | 0x80; TURN], "warm-up reply {turn}");
    }
}

/// The server's half of the warm-up.
pub fn warm_server(fd: Fd) {
    for turn in 0..TURNS {
        let mut request = [0; TURN];
        assert_eq!(recv_exact(fd, &mut request).unwrap(), TURN, "warm-up cut short");
        assert_eq!(request, [turn; TURN], "warm-up request {turn}");
        send_all(fd, &[turn | 0x80; TURN]).unwrap();
    }
}

/// Accepts one connection and warms it up.
pub fn accept_warm(listener: Fd) -> Fd {
    let fd = accept(listener).unwrap();
    warm_server(fd);
    fd
}

/// Dials and warms up.
pub fn dial_warm(port: u16) -> Fd {
    let fd = dial(port);
    warm_client(fd);
    fd
}

/// Two connected sockets of one process, accepted in the same thread and warmed up.
pub fn pair_warm() -> (Fd, Fd) {
    let (listener, port) = serve();
    let client = dial(port);
    let server = accept(listener).unwrap();
    let echo = std::thread::spawn(move || warm_server(server));
    warm_client(client);
    assert!(echo.join().is_ok(), "warm-up failed");
    close(listener).unwrap();
    (server, client)
}
