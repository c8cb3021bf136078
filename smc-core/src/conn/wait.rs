//! How a call sleeps in the kernel.
//!
//! The sleep is one `ppoll` on the queue's bell, the TCP socket (for the peer's end) and the
//! control channel; it is the only place where a thread can be cancelled.
use super::owed::pay_if_called;
use super::Ctx;
use crate::arena::flag;
use crate::errno::Errno;
use crate::process::Process;
use crate::ring::doorbell;
use crate::shm::layout::Line;
use crate::sync::Ordering;
use crate::sys::thread::{self, keep_errno, last_errno, outside_unless_interrupted, Ran};
use crate::sys::{clock, raw};
use crate::transport::loopback::Group;
use libc::{c_int, pollfd, timespec, timeval};

/// Longest sleep where news may come without a bell.
pub(crate) const SHORT_MS: u64 = 10;

/// When a wait ends without news, CLOCK_MONOTONIC in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline(pub(crate) Option<u64>);

impl Deadline {
    /// From SO_RCVTIMEO or SO_SNDTIMEO.
    pub(crate) fn of_socket(fd: c_int, option: c_int) -> Self {
        let mut value = timeval { tv_sec: 0, tv_usec: 0 };
        let known = raw::getsockopt(fd, libc::SOL_SOCKET, option, &mut value).is_ok();
        if !known || (value.tv_sec == 0 && value.tv_usec == 0) {
            return Self(None);
        }
        let ns = (value.tv_sec.unsigned_abs())
            .saturating_mul(1_000_000_000)
            .saturating_add(value.tv_usec.unsigned_abs() * 1_000);
        Self(Some(raw::monotonic_ns().saturating_add(ns)))
    }

    /// Nanoseconds left; `None`: for ever.
    pub(crate) fn left(self) -> Option<u64> {
        self.0.map(|end| end.saturating_sub(raw::monotonic_ns()))
    }
}

/// Whether a call may wait. O_NONBLOCK is the kernel's to say, and any process that has the socket may
/// change it; but asking costs as much as a short wait. Where the last call was allowed to wait, this one
/// looks at the ring for a while before it asks.
#[derive(Debug)]
pub(crate) struct Patience<'c> {
    ctx: &'c Ctx<'c>,
    /// What the call's flags or the kernel have said.
    known: Option<bool>,
}

impl<'c> Patience<'c> {
    /// `nowait`: the call's own flags forbid it.
    pub(crate) fn new(ctx: &'c Ctx<'c>, nowait: bool) -> Self {
        Self { ctx, known: nowait.then_some(false) }
    }

    /// Whether it may look for a while.
    pub(crate) fn may_spin(&mut self) -> bool {
        match self.known {
            Some(known) => known,
            None => self.ctx.conn.has(flag::BLOCKS) || self.may_sleep(),
        }
    }

    /// Whether it may sleep.
    pub(crate) fn may_sleep(&mut self) -> bool {
        *self.known.get_or_insert_with(|| self.ctx.ask_whether_it_blocks())
    }
}

/// What ended a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Something happened; look again.
    Look,
    /// The time is over.
    Timeout,
    /// A signal handler has run that lets a call go on, if it has moved nothing yet.
    Restart,
}

impl Ctx<'_> {
    fn ask_whether_it_blocks(&self) -> bool {
        let blocks = !raw::is_nonblocking(self.fd());
        if !blocks {
            self.conn.lower(flag::BLOCKS);
        } else if !self.conn.has(flag::BLOCKS) {
            self.conn.raise(flag::BLOCKS);
        }
        blocks
    }

    /// Sleeps until the peer has news of this connection, the TCP socket has one of `tcp_events`,
    /// or the time is over. `ready` is asked once more after the bell is armed.
    pub(crate) fn sleep(
        &self,
        tcp_events: i16,
        deadline: Deadline,
        mut ready: impl FnMut() -> bool,
    ) -> Result<Woken, Errno> {
        let group = self.group().ok_or(Errno::AGAIN)?;
        let queue = self.process.device.queues.borrow().ok();
        let slot = queue.as_ref().and_then(|queue| queue.slot_in(group));
        let own: Option<&Line> = self.lines().map(|(own, _)| own);
        let _wish = Wish::new(own, slot);
        let armed = slot.and_then(|slot| group.own_slots().get(slot));
        if let Some(armed) = armed {
            doorbell::arm(armed);
        }
        // What is paid may be news for this very call.
        let owing = pay_if_called(self.process, group, armed);
        if ready() {
            return Ok(Woken::Look);
        }
        clock::calibrate();
        let bell = queue.as_ref().map_or(-1, |queue| queue.bell());
        let mut fds = [
            pollfd { fd: bell, events: libc::POLLIN, revents: 0 },
            pollfd { fd: self.fd(), events: tcp_events, revents: 0 },
            pollfd { fd: group.control(), events: libc::POLLIN, revents: 0 },
        ];
        // Without a bell of our own, or where who has news may have no way to ring it, look now and
        // then; also where a peer is owed more than TCP has room for.
        let short = armed.is_none() || self.may_miss_bells() || owing;
        let left = deadline.left();
        let ns = if short { Some(left.unwrap_or(u64::MAX).min(SHORT_MS * 1_000_000)) } else { left };
        let got = poll_fds(self.process, &mut fds, ns);
        if let Some(armed) = armed {
            doorbell::disarm(armed);
        }
        if fds[0].revents != 0 {
            raw::eventfd_clear(bell);
        }
        if fds[1].revents != 0 {
            self.conn.raise(flag::TCP_NEWS);
        }
        if fds[2].revents != 0 {
            group.drain(&self.process.device);
        }
        match got {
            Ok(0) if left.is_some_and(|left| ns.is_some_and(|ns| ns >= left)) => Ok(Woken::Timeout),
            Ok(_) => Ok(Woken::Look),
            Err(Errno::INTR) if restarts(deadline) => Ok(Woken::Restart),
            Err(errno) => Err(errno),
        }
    }
}

impl Ctx<'_> {
    /// Whether news for this side may come from a process that cannot ring for this one: another of
    /// this side, or one of a peer's that has not been told of our bell and asks another of ours.
    pub(crate) fn may_miss_bells(&self) -> bool {
        self.is_shared() || self.group().is_some_and(Group::is_forked)
    }
}

/// The wish for a bell in the own line, taken back when dropped.
struct Wish<'a>(Option<(&'a Line, usize)>);

impl<'a> Wish<'a> {
    fn new(own: Option<&'a Line>, slot: Option<usize>) -> Self {
        let both = own.zip(slot);
        if let Some((own, slot)) = both {
            doorbell::want(&own.want_bell, slot);
        }
        Self(both)
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        if let Some((own, slot)) = self.0 {
            doorbell::unwant(&own.want_bell, slot);
        }
    }
}

/// The one deliberate wait: a cancellation point. Leaves `errno` as it was.
pub(crate) fn poll_fds(
    process: &Process,
    fds: &mut [pollfd],
    ns: Option<u64>,
) -> Result<usize, Errno> {
    let span = ns.map(to_timespec);
    let timeout = span.as_ref().map_or(core::ptr::null(), |span| span as *const timespec);
    process.page().sleeps.fetch_add(1, Ordering::Relaxed);
    keep_errno(|| {
        // SAFETY: requires valid arrays and a timeout or null: all are locals of the callers.
        let got = outside_unless_interrupted(|| unsafe {
            (process.real.ppoll)(fds.as_mut_ptr(), fds.len() as _, timeout, core::ptr::null())
        });
        usize::try_from(got.ok_or(Errno::INTR)?).map_err(|_| last_errno())
    })
}

/// A duration as the kernel wants it.
pub(crate) fn to_timespec(ns: u64) -> timespec {
    timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ns % 1_000_000_000).unwrap_or(0),
    }
}

/// Whether a call goes on after a signal handler has run: as in the kernel, not if it has a timeout,
/// and only if the handler was installed with SA_RESTART.
fn restarts(deadline: Deadline) -> bool {
    if deadline.0.is_some() {
        return false;
    }
    match thread::take_ran() {
        Ran::Interrupting => false,
        Ran::Restarting => true,
        // A handler that was installed behind our back: all that are installed are looked at.
        Ran::None => (1..=64).all(|signal| match raw::signal_disposition(signal) {
            // SIG_DFL and SIG_IGN.
            Some((0 | 1, _)) | None => true,
            Some((_, flags)) => flags & libc::SA_RESTART as u64 != 0,
        }),
    }
}
