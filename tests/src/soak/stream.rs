//! One end of a checksummed stream in both directions.

use super::calls::{recv_by, send_by};
use super::pattern;
use super::plan::{End, Plan, Style};
use super::trigger::{self, Left};
use crate::harness::net::{self, close, recv, set_nonblocking, shutdown, Errno, Fd};
use crate::harness::ready;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Where an end stands, for whoever reports a hang.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes sent.
    pub sent: AtomicU64,
    /// Bytes received.
    pub got: AtomicU64,
    /// It has left shared memory.
    pub left: AtomicU64,
}

/// One end at work.
#[derive(Debug)]
pub struct Work<'a> {
    /// What both ends do.
    pub plan: Plan,
    /// This is the client.
    pub client: bool,
    /// The number now.
    pub fd: AtomicI32,
    /// The number before, where other threads still use it; or -1.
    pub old: AtomicI32,
    /// Where it stands.
    pub progress: &'a Progress,
    /// The standard stream that it may take.
    pub standard: Fd,
}

/// What an end does when it is to be replaced: never comes back.
pub type Replace<'a> = &'a (dyn Fn(&Work<'_>) + Sync);

impl Work<'_> {
    fn own(&self) -> End {
        self.plan.ends[usize::from(!self.client)]
    }
    fn tx(&self) -> (u64, u64) {
        let at = usize::from(!self.client);
        (self.plan.seed ^ at as u64, self.plan.total[at])
    }
    fn rx(&self) -> (u64, u64) {
        let at = usize::from(self.client);
        (self.plan.seed ^ at as u64, self.plan.total[at])
    }
    fn fd(&self) -> Fd {
        self.fd.load(Ordering::Acquire)
    }
    fn sent(&self) -> u64 {
        self.progress.sent.load(Ordering::Acquire)
    }
    fn got(&self) -> u64 {
        self.progress.got.load(Ordering::Acquire)
    }

    /// Leaves shared memory if it is time; `by_got`: called after a receive.
    fn leave_if_due(&self, by_got: bool, replace: Replace<'_>) {
        let own = self.own();
        let count = if by_got { self.got() } else { self.sent() };
        let due = own.by_got == by_got && count >= own.at;
        if !due || self.progress.left.swap(1, Ordering::AcqRel) != 0 {
            return;
        }
        if own.cause.execs() {
            replace(self);
        }
        let mut next = [0; 3000];
        let mut len = 0;
        if own.cause.is_half() {
            let (seed, total) = self.tx();
            len = next.len().min(usize::try_from(total - self.sent()).unwrap());
            pattern::fill(seed, self.sent(), &mut next[..len]);
        }
        let shared = own.style == Style::Threads;
        let Left { fd, sent } =
            trigger::leave(own.cause, self.fd(), shared, &next[..len], self.standard);
        let old = self.fd.swap(fd, Ordering::AcqRel);
        if shared && old != fd {
            self.old.store(old, Ordering::Release);
        }
        self.progress.sent.fetch_add(sent as u64, Ordering::AcqRel);
    }

    /// One send; true: all is sent.
    fn send_some(&self, flags: i32, replace: Replace<'_>) -> Result<bool, Errno> {
        let (seed, total) = self.tx();
        self.leave_if_due(false, replace);
        let left = total - self.sent();
        if left == 0 {
            return Ok(true);
        }
        let len = self.own().send.min(usize::try_from(left).unwrap());
        let mut data = vec![0; len];
        pattern::fill(seed, self.sent(), &mut data);
        let way = self.plan.seed ^ (self.sent() >> 8);
        let n = send_by(way, self.fd(), &mut data, flags | libc::MSG_NOSIGNAL)?;
        let sent = self.progress.sent.fetch_add(n as u64, Ordering::AcqRel) + n as u64;
        self.leave_if_due(false, replace);
        Ok(sent == total)
    }

    /// One receive; true: all is here.
    fn recv_some(&self, flags: i32, replace: Replace<'_>) -> Result<bool, Errno> {
        let (seed, total) = self.rx();
        let own = self.own();
        self.leave_if_due(true, replace);
        if self.got() == total {
            return Ok(true);
        }
        if own.pause > 0 && self.got() % 8 < 2 {
            std::thread::sleep(std::time::Duration::from_micros(own.pause));
        }
        let mut data = vec![0; own.recv];
        let n = recv_by(self.plan.seed ^ (self.got() >> 8), self.fd(), &mut data, flags)?;
        assert!(n > 0, "{}: the stream ends at {} of {total}", self.name(), self.got());
        if let Some(fault) = pattern::fault(seed, self.got(), &data[..n]) {
            panic!("{}: {fault}", self.name());
        }
        let got = self.progress.got.fetch_add(n as u64, Ordering::AcqRel) + n as u64;
        assert!(got <= total, "{}: {got} bytes of {total}", self.name());
        self.leave_if_due(true, replace);
        Ok(got == total)
    }

    fn name(&self) -> String {
        format!("{} {:?}", if self.client { "client" } else { "server" }, self.plan)
    }

    fn all_sent(&self) {
        if self.own().shuts {
            match shutdown(self.fd(), libc::SHUT_WR) {
                // The peer has everything and has closed.
                Ok(_) | Err(Errno(libc::ENOTCONN)) => {}
                Err(error) => panic!("{}: shutdown: {error}", self.name()),
            }
        }
    }

    /// Runs the end from where it stands to the end of both directions, and closes it.
    pub fn run(&self, replace: Replace<'_>) {
        net::set_option(self.fd(), libc::SOL_SOCKET, libc::SO_OOBINLINE, 1_i32).unwrap();
        match self.own().style {
            Style::Poll | Style::DontWait | Style::Level | Style::Edge => self.run_ready(replace),
            Style::Threads => self.run_threads(replace),
            Style::InTurn => self.run_in_turn(replace),
        }
        self.expect_end();
        close(self.fd()).unwrap();
        let old = self.old.load(Ordering::Acquire);
        if old >= 0 {
            close(old).unwrap();
        }
    }

    /// A peer that shuts its direction down is heard.
    fn expect_end(&self) {
        if !self.plan.ends[usize::from(self.client)].shuts {
            return;
        }
        set_nonblocking(self.fd(), false);
        let got = recv(self.fd(), &mut [0; 64], 0);
        assert_eq!(got, Ok(0), "{}: the end", self.name());
    }

    fn run_in_turn(&self, replace: Replace<'_>) {
        let both = [true, false].map(|first| self.client == first);
        for sends in both {
            if sends {
                while !self.send_some(0, replace).unwrap_or_else(|e| self.failed("send", e)) {}
                self.all_sent();
            } else {
                while !self.recv_some(0, replace).unwrap_or_else(|e| self.failed("recv", e)) {}
            }
        }
    }

    fn failed(&self, call: &str, error: Errno) -> ! {
        panic!("{}: {call} after {} sent, {} got: {error}", self.name(), self.sent(), self.got())
    }

    fn run_threads(&self, replace: Replace<'_>) {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !self.send_some(0, replace).unwrap_or_else(|e| self.failed("send", e)) {}
                self.all_sent();
            });
            while !self.recv_some(0, replace).unwrap_or_else(|e| self.failed("recv", e)) {}
        });
    }

    fn run_ready(&self, replace: Replace<'_>) {
        let own = self.own();
        set_nonblocking(self.fd(), own.style != Style::DontWait);
        let epoll = matches!(own.style, Style::Level | Style::Edge).then(ready::epoll);
        let mut registered = -1;
        let mut mask = 0;
        // Who goes on for another program may find all done.
        let mut tx_done = self.tx().1 == self.sent();
        let mut rx_done = self.rx().1 == self.got();
        if tx_done {
            self.all_sent();
        }
        while !(tx_done && rx_done) {
            let mut events = 0;
            events |= if rx_done { 0 } else { libc::EPOLLIN };
            events |= if tx_done { 0 } else { libc::EPOLLOUT };
            let got = match epoll {
                Some(epoll) => {
                    let edge = if own.style == Style::Edge { libc::EPOLLET } else { 0 };
                    if registered != self.fd() {
                        if registered >= 0 {
                            // Closed, or still open under another number.
                            let _ = ready::remove(epoll, registered);
                        }
                        registered = self.fd();
                        ready::add(epoll, registered, events | edge, 1).unwrap();
                    } else if events != mask {
                        ready::modify(epoll, registered, events | edge, 1).unwrap();
                    }
                    mask = events;
                    let events = ready::wait(epoll, 8, -1);
                    events.map(|all| all.iter().fold(0, |sum, event| sum | event.1))
                }
                None => ready::poll_one(self.fd(), i16::try_from(events).unwrap(), -1),
            };
            let Ok(got) = got else { continue };
            let dontwait = if own.style == Style::DontWait { libc::MSG_DONTWAIT } else { 0 };
            // An edge is told once: everything is taken.
            let rounds = if own.style == Style::Edge { usize::MAX } else { 1 };
            let ends = (libc::EPOLLERR | libc::EPOLLHUP).cast_unsigned();
            if !rx_done && got & (libc::EPOLLIN.cast_unsigned() | ends) != 0 {
                rx_done = self.rounds(rounds, "recv", || self.recv_some(dontwait, replace));
            }
            if !tx_done && got & (libc::EPOLLOUT.cast_unsigned() | ends) != 0 {
                tx_done = self.rounds(rounds, "send", || self.send_some(dontwait, replace));
                if tx_done {
                    self.all_sent();
                }
            }
        }
        if let Some(epoll) = epoll {
            close(epoll).unwrap();
        }
    }

    fn rounds(
        &self,
        most: usize,
        call: &str,
        mut step: impl FnMut() -> Result<bool, Errno>,
    ) -> bool {
        let before = self.fd();
        for _ in 0..most {
            match step() {
                Ok(true) => return true,
                // A new number has edges of its own.
                Ok(false) if self.fd() != before => return false,
                Ok(false) => {}
                Err(Errno(libc::EAGAIN | libc::EINTR)) => return false,
                Err(error) => self.failed(call, error),
            }
        }
        false
    }
}
