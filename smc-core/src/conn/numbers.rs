//! The numbers under which this process has a connection, and the calls that outlive them.
//!
//! In the kernel a call holds the socket: who closes the number in another thread takes nothing away
//! from it, and the peer sees the end when the call is over. Here a call that does more than one step
//! under one lock *pins* the connection. If the number goes meanwhile, a copy of the descriptor stands
//! in for it, and the last call that is over closes both. A call of one step asks under the lock
//! whether the number is still the connection's.
//!
//! A signal handler may jump out of a call, which then is never over. A thread that takes a number away
//! is in no other call on it, so what it is noted to hold itself does not count.
use super::{holders, Ctx};
use crate::arena::CONNS;
use crate::errno::Errno;
use crate::fdtable;
use crate::sync::{AtomicU32, Left, Ordering, Uses};
use crate::sys::lock::Guard;
use crate::sys::thread::Critical;
use crate::sys::{tcp, thread};
use libc::c_int;

/// Private memory, so a fork's child has its own.
static USES: [Uses; CONNS] = [const { Uses::none() }; CONNS];
/// How many descriptors stand in for numbers.
static LOST: AtomicU32 = AtomicU32::new(0);

/// A record is new: it has one number.
pub(crate) fn is_new(index: u32) {
    USES[index as usize].is_new();
}

/// It has one number more.
pub(crate) fn one_more(index: u32) {
    USES[index as usize].one_more();
}

/// The child of a fork has the numbers, but not the threads that were inside a call.
pub(crate) fn after_fork() {
    let forget_calls = |uses: &Uses| close_if_any(uses.after_fork());
    if any_lost() {
        USES.iter().for_each(forget_calls);
        return;
    }
    for (_, entry) in fdtable::all() {
        if let Some(index) = entry.as_socket() {
            forget_calls(&USES[index as usize]);
        }
    }
}

/// Whether any connection has lost a number under a call.
fn any_lost() -> bool {
    LOST.load(Ordering::Acquire) != 0
}

/// Closes what stood in for a number; 0: nothing did.
fn close_if_any(stand_in: u64) {
    if stand_in != 0 {
        LOST.fetch_sub(1, Ordering::AcqRel);
        fdtable::drop_internal(stand_in as c_int);
    }
}

impl<'a> Ctx<'a> {
    /// The descriptor to ask the kernel by: the program's number, or what stands in for it.
    #[inline]
    pub(crate) fn fd(&self) -> c_int {
        if self.has_its_number() {
            return self.fd;
        }
        match self.uses().left().stand_in {
            0 => self.other_number(),
            fd => fd as c_int,
        }
    }

    fn uses(&self) -> &'static Uses {
        &USES[self.index as usize]
    }

    /// Where the number has been closed, as one of several: it may be another connection's by now. An
    /// epoll instance goes on with such a one, as the kernel does.
    #[cold]
    fn other_number(&self) -> c_int {
        if self.is_of_our_own() {
            return self.fd;
        }
        holders::descriptor(self.index, self.conn).unwrap_or(self.fd)
    }

    /// Whether the number that the call was made with has been taken away.
    pub(crate) fn has_lost_its_number(&self) -> bool {
        self.uses().left().stand_in != 0 && !self.has_its_number()
    }

    /// Its number, which is still open, goes; its entry in the table has been taken out.
    pub(crate) fn loses_a_number(&self) -> Left {
        for _ in 0..thread::forget_holds(self.index) {
            self.uses().let_go().into_iter().for_each(|left| close_if_any(left.stand_in));
        }
        let (left, in_vain) = self.uses().one_less(|| {
            let copy = fdtable::copy(self.fd).map_or(0, i32::cast_unsigned);
            if copy != 0 {
                LOST.fetch_add(1, Ordering::AcqRel);
            }
            copy
        });
        close_if_any(in_vain.map_or(0, u64::from));
        left
    }

    /// Whether the number that the call was made with is still this connection's, or the call holds
    /// it. Otherwise another thread has closed the number, and the record may be another connection's
    /// by now. To be asked under one of the record's locks, which `last_close` takes as well before it
    /// gives the record back, or by one that holds it.
    #[inline(always)]
    pub(crate) fn is_current(&self) -> bool {
        self.has_its_number() || self.is_held()
    }

    /// Whether the number that the call was made with is still this connection's.
    #[inline(always)]
    pub(crate) fn has_its_number(&self) -> bool {
        fdtable::entry(self.fd) == fdtable::Entry::socket(self.index)
    }

    #[cold]
    fn is_held(&self) -> bool {
        thread::holds(self.index) && self.uses().left().stand_in != 0
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

    /// Holds the connection until the call is over. EBADF: the number has just been closed.
    pub(crate) fn pin(&self) -> Result<Pin<'a>, Errno> {
        let Some(holds) = thread::hold(self.index) else { return Ok(Pin(None)) };
        if !self.uses().hold() {
            thread::let_go(self.index);
            return Err(Errno::BADF);
        }
        let pin = Pin(Some(*self));
        let held_before = || holds > 1 && self.uses().left().stand_in != 0;
        if self.has_its_number() || held_before() || self.is_of_our_own() {
            return Ok(pin);
        }
        Err(Errno::BADF)
    }

    /// Whether it goes under a number that the program knows nothing of.
    fn is_of_our_own(&self) -> bool {
        fdtable::entry(self.fd) == fdtable::Entry::internal()
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

/// A call that holds its connection, if that could be noted.
#[derive(Debug)]
pub(crate) struct Pin<'a>(Option<Ctx<'a>>);

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let Some(ctx) = self.0 else { return };
        if !thread::let_go(ctx.index) {
            return;
        }
        match ctx.uses().let_go() {
            None | Some(Left { stand_in: 0, .. }) => {}
            Some(left) => ends(ctx, left),
        }
    }
}

/// The last call is over: closes what stood in for a number, and the connection if no other is left.
#[cold]
fn ends(ctx: Ctx<'_>, left: Left) {
    let ctx = Ctx { fd: left.stand_in as c_int, ..ctx };
    if left.numbers == 0 && ctx.gives_up() {
        ctx.last_close();
    }
    close_if_any(left.stand_in);
}
