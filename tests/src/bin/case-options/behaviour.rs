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

/// TCP_NOTSENT_LOWAT: a writer meets EAGAIN, is not writable, and is again once all is read; no byte is
/// lost. How much goes in before is the option's own business.
pub(crate) fn not_sent_low_water(subject: &Subject) {
    const CHUNK: usize = 256 << 10;
    let conn = subject.connect();
    say!("set {}", sys::setsockopt(conn.fd, TCP, libc::TCP_NOTSENT_LOWAT, 16_384));
    say!("{}", works(&conn));
    sys::nonblocking(conn.fd, true);
    for round in 0..3 {
        let mut total = 0;
        loop {
            let ret = conn.send(CHUNK, 0);
            total += ret.count();
            if ret.is(libc::EAGAIN) && wait::poll(conn.fd, libc::POLLOUT, 100).0.value == 0 {
                break;
            }
        }
        say!("{round}: full, events {}", wait::poll_now(conn.fd));
        let whole = usize::try_from(conn.peer_reads(total)) == Ok(total);
        let room = wait::poll(conn.fd, libc::POLLOUT, wait::LONG).1;
        say!("{round}: peer read all {}, then {}", show::yes(whole), show::events(room));
    }
    say!("{}", works(&conn));
}

/// SO_TIMESTAMPING of what is sent: each send that asks for it is told of in the error queue.
pub(crate) fn sending_times(subject: &Subject) {
    // Of software, sent and scheduled, numbered, without the packet.
    const FLAGS: c_int = (1 << 1) | (1 << 4) | (1 << 7) | (1 << 8) | (1 << 11);
    let conn = subject.connect();
    conn.send(100, 0);
    say!("before {}", conn.peer_reads(100));
    say!("set {}", sys::setsockopt(conn.fd, SOL_SOCKET, libc::SO_TIMESTAMPING, FLAGS));
    for round in 0..3 {
        let ret = conn.send(200, 0);
        let read = conn.peer_reads(200);
        let told = wait::until(|| wait::poll(conn.fd, 0, 0).1 != 0);
        let mut control = [0_u64; 64];
        let mut msg = sys::msg(&mut []);
        msg.msg_control = control.as_mut_ptr().cast();
        msg.msg_controllen = size_of_val(&control);
        let note = sys::recvmsg(conn.fd, &mut msg, libc::MSG_ERRQUEUE);
        say!(
            "{round}: sent {ret}, peer read {read}, told {}, {note} flags {:#x} control {}",
            show::yes(told),
            msg.msg_flags,
            show::yes(msg.msg_controllen > 0)
        );
        // There may be one for each packet and layer.
        while sys::recvmsg(conn.fd, &mut msg, libc::MSG_ERRQUEUE).value >= 0 {
            msg.msg_controllen = size_of_val(&control);
        }
    }
    say!("off {}", sys::setsockopt(conn.fd, SOL_SOCKET, libc::SO_TIMESTAMPING, 0));
    say!("{}", works(&conn));
}

/// struct tls12_crypto_info_aes_gcm_128, of zeroes but for the version and the cipher.
fn tls_keys(key: u8) -> [u8; 40] {
    let mut keys = [key; 40];
    keys[..2].copy_from_slice(&0x0303_u16.to_ne_bytes());
    keys[2..4].copy_from_slice(&51_u16.to_ne_bytes());
    // The record number.
    keys[32..].fill(0);
    keys
}

/// With keys on both ends of a connection of our own: records go both ways, and what lay unread before
/// the keys is read first.
fn with_keys() {
    const SOL_TLS: c_int = 282;
    const TX: c_int = 1;
    const RX: c_int = 2;
    let (server, client) = smc_tests::harness::net::pair_warm();
    let mut room = [0; 4000];
    for (fd, out, back) in [(client, 1, 2), (server, 2, 1)] {
        say!("tls {}", sys::setsockopt(fd, TCP, libc::TCP_ULP, *b"tls\0"));
        say!("send by key {}", sys::setsockopt(fd, SOL_TLS, TX, tls_keys(out)));
        say!("receive by key {}", sys::setsockopt(fd, SOL_TLS, RX, tls_keys(back)));
    }
    for turn in 1..20_u8 {
        for (from, to) in [(client, server), (server, client)] {
            let size = usize::from(turn) * 200;
            let sent = sys::send(from, &vec![turn; size][..], 0);
            let got = sys::recv(to, &mut room[..size], libc::MSG_WAITALL);
            let right = room[..size].iter().all(|&byte| byte == turn);
            assert!(sent == got && right, "turn {turn}: {sent} {got}");
        }
    }
    say!("records are right");
    sys::close(client);
    say!("end {}", sys::recv(server, &mut room, 0));
    sys::close(server);
}

/// TCP_ULP: unknown names, then "tls" where the kernel has it; without keys data pass as they are.
pub(crate) fn kernel_tls(subject: &Subject) {
    let conn = subject.connect();
    conn.peer_sends(100);
    say!("unknown {}", sys::setsockopt(conn.fd, TCP, libc::TCP_ULP, *b"nothing\0"));
    say!("takes {}", show::yes(conn.takes(100)));
    say!("{}", works(&conn));
    let conn = subject.connect();
    let tls = sys::setsockopt(conn.fd, TCP, libc::TCP_ULP, *b"tls\0");
    say!("tls {tls}");
    say!("{}", works(&conn));
    if tls.value == 0 {
        with_keys();
    } else {
        smc_tests::harness::role::note("SKIPPED: this kernel has no TLS, so keys are not tried");
    }
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
