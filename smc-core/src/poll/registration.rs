//! One registration in an epoll instance: where it is, and what it has been told.
use crate::arena::flag;
use crate::conn::Ctx;
use crate::sync::Ordering;
use crate::transport::loopback::Loopback;
use libc::{c_int, epoll_event};

pub(super) const OUT: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM | libc::EPOLLWRBAND) as u32;
const IN: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
/// Flags of a connection of whose change the kernel tells as well.
pub(super) const ENDS: u32 = flag::TCP_NEWS | flag::FIN | flag::PEER_GONE | flag::TX_SHUT | flag::RX_SHUT;
pub(super) const ET: u32 = libc::EPOLLET as u32;
/// The events proper, without the flags of the registration.
pub(super) const POLLED: u32 = 0x3fff;
pub(super) const ONESHOT: u32 = libc::EPOLLONESHOT as u32;

/// Where a registration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the inner epoll, with the program's events: the connection is on TCP.
    Inner,
    /// In the inner epoll, for the end of the stream only; the ring tells the rest.
    Shared,
    /// In the program's epoll: the connection stays on TCP.
    Outer,
}

/// One registration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reg {
    pub(super) used: bool,
    pub(super) fd: c_int,
    pub(super) conn: u32,
    pub(super) events: u32,
    pub(super) data: u64,
    pub(super) place: Place,
    /// A one-shot registration that has fired.
    pub(super) fired: bool,
    /// Tell of all that is there, as after `epoll_ctl`, or since the kernel told of something.
    pub(super) whole: bool,
    /// Shared, and deleted by the program: the kernel's side is kept, since programs that delete a
    /// registration often add it again with the next request.
    pub(super) parked: bool,
    /// It is being moved to the ring's side just now.
    pub(super) fresh: bool,
    /// Edge-triggered: how far the peer had filled the ring at the last event.
    seen: u64,
    /// Edge-triggered: how often this side had found the ring full at the last event with room.
    full: u32,
    /// Next shared registration of the same connection.
    pub(super) next: Option<u32>,
    /// Next registration of the same connection, wherever it is.
    pub(super) sibling: Option<u32>,
}

impl Reg {
    /// A registration of a connection that is on TCP.
    pub(super) fn new(fd: c_int, conn: u32, event: epoll_event) -> Self {
        Self {
            used: true,
            fd,
            conn,
            events: event.events,
            data: event.u64,
            place: Place::Inner,
            fired: false,
            whole: false,
            parked: false,
            fresh: false,
            seen: 0,
            full: 0,
            next: None,
            sibling: None,
        }
    }

    /// Added again after it was parked.
    pub(super) fn unpark(&mut self, event: epoll_event) {
        (self.events, self.data) = (event.events, event.u64);
        (self.parked, self.fired, self.whole) = (false, false, true);
    }

    /// The events to tell of now, if any.
    #[inline(always)]
    pub(super) fn news(&mut self, ctx: &Ctx<'_>, link: Loopback<'_>) -> Option<u32> {
        if self.events & ET != 0 && !self.whole && !self.edge(ctx) {
            return None;
        }
        let events = ctx.ready_by(Some(link), self.events);
        if events == 0 {
            self.whole = false;
            return None;
        }
        Some(events)
    }

    /// Whether anything that is asked for has changed since the last event: the kernel wakes an
    /// edge-triggered registration for that alone, and then tells of all that is there.
    fn edge(&self, ctx: &Ctx<'_>) -> bool {
        let came = ctx.lines().is_some_and(|(_, peer)| {
            // Relaxed: a hint; the look that follows synchronises.
            peer.prod.load(Ordering::Relaxed) != self.seen
        });
        let room = ctx.conn.full.load(Ordering::Relaxed) != self.full;
        (came && self.events & IN != 0) || (room && self.events & OUT != 0)
    }

    /// Notes what was told.
    #[inline(always)]
    pub(super) fn told(&mut self, ctx: &Ctx<'_>, events: u32) {
        self.whole = false;
        self.fired = self.events & ONESHOT != 0;
        if self.events & ET == 0 {
            return;
        }
        if let Some((_, peer)) = ctx.lines() {
            self.seen = peer.prod.load(Ordering::Relaxed);
        }
        if events & OUT != 0 {
            self.full = ctx.conn.full.load(Ordering::Relaxed);
        }
    }
}
