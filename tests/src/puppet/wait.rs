//! Waiting until what the puppet did has reached the subject's socket, and asking whether it is
//! ready.

use super::show::{self, Ret};
use super::sys;
use libc::{c_int, epoll_event, pollfd};
use std::time::{Duration, Instant};

/// How long anything that must happen may take.
pub const LONG: c_int = 5_000;

const TICK: Duration = Duration::from_micros(200);

/// TCP states, as the kernel numbers them.
pub mod state {
    /// The peer shut its side down.
    pub const CLOSE_WAIT: u8 = 8;
    /// The connection is gone.
    pub const CLOSE: u8 = 7;
    /// We shut down and the peer knows it.
    pub const FIN_WAIT2: u8 = 5;
}

/// A pause in which anything that is on its way arrives.
pub fn settle() {
    pause(3);
}

/// Sleeps this many milliseconds.
pub fn pause(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

/// Waits for a condition; whether it came true in time.
pub fn until(mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_millis(LONG.unsigned_abs().into());
    while !condition() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(TICK);
    }
    true
}

/// Waits until a thread of this process sleeps in the kernel, and does so for a while.
pub fn asleep(tid: c_int) {
    let mut looks = 0;
    let sleeps = until(|| {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat"));
        // The state comes behind the name, which is in brackets.
        let state = stat.unwrap_or_default().rsplit(") ").next().map(|rest| rest.starts_with('S'));
        looks = if state == Some(true) { looks + 1 } else { 0 };
        pause(5);
        looks >= 5
    });
    assert!(sleeps, "the thread does not sleep");
}

/// How much `FIONREAD` says is there.
pub fn available(fd: c_int) -> usize {
    let mut count = 0;
    sys::ioctl(fd, libc::FIONREAD, &mut count);
    usize::try_from(count).unwrap_or(0)
}

/// Waits until that much can be read.
pub fn queued(fd: c_int, count: usize) {
    assert!(until(|| available(fd) >= count), "only {} of {count} bytes came", available(fd));
    settle();
}

/// Waits until the peer's kernel has all that was sent (Nagle's algorithm may hold some back).
pub fn delivered(fd: c_int) {
    let unacknowledged = || {
        let mut count = 0;
        sys::ioctl(fd, libc::TIOCOUTQ, &mut count);
        count
    };
    assert!(until(|| unacknowledged() == 0), "{} bytes are on their way", unacknowledged());
    settle();
}

/// Waits until the kernel's socket is in this state.
pub fn tcp_state(fd: c_int, wanted: u8) {
    let now = || sys::getsockopt::<u8>(fd, libc::IPPROTO_TCP, libc::TCP_INFO).unwrap_or(0);
    assert!(until(|| now() == wanted), "the socket is in state {}, not {wanted}", now());
    settle();
}

/// `poll` of one descriptor: what it returned and what it said.
pub fn poll(fd: c_int, events: i16, timeout: c_int) -> (Ret, u32) {
    let mut one = [pollfd { fd, events, revents: 0 }];
    let ret = poll_all(&mut one, timeout);
    (ret, u32::from(one[0].revents.cast_unsigned()))
}

/// `poll` of many.
pub fn poll_all(all: &mut [pollfd], timeout: c_int) -> Ret {
    // SAFETY: the array is the caller's, its length its own.
    Ret::of(unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, timeout) })
}

/// Everything that `poll` can say of a descriptor, in transcript form.
pub fn poll_now(fd: c_int) -> String {
    let all = libc::POLLIN | libc::POLLOUT | libc::POLLPRI | libc::POLLRDHUP;
    show::events(poll(fd, all, 0).1)
}

/// An epoll instance.
#[derive(Debug)]
pub struct Epoll {
    /// Its descriptor.
    pub fd: c_int,
}

impl Default for Epoll {
    fn default() -> Self {
        Self::new()
    }
}

impl Epoll {
    /// `epoll_create1`.
    pub fn new() -> Self {
        // SAFETY: no pointers.
        let ret = Ret::of(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) });
        Self { fd: ret.expect("epoll_create1") }
    }

    /// `epoll_ctl` of any kind.
    pub fn control(&self, op: c_int, fd: c_int, events: u32, data: u64) -> Ret {
        let mut event = epoll_event { events, u64: data };
        // SAFETY: the event lives here.
        Ret::of(unsafe { libc::epoll_ctl(self.fd, op, fd, &raw mut event) })
    }

    /// Registers a descriptor.
    pub fn add(&self, fd: c_int, events: u32, data: u64) {
        self.control(libc::EPOLL_CTL_ADD, fd, events, data).expect("EPOLL_CTL_ADD");
    }

    /// Changes a registration.
    pub fn modify(&self, fd: c_int, events: u32, data: u64) {
        self.control(libc::EPOLL_CTL_MOD, fd, events, data).expect("EPOLL_CTL_MOD");
    }

    /// `epoll_wait`: what came, in the order of the data words.
    pub fn wait(&self, max: c_int, timeout: c_int) -> Vec<(u64, u32)> {
        let mut got = self.wait_in_order(max, timeout);
        got.sort_unstable();
        got
    }

    /// `epoll_wait`: what came, in the order in which it was told.
    pub fn wait_in_order(&self, max: c_int, timeout: c_int) -> Vec<(u64, u32)> {
        let mut room = vec![epoll_event { events: 0, u64: 0 }; max.max(1).unsigned_abs() as usize];
        // SAFETY: the array has room for `max` events.
        let ret = Ret::of(unsafe { libc::epoll_wait(self.fd, room.as_mut_ptr(), max, timeout) });
        room.iter().take(ret.count()).map(|event| (event.u64, event.events)).collect()
    }

    /// `epoll_wait` without waiting, in transcript form: `0:IN|OUT 1:HUP`, or `none`.
    pub fn now(&self) -> String {
        Self::list(&self.wait(16, 0))
    }

    /// `epoll_wait` for something that must come.
    pub fn soon(&self) -> String {
        Self::list(&self.wait(16, LONG))
    }

    /// Two waits in a row: the second tells level from edge.
    pub fn twice(&self) -> String {
        format!("{} then {}", self.now(), self.now())
    }

    /// Events in transcript form.
    pub fn list(got: &[(u64, u32)]) -> String {
        if got.is_empty() {
            return "none".to_owned();
        }
        let all: Vec<String> =
            got.iter().map(|(data, mask)| format!("{data}:{}", show::events(*mask))).collect();
        all.join(" ")
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        sys::close(self.fd);
    }
}
