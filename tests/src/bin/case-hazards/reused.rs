//! A socket that is disconnected and connected again.

use libc::{c_int, sockaddr};
use smc_tests::puppet::show::{self, Ret};
use smc_tests::puppet::{sys, wait, Subject};
use smc_tests::say;

/// `connect` to no address, which takes a connection apart.
fn disconnect(fd: c_int) -> Ret {
    let mut to = [0_u8; 16];
    to[..2].copy_from_slice(&u16::try_from(libc::AF_UNSPEC).unwrap().to_ne_bytes());
    // SAFETY: the address lives here and is as long as said.
    Ret::of(unsafe { libc::connect(fd, to.as_ptr().cast::<sockaddr>(), 16) })
}

/// A connection is dissolved: the peer sees a reset, and the socket serves again.
pub(crate) fn disconnected(subject: &Subject) {
    for unread in [0, 700] {
        let conn = subject.connect();
        if unread > 0 {
            conn.peer_sends(unread);
        }
        say!("{unread} unread: disconnect {}", disconnect(conn.fd));
        let mut room = [0; 1000];
        say!("recv {}", sys::recv(conn.fd, &mut room, 0));
        say!("send {}", sys::send(conn.fd, b"x", libc::MSG_NOSIGNAL));
        say!("events {}", wait::poll_now(conn.fd));
        say!("again {}", disconnect(conn.fd));
        conn.start_read_to_end(false);
        say!("peer read {}", conn.finish());
        // Another connection by the same socket, to a listener of our own.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        say!("connect {}", sys::connect(conn.fd, listener.local_addr().unwrap().port()));
        let (server, _) = listener.accept().unwrap();
        let other = std::os::fd::IntoRawFd::into_raw_fd(server);
        for turn in 0..20_u8 {
            for (from, to) in [(conn.fd, other), (other, conn.fd)] {
                let sent = sys::send(from, &[turn; 600][..], 0);
                let got = sys::recv(to, &mut room[..600], libc::MSG_WAITALL);
                let right = room[..600] == [turn; 600];
                assert!(
                    right && sent.value == 600 && got.value == 600,
                    "turn {turn}: {sent} {got}"
                );
            }
        }
        say!("turns are right {}", show::yes(true));
        sys::close(other);
        say!("end {}", sys::recv(conn.fd, &mut room, 0));
    }
}
