//! D8: `poll` and `select` with many descriptors, and with wrong ones.

use libc::{fd_set, pollfd, timespec, timeval};
use smc_tests::puppet::show::{self, Ret};
use smc_tests::puppet::wait;
use smc_tests::puppet::{sys, Conn, Subject};
use smc_tests::say;
use std::mem::zeroed;
use std::os::fd::AsRawFd;
use std::ptr;
use std::time::{Duration, Instant};

fn more_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure lives here.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max.min(10_000);
        Ret::of(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)).expect("setrlimit");
    }
}

fn ready(all: &[pollfd]) -> String {
    let some = all.iter().enumerate().filter(|(_, one)| one.revents != 0);
    let texts =
        some.map(|(at, one)| format!("{at}:{}", show::events(one.revents.cast_unsigned().into())));
    texts.collect::<Vec<_>>().join(" ")
}

/// Four thousand descriptors, ten of them sockets.
pub(crate) fn poll_many(subject: &Subject) {
    const COUNT: usize = 4_000;
    more_descriptors();
    let conns: Vec<Conn> = (0..10).map(|_| subject.connect()).collect();
    let pipe = std::io::pipe().unwrap();
    let others: Vec<i32> =
        (0..COUNT - 10).map(|_| sys::dup(pipe.0.as_raw_fd()).expect("dup")).collect();
    let mut all: Vec<pollfd> =
        others.iter().map(|&fd| pollfd { fd, events: libc::POLLIN, revents: 0x7ff }).collect();
    for (id, conn) in conns.iter().enumerate() {
        let place = id * 400;
        all.insert(place, pollfd { fd: conn.fd, events: libc::POLLIN, revents: 0x7ff });
    }
    say!("none: {} [{}]", wait::poll_all(&mut all, 0), ready(&all));
    let start = Instant::now();
    let ret = wait::poll_all(&mut all, 100);
    say!("none in 100 ms: {ret}, waited {}", show::yes(start.elapsed().as_millis() >= 95));
    conns[3].peer_sends(5);
    say!("one: {} [{}]", wait::poll_all(&mut all, -1), ready(&all));
    conns[9].start_send(5, 30);
    say!("taken {}", show::yes(conns[3].takes(5)));
    say!("another: {} [{}]", wait::poll_all(&mut all, wait::LONG), ready(&all));
    conns[9].finish();
    all[800].events = libc::POLLIN | libc::POLLOUT;
    all[1200].fd = !all[1200].fd;
    all[5].fd = 9_999;
    all[7].fd = -1;
    let ret = wait::poll_all(&mut all, -1);
    say!("writable, closed, negative: {ret} [{}]", ready(&all));
    std::io::Write::write_all(&mut &pipe.1, b"x").unwrap();
    say!("all pipes too: {}", wait::poll_all(&mut all, -1));
    say!("taken {}", show::yes(conns[9].takes(5)));
    for fd in others {
        sys::close(fd);
    }
}

/// The three sets of `select`.
struct Sets {
    read: fd_set,
    write: fd_set,
    except: fd_set,
}

impl Sets {
    fn new(read: &[i32], write: &[i32], except: &[i32]) -> Self {
        let make = |fds: &[i32]| {
            // SAFETY: fd_set is plain data.
            let mut set: fd_set = unsafe { zeroed() };
            for &fd in fds {
                // SAFETY: the cases keep their descriptors below FD_SETSIZE.
                unsafe { libc::FD_SET(fd, &raw mut set) };
            }
            set
        };
        Self { read: make(read), write: make(write), except: make(except) }
    }

    fn select(&mut self, count: i32, time: Option<&mut timeval>) -> Ret {
        let time = time.map_or(ptr::null_mut(), ptr::from_mut);
        let (r, w, e) = (&raw mut self.read, &raw mut self.write, &raw mut self.except);
        // SAFETY: sets and time live here.
        Ret::of(unsafe { libc::select(count, r, w, e, time) })
    }

    fn pselect(&mut self, count: i32, time: Option<timespec>) -> Ret {
        let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
        let (r, w, e) = (&raw mut self.read, &raw mut self.write, &raw mut self.except);
        // SAFETY: sets and time live here.
        Ret::of(unsafe { libc::pselect(count, r, w, e, time, ptr::null()) })
    }

    /// Which of these descriptors are in which set, by their place in the list.
    fn show(&self, fds: &[i32]) -> String {
        let members = |set: &fd_set| {
            // SAFETY: as in `new`.
            let has = |fd: i32| unsafe { libc::FD_ISSET(fd, set) };
            let places: Vec<String> = fds
                .iter()
                .enumerate()
                .filter(|(_, &fd)| has(fd))
                .map(|(at, _)| at.to_string())
                .collect();
            places.join(",")
        };
        format!("r{{{}}} w{{{}}} e{{{}}}", members(&self.read), members(&self.write), {
            members(&self.except)
        })
    }
}

/// `select` and `pselect` with sockets and a pipe in each set.
pub(crate) fn select_sets(subject: &Subject) {
    let conns: Vec<Conn> = (0..3).map(|_| subject.connect()).collect();
    let pipe = std::io::pipe().unwrap();
    let mut fds: Vec<i32> = conns.iter().map(|conn| conn.fd).collect();
    fds.push(pipe.0.as_raw_fd());
    let count = fds.iter().max().unwrap() + 1;
    let now = || timeval { tv_sec: 0, tv_usec: 0 };
    let look = |what: &str| {
        let mut sets = Sets::new(&fds, &fds[..3], &fds);
        let ret = sets.select(count, Some(&mut now()));
        let mut reading = Sets::new(&fds, &[], &fds);
        let second = reading.pselect(count, Some(timespec { tv_sec: 0, tv_nsec: 0 }));
        say!("{what}: {ret} {} reading {second} {}", sets.show(&fds), reading.show(&fds));
    };
    look("new");
    conns[1].peer_sends(10);
    look("data");
    std::io::Write::write_all(&mut &pipe.1, b"x").unwrap();
    look("pipe too");
    conns[2].peer_shuts(libc::SHUT_WR);
    wait::tcp_state(conns[2].fd, wait::state::CLOSE_WAIT);
    look("end");
    say!("taken {}", show::yes(conns[1].takes(10)));
    conns[0].peer_resets();
    wait::tcp_state(conns[0].fd, wait::state::CLOSE);
    look("reset");

    let one = [conns[1].fd];
    let only = one[0] + 1;
    let mut sets = Sets::new(&one, &[], &[]);
    let start = Instant::now();
    let mut time = timeval { tv_sec: 0, tv_usec: 80_000 };
    let ret = sets.select(only, Some(&mut time));
    let waited = start.elapsed() >= Duration::from_millis(75);
    say!(
        "nothing in 80 ms: {ret} {}, waited {}, left {} us",
        sets.show(&fds),
        show::yes(waited),
        { time.tv_usec }
    );
    conns[1].start_send(10, 30);
    let mut sets = Sets::new(&one, &[], &[]);
    let mut time = timeval { tv_sec: 5, tv_usec: 0 };
    let ret = sets.select(only, Some(&mut time));
    let left = time.tv_sec == 4;
    say!("data: {ret} {}, some time left {}", sets.show(&fds), show::yes(left));
    conns[1].finish();
    say!("taken {}", show::yes(conns[1].takes(10)));
    conns[1].start_send(10, 30);
    let mut sets = Sets::new(&one, &[], &[]);
    say!("for ever: {} {}", sets.pselect(only, None), sets.show(&fds));
    conns[1].finish();
    say!("too few: {}", Sets::new(&one, &[], &[]).select(one[0], Some(&mut now())));
    say!("negative: {}", Sets::new(&one, &[], &[]).select(-1, Some(&mut now())));
    let mut bad = timeval { tv_sec: -1, tv_usec: 0 };
    say!("negative time: {}", Sets::new(&one, &[], &[]).select(only, Some(&mut bad)));
    let bad = timespec { tv_sec: 0, tv_nsec: 1_000_000_000 };
    say!("bad time: {}", Sets::new(&one, &[], &[]).pselect(only, Some(bad)));
    // SAFETY: no sets at all.
    let ret = unsafe {
        let (null, mut time) = (ptr::null_mut(), now());
        libc::select(0, null, null, null, &raw mut time)
    };
    say!("no sets: {}", Ret::of(ret));
}

/// NVAL, EBADF, EINVAL and EFAULT beside a live socket.
pub(crate) fn bad_descriptors(subject: &Subject) {
    let (mut gone, conn) = (subject.connect(), subject.connect());
    let dead = gone.fd;
    gone.close();
    let all = libc::POLLIN | libc::POLLOUT;
    say!("closed: {:?}", wait::poll(dead, all, -1).1);
    let mut two = [dead, conn.fd].map(|fd| pollfd { fd, events: libc::POLLIN, revents: 0 });
    say!("and live: {} [{}]", wait::poll_all(&mut two, -1), ready(&two));
    conn.peer_sends(10);
    say!("with data: {} [{}]", wait::poll_all(&mut two, -1), ready(&two));
    let mut twice = [conn.fd; 3].map(|fd| pollfd { fd, events: libc::POLLIN, revents: 0 });
    twice[1].events = libc::POLLOUT;
    twice[2].events = 0;
    say!("one three times: {} [{}]", wait::poll_all(&mut twice, -1), ready(&twice));
    let bits = libc::POLLRDNORM | libc::POLLWRNORM | libc::POLLRDBAND | libc::POLLWRBAND;
    say!("bands: {}", show::events(wait::poll(conn.fd, bits, 0).1));
    say!("none at all: {}", wait::poll_all(&mut [], 10));
    // SAFETY: the kernel checks address and count, which are bad on purpose.
    let bad = unsafe {
        [
            Ret::of(libc::poll(ptr::without_provenance_mut(8), 1, 0)),
            Ret::of(libc::poll(two.as_mut_ptr(), 1_000_000_000, 0)),
        ]
    };
    say!("bad address {}, too many {}", bad[0], bad[1]);
    for (sec, nsec) in [(-1, 0), (0, -1), (0, 1_000_000_000), (0, 0), (0, 1)] {
        let time = timespec { tv_sec: sec, tv_nsec: nsec };
        // SAFETY: array and time live here.
        let ret = unsafe { libc::ppoll(two.as_mut_ptr(), 2, &raw const time, ptr::null()) };
        say!("ppoll {sec} {nsec}: {} [{}]", Ret::of(ret), ready(&two));
    }
    let mut now = timeval { tv_sec: 0, tv_usec: 0 };
    let count = conn.fd.max(dead) + 1;
    let mut sets = Sets::new(&[dead, conn.fd], &[], &[]);
    say!("select of closed: {}", sets.select(count, Some(&mut now)));
    let mut sets = Sets::new(&[conn.fd], &[dead], &[]);
    say!("in another set: {}", sets.select(count, Some(&mut now)));
    say!("taken {}", show::yes(conn.takes(10)));
}
