//! The numbers under which this process has a connection, and the calls that outlive them.
//!
//! In the kernel a call holds the socket: who closes the number in another thread takes nothing away
//! from it, and the peer sees the end when the call is over. Here a call that is about to wait, or
//! that waits in more than one step, *pins* the connection. If the number goes meanwhile, a copy of
//! the descriptor stands in for it, and the last call that is over closes both.
//!
//! A signal handler may jump out of a call, which then is never over. A thread that takes a number away
//! is in no other call on it, so what it is noted to hold itself does not count.
use super::{holders, Ctx};
use crate::arena::CONNS;
use crate::errno::Errno;
use crate::fdtable;
use crate::sync::{AtomicU32, Ordering};
use crate::sys::lock::Guard;
use crate::sys::thread::Critical;
use crate::sys::{raw, tcp, thread};
use libc::c_int;

/// One word for each record: the numbers in the lower half, the calls in the upper. Private memory,
/// so a fork's child has its own.
static USES: [AtomicU32; CONNS] = [const { AtomicU32::new(0) }; CONNS];
/// The descriptor that stands in for a number that has gone, or 0.
static STAND_INS: [AtomicU32; CONNS] = [const { AtomicU32::new(0) }; CONNS];
/// How many there are.
static LOST: AtomicU32 = AtomicU32::new(0);

const CALL: u32 = 1 << 16;

const fn numbers(word: u32) -> u32 {
    word & (CALL - 1)
}

const fn calls(word: u32) -> u32 {
    word >> 16
}

/// A record is new: it has one number.
pub(crate) fn is_new(index: u32) {
    USES[index as usize].store(1, Ordering::Relaxed);
    STAND_INS[index as usize].store(0, Ordering::Relaxed);
}

/// It has one number more.
pub(crate) fn one_more(index: u32) {
    USES[index as usize].fetch_add(1, Ordering::AcqRel);
}

/// What is left of a connection in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Other numbers.
    Numbers,
    /// Calls that are not over: the last of them ends the connection.
    Calls,
    /// Nothing.
    Nothing,
}

/// The child of a fork has the numbers, but not the threads that were inside a call.
pub(crate) fn after_fork() {
    for (_, entry) in fdtable::all() {
        if let Some(index) = entry.as_socket() {
            let word = &USES[index as usize];
            word.store(numbers(word.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
    }
    if any_lost() {
        STAND_INS.iter().for_each(close_stand_in);
    }
}

/// Whether any connection has lost a number under a call.
fn any_lost() -> bool {
    LOST.load(Ordering::Acquire) != 0
}

/// Takes what stands in for a number out; 0: nothing does.
fn take_stand_in(slot: &AtomicU32) -> c_int {
    // AcqRel: of two threads one gets it.
    let fd = slot.swap(0, Ordering::AcqRel);
    if fd != 0 {
        LOST.fetch_sub(1, Ordering::AcqRel);
        fdtable::take(fd.cast_signed());
    }
    fd.cast_signed()
}

fn close_stand_in(slot: &AtomicU32) {
    match take_stand_in(slot) {
        0 => {}
        fd => raw::close(fd),
    }
}

impl<'a> Ctx<'a> {
    /// The descriptor to ask the kernel by: the program's number, or what stands in for it.
    #[inline]
    pub(crate) fn fd(&self) -> c_int {
        if fdtable::entry(self.fd).as_socket() == Some(self.index) {
            return self.fd;
        }
        match STAND_INS[self.index as usize].load(Ordering::Acquire) {
            0 => self.other_number(),
            fd => fd.cast_signed(),
        }
    }

    /// Where the number has been closed, as one of several: it may be another connection's by now. An
    /// epoll instance goes on with such a one, as the kernel does.
    #[cold]
    fn other_number(&self) -> c_int {
        if fdtable::entry(self.fd) == fdtable::Entry::internal() {
            // Ours, for this connection.
            return self.fd;
        }
        holders::descriptor(self.index, self.conn).unwrap_or(self.fd)
    }

    /// Whether the number that the call was made with has been taken away.
    pub(crate) fn has_lost_its_number(&self) -> bool {
        STAND_INS[self.index as usize].load(Ordering::Acquire) != 0
            && fdtable::entry(self.fd).as_socket() != Some(self.index)
    }

    /// Its number, which is still open, goes.
    pub(crate) fn loses_a_number(&self) -> Left {
        let (word, stand_in) = (&USES[self.index as usize], &STAND_INS[self.index as usize]);
        for _ in 0..thread::forget_holds(self.index) {
            less_one_call(word);
        }
        loop {
            let now = word.load(Ordering::Acquire);
            if calls(now) > 0 && stand_in.load(Ordering::Acquire) == 0 {
                // Without one the calls end with the number: there are no descriptors left.
                if let Some(copy) = fdtable::copy(self.fd) {
                    LOST.fetch_add(1, Ordering::AcqRel);
                    stand_in.store(copy.cast_unsigned(), Ordering::Release);
                }
            }
            let next = now.saturating_sub(1);
            // AcqRel: of several threads one is the last.
            let swapped =
                word.compare_exchange(now, next, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if !swapped {
                continue;
            }
            if calls(next) == 0 {
                close_stand_in(stand_in);
            }
            return match (numbers(next), calls(next)) {
                (1.., _) => Left::Numbers,
                (0, 1..) if stand_in.load(Ordering::Acquire) != 0 => Left::Calls,
                _ => Left::Nothing,
            };
        }
    }

    /// The same under a number of our own: for who has found it in the table of numbers, where other
    /// threads take numbers out and put them to other use. `None`: it has just been closed.
    pub(crate) fn steady(&self) -> Option<Steady<'a>> {
        if self.process.device.is_borrowed() {
            // A child in its parent's memory has numbers of its own, and no other threads.
            return Some(Steady { ctx: *self, own: None });
        }
        let critical = Critical::enter();
        let alone = self.process.steady.lock();
        let cookie = self.conn.cookie.load(Ordering::Relaxed);
        let copy = |fd: c_int| {
            let copy = fdtable::copy(fd)?;
            if cookie == 0 || tcp::cookie(copy) == Ok(cookie) {
                return Some(copy);
            }
            fdtable::drop_internal(copy);
            None
        };
        let other = || holders::descriptor(self.index, self.conn).and_then(copy);
        let fd = copy(self.fd()).or_else(other)?;
        Some(Steady { ctx: Ctx { fd, ..*self }, own: Some((alone, critical)) })
    }

    /// Holds the connection until the call is over.
    pub(crate) fn pin(&self) -> Result<Pin<'a>, Errno> {
        let word = &USES[self.index as usize];
        if !thread::hold(self.index) {
            return Ok(Pin(None));
        }
        // AcqRel: pairs with that of `loses_a_number`.
        let pinned = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |now| {
            (numbers(now) > 0 && calls(now) < CALL / 2).then_some(now + CALL)
        });
        if pinned.is_err() {
            thread::let_go(self.index);
            return Err(Errno::BADF);
        }
        Ok(Pin(Some(*self)))
    }
}

/// A connection under a number of our own, which is closed when it is dropped.
#[derive(Debug)]
pub(crate) struct Steady<'a> {
    ctx: Ctx<'a>,
    /// The number is to be closed. A fork waits for that: its child would keep a copy.
    own: Option<(Guard<'a, ()>, Critical)>,
}

impl<'a> core::ops::Deref for Steady<'a> {
    type Target = Ctx<'a>;
    fn deref(&self) -> &Ctx<'a> {
        &self.ctx
    }
}

impl Drop for Steady<'_> {
    fn drop(&mut self) {
        if self.own.is_some() {
            fdtable::drop_internal(self.ctx.fd);
        }
    }
}

/// One call less; what the word was, unless it knew of none.
fn less_one_call(word: &AtomicU32) -> Option<u32> {
    let less = |now| (calls(now) > 0).then(|| now - CALL);
    word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).ok()
}

/// A call that holds its connection, if that could be noted.
#[derive(Debug)]
pub(crate) struct Pin<'a>(Option<Ctx<'a>>);

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let Some(ctx) = self.0 else { return };
        if !thread::let_go(ctx.index) {
            return;
        }
        // A handler of the interrupted call may have forked: its child knows of no calls.
        let Some(before) = less_one_call(&USES[ctx.index as usize]) else { return };
        if calls(before) == 1 && STAND_INS[ctx.index as usize].load(Ordering::Acquire) != 0 {
            last_call(ctx, numbers(before) == 0);
        }
    }
}

/// Closes what stood in for a number; `over`: and the connection with it.
#[cold]
fn last_call(ctx: Ctx<'_>, over: bool) {
    let fd = take_stand_in(&STAND_INS[ctx.index as usize]);
    if fd == 0 {
        return;
    }
    let ctx = Ctx { fd, ..ctx };
    if over && ctx.gives_up() {
        ctx.last_close();
    }
    raw::close(fd);
}
