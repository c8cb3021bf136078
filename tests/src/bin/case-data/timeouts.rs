//! C6: `SO_RCVTIMEO`, `SO_SNDTIMEO`, `SO_RCVLOWAT`, and the events after them.

use libc::timeval;
use smc_tests::puppet::show::{self, Ret};
use smc_tests::puppet::sys::{self, In, Out};
use smc_tests::puppet::wait::{self, Epoll};
use smc_tests::puppet::{Buffers, Subject};
use smc_tests::say;
use std::time::{Duration, Instant};

fn set(fd: i32, name: i32, millis: i64) -> Ret {
    let tv = timeval { tv_sec: millis / 1000, tv_usec: millis % 1000 * 1000 };
    sys::setsockopt(fd, libc::SOL_SOCKET, name, tv)
}

fn get(fd: i32, name: i32) -> String {
    match sys::getsockopt::<[i64; 2]>(fd, libc::SOL_SOCKET, name) {
        Ok([sec, usec]) => format!("{sec}s {usec}us"),
        Err(ret) => ret.to_string(),
    }
}

/// What a call returned, and whether it took about as long as it should.
fn timed(millis: u64, call: impl FnOnce() -> Ret) -> String {
    let start = Instant::now();
    let ret = call();
    let took = start.elapsed();
    let low = Duration::from_millis(millis) * 9 / 10;
    let high = Duration::from_millis(millis + 1_500);
    let when = if took < low {
        "too early"
    } else if took > high {
        "too late"
    } else {
        "in time"
    };
    format!("{ret} {when}")
}

/// Blocking calls give up in time, keep what they had, and the next edge still comes.
pub(crate) fn timeouts(subject: &Subject) {
    let conn = subject.connect_with(Buffers { send: 65_536, receive: 65_536 });
    let fd = conn.fd;
    let (r, s) = (libc::SO_RCVTIMEO, libc::SO_SNDTIMEO);
    say!("default {} {}", get(fd, r), get(fd, s));
    say!("set {} {}: {} {}", set(fd, r, 100), set(fd, s, 100), get(fd, r), get(fd, s));
    let bad = timeval { tv_sec: 0, tv_usec: 1_000_000 };
    say!("too many us: {}", sys::setsockopt(fd, libc::SOL_SOCKET, r, bad));
    say!("too short: {}", sys::setsockopt(fd, libc::SOL_SOCKET, r, 1_i32));
    let negative = timeval { tv_sec: -5, tv_usec: 0 };
    say!("negative: {} {}", sys::setsockopt(fd, libc::SOL_SOCKET, s, negative), get(fd, s));
    set(fd, s, 100);

    let epoll = Epoll::new();
    let watch = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET;
    epoll.add(fd, watch.cast_unsigned(), 0);
    say!("events {}", epoll.twice());
    let mut room = [0; 100];
    for way in In::ALL {
        say!("{way:?} of nothing: {}", timed(100, || way.call(fd, &mut room, 0)));
    }
    for way in In::FLAGS {
        conn.peer_sends(30);
        let flags = libc::MSG_WAITALL;
        let mut ret = Ret { value: 0, errno: 0 };
        let text = timed(100, || {
            ret = way.call(fd, &mut room, flags);
            ret
        });
        say!("{way:?} WAITALL of 30: {text}, right {}", show::yes(conn.came(&room[..ret.count()])));
        say!("{way:?} DONTWAIT: {}", timed(0, || way.call(fd, &mut room, libc::MSG_DONTWAIT)));
    }
    epoll.now();
    conn.start_send(10, 40);
    say!("data in time: {}", timed(0, || sys::recv(fd, &mut room, 0)));
    conn.finish();
    say!("right {}", show::yes(conn.came(&room[..10])));
    epoll.now();
    conn.peer_sends(5);
    say!("next edge {}, right {}", epoll.twice(), show::yes(conn.takes(5)));

    for way in [Out::Write, Out::Sendmsg] {
        let ret = conn.sent(way.call(fd, &conn.payload(8 << 20)[..], 0));
        let short = ret.value > 0 && ret.count() < 8 << 20;
        let mut total = ret.count();
        // Bytes in flight make room for a while: go on until nothing fits.
        let last = loop {
            let again = conn.sent(way.call(fd, &conn.payload(8 << 20)[..], 0));
            if again.value < 0 {
                break again;
            }
            total += again.count();
        };
        let again = timed(100, || way.call(fd, &conn.payload(100)[..], 0));
        epoll.now();
        let read = conn.peer_reads(total);
        let whole = show::yes(usize::try_from(read) == Ok(total));
        say!("{way:?}: short {}, then {last}, {again}, nothing lost {whole}", show::yes(short));
        say!("  next edge {}", epoll.soon());
    }
    say!("unset {} {}", set(fd, r, 0), get(fd, r));
    conn.start_send(10, 250);
    say!("recv waits: {}", timed(250, || sys::recv(fd, &mut room, 0)));
    conn.finish();
}

/// `SO_RCVLOWAT` holds back blocking reads and readiness.
pub(crate) fn lowat(subject: &Subject) {
    let conn = subject.connect();
    let fd = conn.fd;
    let name = libc::SO_RCVLOWAT;
    let level = || sys::getsockopt::<i32>(fd, libc::SOL_SOCKET, name);
    let epoll = Epoll::new();
    epoll.add(fd, libc::EPOLLIN.cast_unsigned(), 0);
    let mut room = [0; 1000];
    for want in [-1, 0, 1, 100, 500] {
        let set = sys::setsockopt(fd, libc::SOL_SOCKET, name, want);
        say!("lowat {want}: {set} {:?}", level());
        conn.peer_sends(60);
        say!("  60 there: poll {} epoll {}", wait::poll_now(fd), epoll.twice());
        let ret = sys::recv(fd, &mut room, libc::MSG_DONTWAIT);
        say!("  DONTWAIT {ret}, right {}", show::yes(conn.came(&room[..ret.count()])));
        if want < 0 {
            // TCP does not wake a blocking reader whose room is below the level.
            continue;
        }
        conn.peer_sends(60);
        conn.start_send(1200, 60);
        let ret = sys::recv(fd, &mut room, 0);
        let enough = ret.count() >= usize::try_from(want).unwrap_or(0);
        say!("  blocking: enough {}, right {}", show::yes(enough), {
            show::yes(conn.came(&room[..ret.count()]))
        });
        conn.finish();
        wait::queued(fd, 1260 - ret.count());
        say!("  rest {}", show::yes(conn.takes(1260 - ret.count())));
        conn.peer_sends(600);
        say!("  600 there: poll {} epoll {}", wait::poll_now(fd), epoll.twice());
        // Asking for less than the level is enough by itself.
        let ret = sys::recv(fd, &mut room[..50], 0);
        say!("  fifty {ret} {}", show::yes(conn.came(&room[..50])));
        say!("  rest {}", show::yes(conn.takes(550)));
    }
    conn.peer_sends(60);
    say!("60 before the end: {}", wait::poll_now(fd));
    conn.peer_shuts(libc::SHUT_WR);
    wait::tcp_state(fd, wait::state::CLOSE_WAIT);
    say!("and the end: {} {}", wait::poll_now(fd), epoll.twice());
    say!("recv {}, then {}", sys::recv(fd, &mut room, 0), sys::recv(fd, &mut room, 0));
}
