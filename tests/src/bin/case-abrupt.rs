//! A checksummed conversation without end, whose peer will be killed.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::harness::net::{accept, serve, set_option, Errno, Fd};
use smc_tests::harness::payload::Stream;
use smc_tests::harness::role::{announce, Invocation, Role};
use smc_tests::harness::{net, ready};
use smc_tests::say;

/// How the stream may end when the peer is gone.
fn is_end(error: Errno) -> bool {
    matches!(error.0, libc::ECONNRESET | libc::EPIPE)
}

/// Sends and receives as much as goes, checking every byte, until the peer is gone.
fn converse(fd: Fd, mine: u64, theirs: u64) {
    let (mut out, mut expected) = (Stream::new(mine), Stream::new(theirs));
    let mut sizes = Stream::new(mine + 100);
    let mut pending: Vec<u8> = Vec::new();
    let mut buf = vec![0; 40_000];
    net::set_nonblocking(fd, true);
    loop {
        let events = ready::poll_one(fd, libc::POLLIN | libc::POLLOUT, -1).unwrap();
        if events & u32::from(libc::POLLIN.cast_unsigned()) != 0 {
            match net::recv(fd, &mut buf, 0) {
                Ok(0) => return,
                Ok(n) => assert!(expected.take(n) == buf[..n], "wrong bytes"),
                Err(e) if is_end(e) => return,
                Err(e) => assert_eq!(e, Errno(libc::EAGAIN)),
            }
        }
        if pending.is_empty() {
            pending = out.take(1 + sizes.below(20_000));
        }
        match net::send(fd, &pending, libc::MSG_NOSIGNAL) {
            Ok(n) => drop(pending.drain(..n)),
            Err(e) if is_end(e) => return,
            Err(e) => assert_eq!(e, Errno(libc::EAGAIN)),
        }
    }
}

fn main() {
    let told = Invocation::parse();
    let fd = match told.role {
        Role::Server => {
            let (listener, port) = serve();
            announce(port);
            accept(listener).unwrap()
        }
        Role::Client(port) => {
            let fd = net::tcp();
            match net::connect(fd, &net::Addr::v4(port)) {
                Ok(_) => fd,
                // The server died before we came.
                Err(Errno(libc::ECONNREFUSED)) => return say!("ended well"),
                Err(e) => panic!("connect: {e}"),
            }
        }
        Role::Solo => panic!("two processes, please"),
    };
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1_i32).unwrap();
    // A few turns first, so that the connection can be accelerated.
    let warm = std::panic::catch_unwind(|| match told.role {
        Role::Server => net::warm_server(fd),
        _ => net::warm_client(fd),
    });
    if warm.is_ok() {
        let (mine, theirs) = if told.role == Role::Server { (1, 2) } else { (2, 1) };
        converse(fd, mine, theirs);
    }
    say!("ended well");
}
