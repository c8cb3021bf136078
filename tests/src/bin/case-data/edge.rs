//! C4 and C5: a nonblocking writer that trusts the next edge.

use smc_tests::puppet::sys::{self, Out};
use smc_tests::puppet::wait::{self, Epoll};
use smc_tests::puppet::{show, Buffers, Conn, Subject};
use smc_tests::say;

const SMALL: Buffers = Buffers { send: 65_536, receive: 65_536 };
const WATCH: u32 =
    (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET).cast_unsigned();
const CHUNK: usize = 8 << 20;

/// Writes until neither the socket takes more nor an edge comes; how much went in.
fn stuff(conn: &Conn, epoll: &Epoll) -> usize {
    let mut total = 0;
    loop {
        let ret = conn.send(CHUNK, libc::MSG_DONTWAIT);
        total += ret.count();
        if ret.value < 0 && epoll.wait(4, 100).is_empty() {
            return total;
        }
    }
}

fn drained(conn: &Conn, total: usize) -> &'static str {
    show::yes(usize::try_from(conn.peer_reads(total)) == Ok(total))
}

/// After a partial write, or after EAGAIN, the edge comes without another write.
pub(crate) fn partial_write(subject: &Subject) {
    for nonblocking in [true, false] {
        for way in Out::ALL {
            let flags = if nonblocking { 0 } else { libc::MSG_DONTWAIT };
            if flags != 0 && !matches!(way, Out::Send | Out::Sendmsg) {
                continue;
            }
            let conn = subject.connect_with(SMALL);
            sys::nonblocking(conn.fd, nonblocking);
            let epoll = Epoll::new();
            epoll.add(conn.fd, WATCH, 0);
            say!("{way:?} nonblocking {}: at first {}", show::yes(nonblocking), epoll.twice());

            let ret = conn.sent(way.call(conn.fd, &conn.payload(CHUNK)[..], flags));
            let partial = ret.value > 0 && ret.count() < CHUNK;
            let whole = drained(&conn, ret.count());
            say!("  partial {}, drained {whole}: {}", show::yes(partial), epoll.soon());

            let total = stuff(&conn, &epoll);
            say!("  stuffed: {}, poll {}", epoll.now(), wait::poll_now(conn.fd));
            let whole = drained(&conn, total);
            say!("  drained {whole}: {} then {}", epoll.soon(), epoll.now());
            say!("  level: poll {}", wait::poll_now(conn.fd));

            let ret = conn.sent(way.call(conn.fd, &conn.payload(1000)[..], flags));
            say!("  small: {ret}, drained {}: {}", drained(&conn, 1000), epoll.now());
            conn.peer_sends(10);
            say!("  data: {}", epoll.twice());
        }
    }
}

/// Many rounds of fill and drain at random; the writer sleeps on edges alone.
pub(crate) fn fill_and_drain(subject: &Subject) {
    let rounds: u32 = subject.arg("rounds=").unwrap_or(2_000);
    let conn = subject.connect_with(Buffers { send: 131_072, receive: 131_072 });
    sys::nonblocking(conn.fd, true);
    let epoll = Epoll::new();
    epoll.add(conn.fd, (libc::EPOLLOUT | libc::EPOLLET).cast_unsigned(), 0);
    say!("at first {}", epoll.soon());
    conn.start_read_to_end(true);
    let mut total = 0_i64;
    let mut state = 1_u64;
    for round in 0..rounds {
        loop {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let size = 1 + usize::try_from((state >> 33) % 50_000).unwrap_or(0);
            let ret = conn.send(size, 0);
            if ret.value < 0 {
                assert!(ret.is(libc::EAGAIN), "send: {ret}");
                break;
            }
            total += ret.value;
            // A short write is as good as EAGAIN to a program that trusts edges.
            if ret.count() < size && state.is_multiple_of(2) {
                break;
            }
        }
        let got = epoll.wait(4, wait::LONG);
        if got.is_empty() {
            say!("stalled in round {round} of {rounds}");
            break;
        }
    }
    sys::shutdown(conn.fd, libc::SHUT_WR);
    say!("{rounds} rounds, nothing lost {}", show::yes(conn.finish() == total));
}
