//! Waiting for one or several connections, by all calls that there are.

use super::plan::Style;
use super::state::{self, Kind};
use super::stream::Work;
use crate::harness::net::{close, set_nonblocking, Errno, Fd};
use crate::harness::ready;
use crate::libc_call as call;
use std::ptr::{from_mut, null};
use std::sync::atomic::Ordering;

const IN: u32 = libc::EPOLLIN.cast_unsigned();
const OUT: u32 = libc::EPOLLOUT.cast_unsigned();
const ENDS: u32 = (libc::EPOLLERR | libc::EPOLLHUP).cast_unsigned();
/// Where other processes may have done the rest, in milliseconds.
const LOOK: i32 = 20;

/// One connection of a loop.
struct Watch<'w, 'a> {
    work: &'w Work<'a>,
    registered: Fd,
    mask: u32,
    /// Errands when it was registered: who comes back from one asks anew.
    errands: u64,
    tx_done: bool,
    rx_done: bool,
}

impl Watch<'_, '_> {
    fn is_done(&self) -> bool {
        (self.tx_done && self.rx_done) || self.work.is_gone() || self.work.is_over()
    }
    fn wants(&self) -> u32 {
        (if self.rx_done { 0 } else { IN }) | if self.tx_done { 0 } else { OUT }
    }
    /// What others have done, or what was done before.
    fn look(&mut self) {
        let work = self.work;
        if !self.tx_done && work.tx().1 == work.sent() {
            self.tx_done = true;
            work.all_sent();
        }
        self.rx_done |= work.rx().1 == work.got();
    }
    fn serve(&mut self, got: u32, style: Style) {
        let flags = if style == Style::DontWait { libc::MSG_DONTWAIT } else { 0 };
        // An edge is told once: everything is taken.
        let rounds = if style == Style::Edge { usize::MAX } else { 1 };
        if !self.rx_done && got & (IN | ENDS) != 0 {
            self.rx_done = rounds_of(self.work, rounds, "recv", || self.work.recv_some(flags));
        }
        if !self.tx_done && got & (OUT | ENDS) != 0 {
            self.tx_done = rounds_of(self.work, rounds, "send", || self.work.send_some(flags));
            if self.tx_done {
                self.work.all_sent();
            }
        }
    }
    /// Before any is registered: another connection of the loop may have got the number.
    fn unregister(&mut self, epoll: Fd) {
        let stale = self.is_done() || self.registered != self.work.fd();
        if self.registered >= 0 && stale {
            // Closed, or still open under another number.
            let _ = ready::remove(epoll, self.registered);
            self.registered = -1;
        }
    }
    fn register(&mut self, epoll: Fd, style: Style, data: u64) {
        let how = match style {
            Style::Edge => libc::EPOLLET,
            Style::OneShot => libc::EPOLLONESHOT,
            _ => 0,
        };
        let errands = self.work.progress.errands.load(Ordering::Acquire);
        let events = self.wants().cast_signed() | how;
        if self.registered != self.work.fd() {
            self.registered = self.work.fd();
            let added = ready::add(epoll, self.registered, events, data);
            added.unwrap_or_else(|error| self.work.failed("epoll_ctl ADD", error));
        } else if self.wants() != self.mask || errands != self.errands {
            let changed = ready::modify(epoll, self.registered, events, data);
            changed.unwrap_or_else(|error| self.work.failed("epoll_ctl MOD", error));
        }
        (self.mask, self.errands) = (self.wants(), errands);
    }
}

fn rounds_of(
    work: &Work<'_>,
    most: usize,
    call: &str,
    mut step: impl FnMut() -> Result<bool, Errno>,
) -> bool {
    let before = work.fd();
    for _ in 0..most {
        match step() {
            Ok(true) => return true,
            // A new number has edges of its own.
            Ok(false) if work.fd() != before || work.is_over() => return false,
            Ok(false) => {}
            Err(Errno(libc::EAGAIN)) => return false,
            Err(Errno(libc::EINTR)) => state::own().did(Kind::Interrupted),
            Err(error) => work.failed(call, error),
        }
    }
    false
}

/// Serves connections until all bytes of each are through, or have been done as far as ordered.
pub fn serve_all(works: &[&Work<'_>], style: Style) {
    let blocking = style == Style::DontWait;
    works.iter().for_each(|work| set_nonblocking(work.fd(), !blocking));
    let epolls = matches!(style, Style::Level | Style::Edge | Style::OneShot);
    let epoll = epolls.then(ready::epoll);
    let mut all: Vec<Watch<'_, '_>> = works
        .iter()
        .map(|work| Watch {
            work,
            registered: -1,
            mask: 0,
            errands: 0,
            tx_done: false,
            rx_done: false,
        })
        .collect();
    // Other processes may do the last of it, which is no news for this one.
    let shared = works.iter().any(|work| work.is_shared());
    let millis = if shared { LOOK } else { -1 };
    for way in 0_u64.. {
        all.iter_mut().for_each(Watch::look);
        if all.iter().all(Watch::is_done) {
            break;
        }
        let got = match epoll {
            Some(epoll) => by_epoll(epoll, &mut all, style, way, millis),
            None => by_numbers(&all, way, millis),
        };
        match got {
            Ok(got) => got.into_iter().for_each(|(at, events)| {
                if !all[at].is_done() {
                    all[at].serve(events, style);
                }
            }),
            Err(Errno(libc::EINTR)) => state::own().did(Kind::Interrupted),
            Err(error) => works[0].failed("wait", error),
        }
    }
    if let Some(epoll) = epoll {
        close(epoll).unwrap();
    }
}

type Got = Result<Vec<(usize, u32)>, Errno>;

fn by_epoll(epoll: Fd, all: &mut [Watch<'_, '_>], style: Style, way: u64, millis: i32) -> Got {
    all.iter_mut().for_each(|watch| watch.unregister(epoll));
    for (at, watch) in all.iter_mut().enumerate().filter(|(_, watch)| !watch.is_done()) {
        watch.register(epoll, style, at as u64);
    }
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
    let to = events.as_mut_ptr();
    let (kind, n) = if way.is_multiple_of(3) {
        (Kind::EpollPwait, call!(libc::epoll_pwait(epoll, to, 8, millis, null())))
    } else {
        (Kind::EpollWait, call!(libc::epoll_wait(epoll, to, 8, millis)))
    };
    state::own().did(match style {
        Style::Edge => Kind::Edge,
        Style::OneShot => Kind::OneShot,
        _ => kind,
    });
    let got = events[..n?].iter().map(|event| (usize::try_from(event.u64).unwrap(), event.events));
    let got: Vec<_> = got.collect();
    if style == Style::OneShot {
        got.iter().for_each(|(at, _)| all[*at].mask = 0);
    }
    Ok(got)
}

fn by_numbers(all: &[Watch<'_, '_>], way: u64, millis: i32) -> Got {
    let open: Vec<usize> = (0..all.len()).filter(|at| !all[*at].is_done()).collect();
    let kinds = [Kind::Poll, Kind::Ppoll, Kind::Select, Kind::Pselect];
    let kind = kinds[usize::try_from(way % 4).unwrap()];
    state::own().did(kind);
    if matches!(kind, Kind::Select | Kind::Pselect) {
        return by_sets(all, &open, kind, millis);
    }
    let wants = |at: &usize| libc::pollfd {
        fd: all[*at].work.fd(),
        events: i16::try_from(all[*at].wants()).unwrap(),
        revents: 0,
    };
    let mut fds: Vec<libc::pollfd> = open.iter().map(wants).collect();
    if kind == Kind::Poll {
        ready::poll(&mut fds, millis)?;
    } else {
        let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(millis) * 1_000_000 };
        let time = if millis < 0 { null() } else { &time };
        let count = fds.len() as libc::nfds_t;
        call!(libc::ppoll(fds.as_mut_ptr(), count, time, null()))?;
    }
    let got = open.iter().zip(&fds).map(|(at, fd)| (*at, u32::from(fd.revents.cast_unsigned())));
    Ok(got.collect())
}

fn by_sets(all: &[Watch<'_, '_>], open: &[usize], kind: Kind, millis: i32) -> Got {
    // SAFETY: an fd_set is plain numbers, for which zero is valid.
    let [mut to_read, mut to_write]: [libc::fd_set; 2] = unsafe { std::mem::zeroed() };
    let mut most = 0;
    for at in open {
        let fd = all[*at].work.fd();
        assert!(fd < 1024, "no number for select");
        most = most.max(fd + 1);
        for (event, set) in [(IN, &mut to_read), (OUT, &mut to_write)] {
            if all[*at].wants() & event != 0 {
                // SAFETY: a live set, and a number below its size.
                unsafe { libc::FD_SET(fd, set) };
            }
        }
    }
    let sets = (from_mut(&mut to_read), from_mut(&mut to_write));
    let none = std::ptr::null_mut();
    if kind == Kind::Select {
        let mut time = libc::timeval { tv_sec: 0, tv_usec: i64::from(millis) * 1000 };
        let time = if millis < 0 { std::ptr::null_mut() } else { &mut time };
        call!(libc::select(most, sets.0, sets.1, none, time))?;
    } else {
        let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(millis) * 1_000_000 };
        let time = if millis < 0 { null() } else { &time };
        call!(libc::pselect(most, sets.0, sets.1, none, time, null()))?;
    }
    let got = open.iter().map(|at| {
        let fd = all[*at].work.fd();
        // SAFETY: live sets, and a number below their size.
        let [reads, writes] = [&to_read, &to_write].map(|set| unsafe { libc::FD_ISSET(fd, set) });
        (*at, (if reads { IN } else { 0 }) | if writes { OUT } else { 0 })
    });
    Ok(got.collect())
}
