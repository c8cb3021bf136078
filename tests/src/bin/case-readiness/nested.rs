//! D4: an epoll descriptor is itself something to wait for.

use super::matrix::{ET, IN, ONESHOT};
use smc_tests::puppet::wait::{self, Epoll};
use smc_tests::puppet::{show, sys, Subject};
use smc_tests::say;
use std::time::{Duration, Instant};

/// `select` of one descriptor for reading.
fn select(fd: i32, millis: i64) -> i64 {
    // SAFETY: fd_set is plain data; the descriptor is below FD_SETSIZE in these programs.
    unsafe {
        let mut set: libc::fd_set = std::mem::zeroed();
        libc::FD_SET(fd, &raw mut set);
        let mut time = libc::timeval { tv_sec: millis / 1000, tv_usec: millis % 1000 * 1000 };
        let null = std::ptr::null_mut();
        show::Ret::of(libc::select(fd + 1, &raw mut set, null, null, &raw mut time)).value
    }
}

/// Level and edge, three deep, by epoll, poll and select.
pub(crate) fn nested(subject: &Subject) {
    for (inner_mode, outer_mode) in [(0, 0), (ET, 0), (0, ET), (ET, ET), (ONESHOT, 0), (0, ONESHOT)]
    {
        let conn = subject.connect();
        let (inner, middle, outer) = (Epoll::new(), Epoll::new(), Epoll::new());
        let other = subject.connect();
        inner.add(conn.fd, IN | inner_mode, 1);
        middle.add(inner.fd, IN, 2);
        outer.add(middle.fd, IN | outer_mode, 3);
        outer.add(other.fd, IN, 4);
        let look = |what: &str| {
            let polled = show::events(wait::poll(inner.fd, libc::POLLIN | libc::POLLOUT, 0).1);
            let selected = select(inner.fd, 0);
            say!("  {what}: outer {}, poll {polled}, select {selected}", outer.twice());
        };
        say!("inner {} outer {}", show::events(inner_mode), show::events(outer_mode));
        look("new");
        conn.peer_sends(10);
        look("data");
        say!("  inner says {}", inner.twice());
        look("after inner");
        conn.peer_sends(10);
        look("more data");
        say!("  taken {}", show::yes(conn.takes(20)));
        look("taken");
        say!("  inner says {}", inner.twice());
        other.peer_sends(10);
        look("the other too");
        say!("  taken {}", show::yes(other.takes(10)));
        inner.control(libc::EPOLL_CTL_MOD, conn.fd, IN, 5);
        conn.peer_sends(10);
        look("rearmed");
        conn.peer_shuts(libc::SHUT_WR);
        wait::tcp_state(conn.fd, wait::state::CLOSE_WAIT);
        look("end");
        inner.control(libc::EPOLL_CTL_DEL, conn.fd, 0, 0);
        look("deleted");
    }
    let (a, b) = (Epoll::new(), Epoll::new());
    a.add(b.fd, IN, 1);
    say!("a loop: {}", b.control(libc::EPOLL_CTL_ADD, a.fd, IN, 2));
}

fn in_time(start: Instant) -> &'static str {
    show::yes(start.elapsed() < Duration::from_secs(2))
}

/// A wait on an epoll descriptor ends when data comes to a socket inside it.
pub(crate) fn blocking(subject: &Subject) {
    let conn = subject.connect();
    let (inner, outer) = (Epoll::new(), Epoll::new());
    inner.add(conn.fd, IN, 1);
    outer.add(inner.fd, IN, 2);
    for round in 0..3 {
        for way in ["epoll", "poll", "select", "inner"] {
            conn.start_send(10, 30);
            let start = Instant::now();
            let got = match way {
                "epoll" => Epoll::list(&outer.wait(4, wait::LONG)),
                "poll" => show::events(wait::poll(inner.fd, libc::POLLIN, wait::LONG).1),
                "select" => select(inner.fd, 5_000).to_string(),
                _ => Epoll::list(&inner.wait(4, wait::LONG)),
            };
            say!("{round} {way}: {got} in time {}", in_time(start));
            conn.finish();
            say!("  right {}, then {}", show::yes(conn.takes(10)), outer.twice());
        }
    }
    // The same with a thread asleep in each at once.
    let fds = [inner.fd, outer.fd, conn.fd];
    let waiters = fds.map(|fd| {
        std::thread::spawn(move || {
            let epoll = Epoll::new();
            epoll.add(fd, IN, 7);
            Epoll::list(&epoll.wait(4, wait::LONG))
        })
    });
    wait::pause(30);
    conn.start_send(10, 0);
    conn.finish();
    let start = Instant::now();
    let woken = waiters.map(|waiter| waiter.join().unwrap());
    say!("threads: {} in time {}", woken.join(", "), in_time(start));
    say!("right {}", show::yes(conn.takes(10)));
    sys::shutdown(conn.fd, libc::SHUT_RDWR);
    wait::settle();
    say!("shut down: {} {}", inner.twice(), outer.twice());
}
