//! `poll` and `select`: both lower to [`poll`].
use super::held::Held;
use crate::arena::{flag, phase, MODE_TCP};
use crate::conn::switch::Inside;
use crate::conn::owed::pay_if_called;
use crate::conn::spin::Spin;
use crate::conn::wait::{to_timespec, Deadline};
use crate::sys::thread::{keep_errno, last_errno, outside_unless_interrupted};
use crate::conn::Ctx;
use crate::errno::{Errno, Ret};
use crate::fdtable;
use crate::process::Process;
use crate::ring::doorbell;
use crate::sync::Ordering;
use crate::sys::iov::{fetch, store};
use crate::sys::{clock, raw};
use crate::transport::loopback::{Group, Queue};
use libc::{c_int, fd_set, pollfd, sigset_t, timespec};

static SPIN: Spin = Spin::new();

/// Longest sleep where news may come without a bell.
const SHORT_NS: u64 = 10_000_000;
/// Descriptors that need no memory from the heap.
const FEW: usize = 32;

/// A list that is on the stack while it is short.
pub(crate) struct Fds {
    few: [pollfd; FEW],
    many: Vec<pollfd>,
    len: usize,
}

impl Fds {
    pub(crate) fn new() -> Self {
        Self { few: [pollfd { fd: -1, events: 0, revents: 0 }; FEW], many: Vec::new(), len: 0 }
    }
    pub(crate) fn push(&mut self, fd: c_int, events: i16) {
        let entry = pollfd { fd, events, revents: 0 };
        if self.many.is_empty() && self.len < FEW {
            self.few[self.len] = entry;
        } else {
            if self.many.is_empty() {
                self.many.extend_from_slice(&self.few[..self.len]);
            }
            self.many.push(entry);
        }
        self.len += 1;
    }
    pub(crate) fn get(&mut self) -> &mut [pollfd] {
        if self.many.is_empty() {
            &mut self.few[..self.len]
        } else {
            &mut self.many
        }
    }
}

/// Whether a descriptor's readiness is ours to tell.
fn shared<'p>(process: &'p Process, fd: c_int) -> Option<Ctx<'p>> {
    Ctx::of(process, fd).filter(is_shared)
}

fn is_shared(ctx: &Ctx<'_>) -> bool {
    ctx.conn.rx_mode.load(Ordering::Acquire) != MODE_TCP
}

/// `poll` and `ppoll` on the program's array.
pub(crate) fn poll_user(
    process: &Process,
    user: *mut pollfd,
    count: usize,
    end: Option<Deadline>,
    mask: *const sigset_t,
) -> Ret {
    let mut fds = Fds::new();
    for index in 0..count {
        let entry: pollfd = fetch(user.wrapping_add(index))?;
        fds.push(entry.fd, entry.events);
    }
    let ready = poll(process, fds.get(), (end, mask), false)?;
    for (index, entry) in fds.get().iter().enumerate() {
        store(user.wrapping_add(index), entry)?;
    }
    Ok(ready.cast_signed())
}

/// Waits until a descriptor of the set is ready; fills `revents` and returns how many are. `strict`:
/// a number that is closed at the start is an error, where later it counts as ready.
fn poll(
    process: &Process,
    fds: &mut [pollfd],
    (end, mask): (Option<Deadline>, *const sigset_t),
    strict: bool,
) -> Result<usize, Errno> {
    prepare(process, fds);
    let mut held = Held::new();
    let mut ready = look(process, fds)?;
    if strict && fds.iter().any(|entry| entry.revents & libc::POLLNVAL != 0) {
        return Err(Errno::BADF);
    }
    loop {
        let Some(end) = end.filter(|_| ready == 0) else { return Ok(ready) };
        held.take(process, fds);
        let ours = fds.iter().any(|entry| shared(process, entry.fd).is_some());
        if ours && SPIN.run(process, || any_ring(process, fds)) {
            ready = look(process, fds)?;
            continue;
        }
        let over = sleep(process, fds, end, mask)?;
        ready = look(process, fds)?;
        if over {
            return Ok(ready);
        }
    }
}

/// Notes that the program waits for these sockets where we see it, and takes ACCEPTs out.
fn prepare(process: &Process, fds: &[pollfd]) {
    for entry in fds {
        if let Some(ctx) = Ctx::of(process, entry.fd) {
            ctx.conn.raise(flag::SEEN_WAIT);
            ctx.progress();
        }
    }
}

/// What is ready now.
fn look(process: &Process, fds: &mut [pollfd]) -> Result<usize, Errno> {
    let mut kernel = Fds::new();
    for entry in fds.iter() {
        let own = shared(process, entry.fd).is_some();
        kernel.push(if own || is_internal(entry.fd) { -1 } else { entry.fd }, entry.events);
        process.epolls.settle(process, entry.fd);
    }
    let kernel = kernel.get();
    if kernel.iter().any(|entry| entry.fd >= 0) {
        raw::poll_many(kernel)?;
    }
    let mut ready = 0;
    for (entry, kernel) in fds.iter_mut().zip(kernel) {
        entry.revents = match shared(process, entry.fd) {
            Some(ctx) => {
                let wanted = u32::from(entry.events.cast_unsigned());
                (ctx.ready(wanted) as u16).cast_signed()
            }
            None if is_internal(entry.fd) => libc::POLLNVAL,
            None => without_accept(process, entry.fd, kernel.revents),
        };
        ready += usize::from(entry.revents != 0);
    }
    Ok(ready)
}

fn is_internal(fd: c_int) -> bool {
    fdtable::entry(fd) == fdtable::Entry::internal()
}

/// An ACCEPT that came alone is no news of the program's.
fn without_accept(process: &Process, fd: c_int, revents: i16) -> i16 {
    let readable = libc::POLLIN | libc::POLLRDNORM;
    if revents & readable == 0 {
        return revents;
    }
    match Ctx::of(process, fd) {
        Some(ctx) if ctx.conn.phase() == phase::VIRGIN => {
            ctx.look_for_accept();
            let still = raw::poll_now(fd, libc::POLLIN) & libc::POLLIN != 0;
            if still {
                revents
            } else {
                revents & !readable
            }
        }
        _ => revents,
    }
}

/// Whether any ring has data or room, as far as a glance tells.
fn any_ring(process: &Process, fds: &[pollfd]) -> bool {
    fds.iter().any(|entry| {
        shared(process, entry.fd)
            .is_some_and(|ctx| ctx.ready(u32::from(entry.events.cast_unsigned())) != 0)
    })
}

/// Asks for the bell of each shared connection's group; takes the wishes back when dropped.
struct Wishes<'a> {
    process: &'a Process,
    fds: &'a [pollfd],
    queue: &'a Queue,
}

impl<'a> Wishes<'a> {
    fn new(
        process: &'a Process,
        fds: &'a [pollfd],
        queue: &'a Queue,
        controls: &mut Fds,
    ) -> (Self, bool) {
        let mut all = true;
        for ctx in fds.iter().filter_map(|entry| shared(process, entry.fd)) {
            let Some(group) = ctx.group() else { continue };
            let known = queue.known_slot(group.index()).is_some();
            all &= !ctx.may_miss_bells();
            match queue.slot_in(group) {
                Some(slot) => {
                    doorbell::want(&group.lines(ctx.conn).0.want_bell, slot);
                    if let Some(slot) = group.own_slots().get(slot) {
                        doorbell::arm(slot);
                    }
                }
                None => all = false,
            }
            let control = group.control();
            if !known || !controls.get().iter().any(|entry| entry.fd == control) {
                controls.push(control, libc::POLLIN);
            }
        }
        (Self { process, fds, queue }, all)
    }

    /// Pays what peers are owed that have left a ring; true: something is still owed.
    fn pay(&self) -> bool {
        let shared = self.fds.iter().filter_map(|entry| shared(self.process, entry.fd));
        // All of them, also after the first that cannot.
        shared.filter_map(|ctx| ctx.group()).fold(false, |owing, group| {
            let slot = self.queue.known_slot(group.index());
            let slot = slot.and_then(|slot| group.own_slots().get(slot));
            owing | pay_if_called(self.process, group, slot)
        })
    }
}

impl Drop for Wishes<'_> {
    fn drop(&mut self) {
        for ctx in self.fds.iter().filter_map(|entry| Ctx::of(self.process, entry.fd)) {
            let slot = ctx.group().and_then(|group| self.queue.known_slot(group.index()));
            if let (Some(slot), Some((own, _))) = (slot, ctx.lines()) {
                doorbell::unwant(&own.want_bell, slot);
            }
        }
    }
}

/// Sleeps; true: the time is over.
fn sleep(
    process: &Process,
    fds: &[pollfd],
    end: Deadline,
    mask: *const sigset_t,
) -> Result<bool, Errno> {
    // From here on nobody of this side consents for a socket that only the kernel watches.
    let _inside: Inlist<'_> = enter(process, fds);
    let queue = process.device.queues.borrow()?;
    let mut extra = Fds::new();
    let (wishes, all) = Wishes::new(process, fds, &queue, &mut extra);
    // What is paid may be news for this very call.
    let all = !wishes.pay() && all;
    if any_ring(process, fds) {
        return Ok(false);
    }
    let mut set = Fds::new();
    for entry in fds {
        match shared(process, entry.fd) {
            Some(ctx) => {
                let end = if ctx.conn.has(flag::FIN) { 0 } else { libc::POLLRDHUP };
                let owed = if ctx.is_owing() { libc::POLLOUT } else { 0 };
                set.push(entry.fd, end | owed | (entry.events & (libc::POLLIN | libc::POLLPRI)));
            }
            None if is_internal(entry.fd) => set.push(-1, 0),
            None => set.push(entry.fd, entry.events),
        }
    }
    let own = set.len;
    set.push(queue.bell(), libc::POLLIN);
    for entry in extra.get().iter() {
        set.push(entry.fd, entry.events);
    }
    clock::calibrate();
    process.page().sleeps.fetch_add(1, Ordering::Relaxed);
    let left = end.left();
    let ns = if all { left } else { Some(left.unwrap_or(u64::MAX).min(SHORT_NS)) };
    let span = ns.map(to_timespec);
    let timeout = span.as_ref().map_or(core::ptr::null(), |span| span as *const timespec);
    let set = set.get();
    let got = keep_errno(|| {
        // SAFETY: requires valid arrays and a timeout or null: locals; the mask is the program's,
        // a bad one is EFAULT.
        let got = outside_unless_interrupted(|| unsafe {
            (process.real.ppoll)(set.as_mut_ptr(), set.len() as _, timeout, mask)
        });
        usize::try_from(got.ok_or(Errno::INTR)?).map_err(|_| last_errno())
    });
    drop(wishes);
    for (entry, polled) in fds.iter().zip(&set[..own]) {
        if polled.revents != 0 {
            if let Some(ctx) = shared(process, entry.fd) {
                ctx.conn.raise(flag::TCP_NEWS);
            }
        }
    }
    if set[own].revents != 0 {
        raw::eventfd_clear(queue.bell());
    }
    if set[own + 1..].iter().any(|entry| entry.revents != 0) {
        process.device.groups.iter().for_each(|group: &Group| group.drain(&process.device));
    }
    match got {
        Ok(0) => Ok(left.is_some_and(|left| ns.is_some_and(|ns| ns >= left))),
        Ok(_) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// The counts of [`enter`], given back when dropped.
struct Inlist<'a>(Vec<Inside<'a>>);

/// Counts this thread as waiting in the kernel for each socket that has not consented.
fn enter<'a>(process: &'a Process, fds: &[pollfd]) -> Inlist<'a> {
    let mut list = Vec::new();
    for entry in fds {
        let undecided = Ctx::of(process, entry.fd).filter(|ctx| {
            ctx.conn.rx_mode.load(Ordering::Acquire) == MODE_TCP
                && !matches!(ctx.conn.phase(), phase::PLAIN | phase::LISTENER | phase::FRESH)
        });
        if let Some(ctx) = undecided {
            list.push(Inside::enter(&ctx.conn.inside));
        }
    }
    Inlist(list)
}

impl core::fmt::Debug for Inlist<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Inlist({})", self.0.len())
    }
}

/// Bits of one word of an `fd_set`.
const BITS: usize = 64;

/// The three sets of a `select`, as the program's memory has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sets {
    pub(crate) count: usize,
    pub(crate) read: *mut fd_set,
    pub(crate) write: *mut fd_set,
    pub(crate) except: *mut fd_set,
}

const READ: i16 = libc::POLLIN | libc::POLLRDNORM;
const WRITE: i16 = libc::POLLOUT | libc::POLLWRNORM;

impl Sets {
    fn word(set: *mut fd_set, index: usize) -> Result<u64, Errno> {
        if set.is_null() {
            Ok(0)
        } else {
            fetch(set.cast::<u64>().wrapping_add(index))
        }
    }

    /// Whether any descriptor in the sets is tracked.
    pub(crate) fn any_tracked(&self) -> bool {
        for index in 0..self.count.div_ceil(BITS) {
            let words = [self.read, self.write, self.except].map(|set| Self::word(set, index));
            let mut bits = words.iter().fold(0, |all, word| all | word.unwrap_or(0));
            while bits != 0 {
                let fd = index * BITS + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if fdtable::is_tracked(fd as c_int) {
                    return true;
                }
            }
        }
        false
    }
}

/// `select` and `pselect`.
pub(crate) fn select(
    process: &Process,
    sets: Sets,
    end: Option<Deadline>,
    mask: *const sigset_t,
) -> Ret {
    let mut fds = Fds::new();
    for index in 0..sets.count.div_ceil(BITS) {
        let read = Sets::word(sets.read, index)?;
        let write = Sets::word(sets.write, index)?;
        let except = Sets::word(sets.except, index)?;
        let mut bits = read | write | except;
        while bits != 0 {
            let bit = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let fd = index * BITS + bit;
            if fd >= sets.count {
                break;
            }
            let has = |word: u64| word >> bit & 1 != 0;
            let mut events = 0;
            events |= if has(read) { READ } else { 0 };
            events |= if has(write) { WRITE } else { 0 };
            events |= if has(except) { libc::POLLPRI } else { 0 };
            fds.push(fd as c_int, events);
        }
    }
    poll(process, fds.get(), (end, mask), true)?;
    // As fs/select.c maps them; a number that was closed meanwhile is ready for everything.
    let readable = READ | libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
    let writable = WRITE | libc::POLLERR | libc::POLLNVAL;
    let exceptional = libc::POLLPRI | libc::POLLNVAL;
    let mut total = 0;
    for index in 0..sets.count.div_ceil(BITS) {
        let mut words = [0_u64; 3];
        for entry in fds.get().iter().filter(|entry| entry.fd as usize / BITS == index) {
            let bit = 1_u64 << (entry.fd as usize % BITS);
            let hits = [
                (entry.events & READ, entry.revents & readable),
                (entry.events & WRITE, entry.revents & writable),
                (entry.events & libc::POLLPRI, entry.revents & exceptional),
            ];
            for (word, (wanted, got)) in words.iter_mut().zip(hits) {
                if wanted != 0 && got != 0 {
                    *word |= bit;
                    total += 1;
                }
            }
        }
        for (set, word) in [sets.read, sets.write, sets.except].into_iter().zip(words) {
            if !set.is_null() {
                store(set.cast::<u64>().wrapping_add(index), &word)?;
            }
        }
    }
    Ok(total)
}
