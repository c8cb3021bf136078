//! One end of a checksummed stream in both directions.

use super::calls::{mix, recv_by, send_by, Look, Means, Taken};
use super::crew::Name;
use super::numbers::{self, ForNow};
use super::pattern;
use super::plan::{Cause, End, Errand, Plan, Style};
use super::state::{self, Kind, Progress};
use super::trigger::{self, Left};
use super::wait::serve_all;
use crate::harness::net::{self, set_nonblocking, shutdown, Errno, Fd};
use crate::harness::threads;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Duration;

thread_local! {
    /// The call that this thread has made last.
    static LAST: Cell<Option<Kind>> = const { Cell::new(None) };
}

/// Threads for each direction that share a connection.
const SHARERS: usize = 3;

/// What of an end somebody does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Both directions.
    Both,
    /// One.
    Sends,
    /// The other.
    Receives,
}

/// How far a helper goes.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// What he does.
    pub part: Part,
    /// Bytes of that from the start of the stream.
    pub at: u64,
}

/// One end at work.
#[derive(Debug)]
pub struct Work<'a> {
    /// The batch.
    pub name: Name,
    /// Which connection of it.
    pub index: usize,
    /// What both ends do.
    pub plan: Plan,
    /// This is the client.
    pub client: bool,
    /// The number now.
    pub fd: AtomicI32,
    /// The number before, where other threads still use it; or -1.
    pub old: AtomicI32,
    /// Another number of the same, which is used as well; or -1.
    pub also: AtomicI32,
    /// Where it stands.
    pub progress: &'a Progress,
    /// The standard stream that it may take.
    pub standard: Fd,
    /// This process is a helper, and goes so far.
    pub stop: Option<Stop>,
    /// Somebody else has it.
    pub given: AtomicBool,
    /// Held while the number changes, and while a child is made that goes on with it: the kernel copies
    /// the table of numbers before the memory.
    pub changing: Mutex<()>,
    /// Helpers that are to be waited for.
    pub kids: Mutex<Vec<i32>>,
    /// Signals interrupt calls.
    pub ticks: bool,
}

impl<'a> Work<'a> {
    /// The end of a connection in this process.
    pub fn new(name: Name, index: usize, client: bool, fd: Fd, progress: &'a Progress) -> Self {
        let batch = name.batch();
        Self {
            name,
            index,
            plan: batch.plans[index],
            client,
            fd: AtomicI32::new(fd),
            old: AtomicI32::new(-1),
            also: AtomicI32::new(-1),
            progress,
            standard: Fd::try_from(index).unwrap(),
            stop: None,
            given: AtomicBool::new(false),
            changing: Mutex::default(),
            kids: Mutex::default(),
            ticks: batch.ticks[usize::from(!client)] > 0,
        }
    }
    pub(super) fn own(&self) -> End {
        self.plan.ends[usize::from(!self.client)]
    }
    fn other(&self) -> End {
        self.plan.ends[usize::from(self.client)]
    }
    pub(super) fn tx(&self) -> (u64, u64) {
        let at = usize::from(!self.client);
        (self.plan.seed ^ at as u64, self.plan.total[at])
    }
    pub(super) fn rx(&self) -> (u64, u64) {
        let at = usize::from(self.client);
        (self.plan.seed ^ at as u64, self.plan.total[at])
    }
    pub(super) fn fd(&self) -> Fd {
        self.fd.load(Ordering::Acquire)
    }
    pub(super) fn sent(&self) -> u64 {
        self.progress.sent.load(Ordering::Acquire)
    }
    pub(super) fn got(&self) -> u64 {
        self.progress.got.load(Ordering::Acquire)
    }
    pub(super) fn moved(&self, part: Part) -> u64 {
        let sent = if part == Part::Receives { 0 } else { self.sent() };
        sent + if part == Part::Sends { 0 } else { self.got() }
    }
    /// Whether a helper has done his part.
    pub(super) fn is_over(&self) -> bool {
        self.stop.is_some_and(|stop| self.moved(stop.part) >= stop.at)
    }
    /// Whether two processes may be at work at a time.
    pub(super) fn is_shared(&self) -> bool {
        self.own().stints.iter().any(|stint| stint.errand == Errand::Partner)
    }
    pub(super) fn name(&self) -> String {
        let End { style, cause, .. } = self.own();
        let end = if self.client { "client" } else { "server" };
        format!("{end} {} ({style:?}, {cause:?})", self.index)
    }
    pub(super) fn failed(&self, call: &str, error: Errno) -> ! {
        let by = LAST.get().map_or_else(String::new, |kind| format!(" ({kind:?})"));
        let (sent, got) = (self.sent(), self.got());
        panic!("{}: {call}{by} after {sent} sent, {got} got: {error}", self.name())
    }

    /// Leaves shared memory if it is time, or gives up; `by_got`: called after a receive.
    fn leave_if_due(&self, by_got: bool) {
        let own = self.own();
        let count = if by_got { self.got() } else { self.sent() };
        let due = own.cause != Cause::None && own.by_got == by_got && count >= own.at;
        if !due || own.cause.execs() || self.progress.left.swap(1, Ordering::AcqRel) != 0 {
            return;
        }
        if own.cause == Cause::Abandon {
            return self.abandon();
        }
        let mut next = [0; 3000];
        let mut len = 0;
        if own.cause.is_half() {
            let (seed, total) = self.tx();
            len = next.len().min(usize::try_from(total - self.sent()).unwrap());
            pattern::fill(seed, self.sent(), &mut next[..len]);
        }
        state::own().did(Kind::Demoted);
        let _changing = self.changing.lock().unwrap();
        let shared = own.style.has_threads();
        let Left { fd, sent } =
            trigger::leave(own.cause, self.fd(), shared, &next[..len], self.standard);
        let old = self.fd.swap(fd, Ordering::AcqRel);
        if shared && old != fd {
            self.old.store(old, Ordering::Release);
        }
        self.progress.sent.fetch_add(sent as u64, Ordering::AcqRel);
    }

    /// Before a step: becomes another image if it is time, or lets somebody else take part.
    fn change_hands(&self, by_got: bool) {
        let own = self.own();
        let count = if by_got { self.got() } else { self.sent() };
        let due = own.cause.execs() && own.by_got == by_got && count >= own.at;
        // An heir may have done the rest without another step in this direction.
        if due && !self.is_gone() && self.progress.left.swap(1, Ordering::AcqRel) == 0 {
            self.replace();
        }
        self.send_on_errands(by_got);
    }

    /// The number for one call.
    fn number(&self, way: u64, receives: bool) -> ForNow {
        let also = self.also.load(Ordering::Acquire);
        match (way >> 20) % 8 {
            0 if also >= 0 => {
                let spot = numbers::spot(self.index, receives);
                ForNow::new(numbers::another(way >> 24, self.fd(), spot))
            }
            1..4 if also >= 0 => ForNow::lent(also),
            _ => ForNow::lent(self.fd()),
        }
    }

    fn means(&self, flags: i32, more: bool) -> Means {
        let own = self.own();
        let patient = !own.style.waits() && own.timeout == 0 && !self.ticks;
        Means { flags, patient, splices: self.other().cause != Cause::Urgent, more }
    }

    /// One send; true: all is sent.
    pub(super) fn send_some(&self, flags: i32) -> Result<bool, Errno> {
        let (seed, total) = self.tx();
        self.change_hands(false);
        let _turn = self.progress.turn(false);
        if self.is_gone() {
            return Ok(true);
        }
        self.leave_if_due(false);
        let left = total - self.sent();
        if left == 0 || self.is_gone() {
            return Ok(true);
        }
        let len = self.own().send.min(usize::try_from(left).unwrap());
        let mut data = vec![0; len];
        pattern::fill(seed, self.sent(), &mut data);
        let way = mix(seed ^ self.sent());
        let fd = self.number(way, false);
        let look = Look::before(way, fd.fd, false);
        let (kind, sent) = send_by(way, fd.fd, &mut data, self.means(flags, len as u64 != left));
        LAST.set(Some(kind));
        let n = match sent {
            Err(error) if self.has_lost_peer(error) => return Ok(true),
            other => other?,
        };
        look.after(fd.fd, kind);
        let sent = self.progress.sent.fetch_add(n as u64, Ordering::AcqRel) + n as u64;
        self.leave_if_due(false);
        Ok(sent == total)
    }

    /// One receive; true: all is here.
    pub(super) fn recv_some(&self, flags: i32) -> Result<bool, Errno> {
        let (seed, total) = self.rx();
        let own = self.own();
        self.change_hands(true);
        let _turn = self.progress.turn(true);
        if self.is_gone() {
            return Ok(true);
        }
        self.leave_if_due(true);
        let left = total - self.got();
        if left == 0 || self.is_gone() {
            return Ok(true);
        }
        let way = mix(seed ^ self.got());
        if own.pause > 0 && way % 8 < 2 {
            std::thread::sleep(Duration::from_micros(own.pause));
        }
        let mut data = vec![0; own.recv.min(usize::try_from(left).unwrap())];
        let fd = self.number(way, true);
        let look = Look::before(way, fd.fd, true);
        let (kind, taken) = recv_by(way, fd.fd, &mut data, self.means(flags, false));
        LAST.set(Some(kind));
        let taken = match taken {
            Err(error) if self.has_lost_peer(error) => return Ok(true),
            other => other?,
        };
        let n = match taken {
            Taken::Bytes(0) | Taken::Dropped(0) if self.has_lost_peer(Errno(0)) => return Ok(true),
            Taken::Dropped(n) => n,
            Taken::Bytes(n) => {
                if let Some(fault) = pattern::fault(seed, self.got(), &data[..n]) {
                    panic!("{}: {kind:?}: {fault}", self.name());
                }
                n
            }
        };
        assert!(n > 0, "{}: {kind:?}: the stream ends at {} of {total}", self.name(), self.got());
        look.after(fd.fd, kind);
        let got = self.progress.got.fetch_add(n as u64, Ordering::AcqRel) + n as u64;
        assert!(got <= total, "{}: {kind:?}: {got} bytes of {total}", self.name());
        self.leave_if_due(true);
        Ok(got == total)
    }

    pub(super) fn all_sent(&self) {
        if self.own().shuts && !self.is_gone() {
            match shutdown(self.fd(), libc::SHUT_WR) {
                // The peer has everything and has closed.
                Ok(_) | Err(Errno(libc::ENOTCONN)) => {}
                Err(error) => panic!("{}: shutdown: {error}", self.name()),
            }
        }
    }

    /// Options and numbers of the connection.
    pub fn prepare(&self) {
        let (fd, own) = (self.fd(), self.own());
        net::set_option(fd, libc::SOL_SOCKET, libc::SO_OOBINLINE, 1_i32).unwrap();
        if own.timeout > 0 {
            net::set_timeout(fd, libc::SO_RCVTIMEO, own.timeout).unwrap();
            net::set_timeout(fd, libc::SO_SNDTIMEO, own.timeout).unwrap();
        }
        if own.dups && self.also.load(Ordering::Acquire) < 0 {
            // Not onto the spot, which is for single calls.
            let way = if self.plan.seed & 2 == 0 { 0 } else { 3 };
            self.also.store(numbers::another(way, fd, -1), Ordering::Release);
        }
    }

    /// Runs the end from where it stands to the end of both directions, and closes it; a helper: as
    /// far as he was told.
    pub fn run(&self) {
        self.prepare();
        match (self.stop, self.own().style) {
            (Some(Stop { part: Part::Sends, .. }), _) => self.go_on("send", || self.send_some(0)),
            (Some(Stop { part: Part::Receives, .. }), _) => {
                self.go_on("recv", || self.recv_some(0));
            }
            (_, Style::Threads) => self.run_threads(1),
            (_, Style::Shared) => self.run_threads(SHARERS),
            (_, Style::InTurn) => self.run_in_turn(),
            (_, style) => serve_all(&[self], style),
        }
        if self.stop.is_some() {
            self.reap();
        } else {
            self.finish();
        }
    }

    /// Blocking calls until all is through, or as far as told.
    fn go_on(&self, call: &str, mut step: impl FnMut() -> Result<bool, Errno>) {
        while !self.is_over() {
            match step() {
                Ok(true) => return,
                Ok(false) => {}
                Err(Errno(libc::EAGAIN)) if self.own().timeout > 0 => {
                    state::own().did(Kind::TimedOut);
                }
                Err(Errno(libc::EINTR)) if self.ticks => state::own().did(Kind::Interrupted),
                Err(error) => self.failed(call, error),
            }
        }
    }

    fn run_in_turn(&self) {
        set_nonblocking(self.fd(), false);
        let both = [true, false].map(|first| self.client == first);
        for sends in both {
            if sends {
                self.go_on("send", || self.send_some(0));
                if !self.is_over() {
                    self.all_sent();
                }
            } else {
                self.go_on("recv", || self.recv_some(0));
            }
        }
    }

    fn run_threads(&self, each: usize) {
        set_nonblocking(self.fd(), false);
        if each > 1 {
            state::own().did(Kind::SharedByThreads);
        }
        let senders = AtomicUsize::new(each);
        let send = || {
            self.go_on("send", || self.send_some(0));
            if senders.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.all_sent();
            }
        };
        let receive = || self.go_on("recv", || self.recv_some(0));
        let both: [&(dyn Fn() + Sync); 2] = [&send, &receive];
        threads::all(&both.repeat(each));
    }
}
