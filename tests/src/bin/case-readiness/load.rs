//! D7: other descriptors are served while a socket never runs dry.

use super::matrix::{ET, IN};
use libc::{c_int, timespec};
use smc_tests::harness::role;
use smc_tests::puppet::show::Ret;
use smc_tests::puppet::wait::Epoll;
use smc_tests::puppet::{show, sys, Subject};
use smc_tests::say;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::time::{Duration, Instant};

const NAMES: [&str; 5] = ["udp", "timerfd", "signalfd", "pipe", "eventfd"];
const SOCKET: u64 = 99;
/// Promised is 50 ms; other work on the machine must not fail the case.
const LIMIT: Duration = Duration::from_millis(500);
const PERIOD: Duration = Duration::from_millis(20);
const ROUNDS: usize = 30;

/// A descriptor that something happens to, by its place in `NAMES`.
fn source(kind: usize) -> (c_int, Box<dyn FnMut() + Send>) {
    match NAMES[kind] {
        "udp" => {
            let here = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let to = here.local_addr().unwrap();
            let from = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            (here.into_raw_fd(), Box::new(move || drop(from.send_to(b"x", to))))
        }
        "timerfd" => {
            // SAFETY: no pointers.
            let fd = Ret::of(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, 0) });
            let fd = fd.expect("timerfd");
            let soon = libc::itimerspec {
                it_interval: timespec { tv_sec: 0, tv_nsec: 0 },
                it_value: timespec { tv_sec: 0, tv_nsec: 1 },
            };
            let set = move || {
                // SAFETY: the setting lives as long as this closure.
                unsafe { libc::timerfd_settime(fd, 0, &raw const soon, std::ptr::null_mut()) };
            };
            (fd, Box::new(set))
        }
        "signalfd" => {
            // SAFETY: the set lives here; no thread wants the signal otherwise.
            let fd = unsafe {
                let mut set: libc::sigset_t = std::mem::zeroed();
                libc::sigaddset(&raw mut set, libc::SIGUSR1);
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
                libc::signalfd(-1, &raw const set, 0)
            };
            let raise = || {
                // SAFETY: a signal to ourselves, blocked in all threads.
                unsafe { libc::kill(libc::getpid(), libc::SIGUSR1) };
            };
            (Ret::of(fd).expect("signalfd"), Box::new(raise))
        }
        "pipe" => {
            let (read, write) = std::io::pipe().unwrap();
            let put = move || {
                sys::Out::Write.call(write.as_raw_fd(), b"x", 0);
            };
            (read.into_raw_fd(), Box::new(put))
        }
        _ => {
            // SAFETY: no pointers.
            let fd = Ret::of(unsafe { libc::eventfd(0, 0) }).expect("eventfd");
            let add = move || {
                sys::Out::Write.call(fd, &1_u64.to_ne_bytes(), 0);
            };
            (fd, Box::new(add))
        }
    }
}

/// One flood and one event of each kind every 20 ms, with room for many events and for one.
pub(crate) fn mixed(subject: &Subject) {
    let sources: Vec<_> = (0..NAMES.len()).map(source).collect();
    let (fds, mut fire): (Vec<c_int>, Vec<_>) = sources.into_iter().unzip();
    // A second socket, seldom used, must not starve behind the busy one either.
    for (mode, max, bite) in [(0, 16, 65_536), (0, 1, 4_096), (ET, 16, 16_384), (0, 2, 1 << 20)] {
        let mut conn = subject.connect();
        sys::nonblocking(conn.fd, true);
        let epoll = Epoll::new();
        epoll.add(conn.fd, IN | mode, SOCKET);
        for (kind, &fd) in fds.iter().enumerate() {
            epoll.add(fd, IN, kind as u64);
        }
        conn.start_flood();
        let mut room = vec![0; bite];
        let mut worst = [Duration::ZERO; NAMES.len()];
        let mut served = [0; NAMES.len()];
        let mut moved = 0;
        let mut right = true;
        for _ in 0..ROUNDS {
            let start = Instant::now();
            for one in &mut fire {
                one();
            }
            let mut open = NAMES.len();
            while open > 0 || start.elapsed() < PERIOD {
                assert!(start.elapsed() < Duration::from_secs(5), "not served: {served:?}");
                for (data, _) in epoll.wait(max, 1_000) {
                    if data != SOCKET {
                        let kind = usize::try_from(data).unwrap();
                        sys::In::Read.call(fds[kind], &mut [0; 128], 0);
                        worst[kind] = worst[kind].max(start.elapsed());
                        served[kind] += 1;
                        open -= 1;
                        continue;
                    }
                    // An edge must be read dry, but not for ever: re-arm it after a while.
                    let mut turns = if mode == ET { 64 } else { 1 };
                    while turns > 0 {
                        let ret = sys::recv(conn.fd, &mut room[..], 0);
                        right &= conn.came(&room[..ret.count()]);
                        moved += ret.count();
                        turns = if ret.value > 0 { turns - 1 } else { 0 };
                        if mode == ET && turns == 0 && ret.value > 0 {
                            epoll.modify(conn.fd, IN | mode, SOCKET);
                        }
                    }
                }
            }
        }
        let in_time: Vec<String> = NAMES
            .iter()
            .zip(worst)
            .map(|(name, worst)| format!("{name} {}", show::yes(worst < LIMIT)))
            .collect();
        role::note(&format!("worst {worst:?}, {moved} bytes"));
        say!("{} by {max}: served {served:?}, in time: {}", show::events(mode), in_time.join(" "));
        say!("  flooded {}, right {}", show::yes(moved > 1 << 20), show::yes(right));
        // The puppet meets the reset in a send: ECONNRESET, or EPIPE behind it.
        let end = i32::try_from(-conn.stop_flood()).unwrap_or(0);
        say!("  stopped {}", show::yes(matches!(end, libc::ECONNRESET | libc::EPIPE)));
    }
    for fd in fds {
        sys::close(fd);
    }
}
