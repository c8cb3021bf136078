//! Ways of sending that are the kernel's alone.

use libc::{c_int, SOL_SOCKET};
use smc_tests::puppet::show::{self, Ret};
use smc_tests::puppet::{sys, wait, Conn, Subject};
use smc_tests::say;

const TCP: c_int = libc::IPPROTO_TCP;

fn works(conn: &Conn) -> String {
    let ret = conn.send(5000, 0);
    let read = conn.peer_reads(5000);
    conn.peer_sends(3000);
    format!("sent {ret} {read}, back {}", show::yes(conn.takes(3000)))
}

/// Reads one completion: its range and origin.
fn completion(conn: &Conn) -> String {
    let mut control = [0_u64; 32];
    let mut msg = sys::msg(&mut []);
    msg.msg_control = control.as_mut_ptr().cast();
    msg.msg_controllen = size_of_val(&control);
    let ret = sys::recvmsg(conn.fd, &mut msg, libc::MSG_ERRQUEUE);
    // SAFETY: the header is the one that the call has filled in.
    let head = unsafe { libc::CMSG_FIRSTHDR(&raw const msg) };
    if head.is_null() {
        return format!("{ret}, none");
    }
    // SAFETY: an extended error follows the head of such a message.
    let error = unsafe { libc::CMSG_DATA(head).cast::<libc::sock_extended_err>().read_unaligned() };
    let (from, to) = (error.ee_info, error.ee_data);
    format!("{ret} flags {:#x} origin {} {from}..={to}", msg.msg_flags, error.ee_origin)
}

/// MSG_ZEROCOPY, its completions, and the events that tell of them.
pub(crate) fn zero_copy_send(subject: &Subject) {
    let conn = subject.connect();
    say!("without the option {}", conn.send(20_000, libc::MSG_ZEROCOPY));
    say!("peer read {}", conn.peer_reads(20_000));
    say!("set {}", sys::setsockopt(conn.fd, SOL_SOCKET, libc::SO_ZEROCOPY, 1));
    say!("none yet {}", completion(&conn));
    let epoll = wait::Epoll::new();
    epoll.add(conn.fd, libc::EPOLLIN.cast_unsigned(), 1);
    for round in 0..3 {
        let payload = conn.payload(20_000);
        let ret = conn.sent(sys::send(conn.fd, &payload[..], libc::MSG_ZEROCOPY));
        say!("{round}: sent {ret}, peer read {}", conn.peer_reads(20_000));
        let told = wait::until(|| wait::poll(conn.fd, 0, 0).1 != 0);
        say!(
            "{round}: told {} {}, epoll {}",
            show::yes(told),
            wait::poll_now(conn.fd),
            epoll.now()
        );
        say!("{round}: {}", completion(&conn));
        say!("{round}: {} {}", wait::poll_now(conn.fd), sys::so_error(conn.fd));
        drop(payload);
    }
    say!("{}", works(&conn));
    // With a completion waiting, data go both ways all the same.
    let payload = conn.payload(20_000);
    conn.sent(sys::send(conn.fd, &payload[..], libc::MSG_ZEROCOPY));
    say!("peer read {}", conn.peer_reads(20_000));
    say!("told {}", show::yes(wait::until(|| wait::poll(conn.fd, 0, 0).1 != 0)));
    say!("{}", works(&conn));
    say!("{}", completion(&conn));
}

/// TCP_ULP: unknown names, then "tls" where the kernel has it; without keys data pass as they are.
pub(crate) fn kernel_tls(subject: &Subject) {
    let conn = subject.connect();
    conn.peer_sends(100);
    say!("unknown {}", sys::setsockopt(conn.fd, TCP, libc::TCP_ULP, *b"nothing\0"));
    say!("takes {}", show::yes(conn.takes(100)));
    say!("{}", works(&conn));
    let conn = subject.connect();
    say!("tls {}", sys::setsockopt(conn.fd, TCP, libc::TCP_ULP, *b"tls\0"));
    say!("{}", works(&conn));
}

/// TCP_REPAIR, as CRIU uses it: queues are looked at, the connection goes on.
pub(crate) fn repair(subject: &Subject) {
    let conn = subject.connect();
    let on = sys::setsockopt(conn.fd, TCP, 19, 1);
    say!("on {on}");
    if on.value == 0 {
        // The receive queue, looked at as CRIU does.
        say!("queue {}", sys::setsockopt(conn.fd, TCP, 20, 1));
        let mut room = [0; 600];
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        let ret: Ret = sys::recv(conn.fd, &mut room, flags);
        say!("peek {ret}");
        say!("no queue {}", sys::setsockopt(conn.fd, TCP, 20, 0));
        say!("off {}", sys::setsockopt(conn.fd, TCP, 19, -1));
    }
    say!("{}", works(&conn));
    // A peer that has ended its stream cannot send again what it sent: that is not lost.
    let conn = subject.connect();
    conn.peer_sends(500);
    conn.peer_shuts(libc::SHUT_WR);
    wait::tcp_state(conn.fd, wait::state::CLOSE_WAIT);
    let on = sys::setsockopt(conn.fd, TCP, 19, 1);
    say!("ended: on {on}, off {}", sys::setsockopt(conn.fd, TCP, 19, -1));
    say!("ended: takes {}", show::yes(conn.takes(500)));
}
