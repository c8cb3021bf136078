//! Who is told of news, and how nobody sleeps through them.
//!
//! Two sorts of sleepers. An epoll instance watches many connections: its slot's bit stands in
//! [`Line::want_ready`] of each, and the other side collects the connections with news in the
//! slot's ready bitmap. A thread that waits for a few connections sets its slot's bit in
//! [`Line::want_bell`] of those and looks at their rings itself. Both arm the slot before they
//! sleep; whoever has news for an armed slot disarms it and rings the bell.
//!
//! ```text
//! announcer                      epoll sleeper              single sleeper
//! publish                        want_ready |= slot, once   want_bell |= slot
//! fence A                        fence, look at the ring    armed = 1
//! read want_ready, want_bell     ...                        fence S
//! ready |= conn                  armed = 1                  look at the ring
//! fence B                        fence S                    sleep
//! read armed, swap it, ring      look at ready, sleep
//! ```
//!
//! Of two fences one comes first, and what stands before it is seen behind the other. *A and the
//! single sleeper's S*: either the announcer sees both the wish and the armed slot, or the sleeper
//! sees the news. *B and S*: either the announcer sees the armed slot, or the sleeper sees the bit.
//! *A and the fence in [`take_ready`]*: an announcer that leaves the bit alone, because it is set,
//! has published before its taker looks at the ring.
//!
//! Who collects the bitmap tells of connections in the order in which they became ready, as the
//! kernel does. So an announcer notes the time in [`Line::since`] of its line before it sets a bit.
//!
//! The words belong to the peer or are writable by it: a hostile one can lose its own news or cost
//! a bell in vain. Loops are bounded by the number of slots and connections.
use crate::shm::layout::{Line, WaitSlot, CONNS, WAIT_SLOTS};
use crate::sync::{fence_after_rmw, full_fence, AtomicU64, Ordering};

/// Tells the other side that connection `conn` has news.
///
/// The caller has just published them. `peer` is the other side's line of that connection, `slots`
/// are the other side's [`WAIT_SLOTS`], `note_time` stores [`Line::since`] and `ring_bell` wakes the
/// owner of a slot.
#[inline(always)]
pub fn announce(
    conn: usize,
    peer: &Line,
    slots: &[WaitSlot],
    note_time: impl Fn(),
    ring_bell: impl FnMut(usize),
) {
    // Fence A.
    full_fence();
    // Relaxed: ordered by the fence.
    let ready = peer.want_ready.load(Ordering::Relaxed);
    let bell = peer.want_bell.load(Ordering::Relaxed);
    let all = ready | bell;
    if all != 0 && !knows(conn, ready, all, slots) {
        tell(conn, (ready, bell), slots, note_time, ring_bell);
    }
}

/// Notes for all who collect ready bits that connection `conn` has news which wake them by another way,
/// so that they are told of in their turn.
#[cold]
pub fn note(conn: usize, peer: &Line, slots: &[WaitSlot], note_time: impl Fn()) {
    let conn = conn & (CONNS - 1);
    // Relaxed: who comes to want it looks for itself.
    for index in bits(peer.want_ready.load(Ordering::Relaxed)) {
        if let Some(slot) = slots.get(index) {
            set_ready(slot, conn, &note_time);
        }
    }
}

/// Sets a connection's bit; true: it was not set.
#[inline(always)]
fn set_ready(slot: &WaitSlot, conn: usize, note_time: &impl Fn()) -> bool {
    let (word, bit) = (&slot.ready[conn >> 6], 1_u64 << (conn & 63));
    // Relaxed: see "A and the fence in take_ready".
    let sets = word.load(Ordering::Relaxed) & bit == 0;
    if sets {
        note_time();
        // Release: pairs with the Acquire in take_ready.
        word.fetch_or(bit, Ordering::Release);
    }
    sets
}

/// Whether there is but one sleeper, it is awake, and the bit that it wants is set: as [`tell`] finds
/// it, with the same loads in the same order.
#[inline(always)]
fn knows(conn: usize, ready: u64, all: u64, slots: &[WaitSlot]) -> bool {
    let conn = conn & (CONNS - 1);
    let Some(slot) = slots.get(all.trailing_zeros() as usize) else { return false };
    // Relaxed: see "A and the fence in take_ready"; and ordered by fence A.
    all & (all - 1) == 0
        && (ready == 0 || slot.ready[conn >> 6].load(Ordering::Relaxed) >> (conn & 63) & 1 != 0)
        && slot.armed.load(Ordering::Relaxed) == 0
}

/// Whether a sleeper of this side waits for this connection at a slot of which `is` says yes.
#[cold]
pub fn is_awaited(own: &Line, slots: &[WaitSlot], mut is: impl FnMut(usize) -> bool) -> bool {
    // Relaxed: the caller holds the lock under which the sleeper has looked last.
    let wants = own.want_ready.load(Ordering::Relaxed) | own.want_bell.load(Ordering::Relaxed);
    let armed = |slot: &WaitSlot| slot.armed.load(Ordering::Relaxed) != 0;
    bits(wants).any(|index| slots.get(index).is_some_and(armed) && is(index))
}

/// Tells sleepers of this side that connection `conn` has news that the other side will not tell:
/// those that are asleep, and nobody else. `own` is this side's line, `slots` are this side's.
/// The bell of a slot that is not `is_mine` cannot be rung: its sleeper stays as it is.
#[cold]
pub fn announce_own(
    conn: usize,
    own: &Line,
    slots: &[WaitSlot],
    is_mine: impl Fn(usize) -> bool,
    mut ring_bell: impl FnMut(usize),
) {
    full_fence();
    // Relaxed: ordered by the fence, which pairs with fence S.
    let ready = own.want_ready.load(Ordering::Relaxed);
    let bell = own.want_bell.load(Ordering::Relaxed);
    let conn = conn & (CONNS - 1);
    for index in bits(ready | bell) {
        let Some(slot) = slots.get(index).filter(|_| is_mine(index)) else { continue };
        if disarms(slot) {
            // Release: pairs with the Acquire in take_ready. The bell comes after it.
            slot.ready[conn >> 6].fetch_or(1 << (conn & 63), Ordering::Release);
            ring_bell(index);
        }
    }
}

/// Calls the owners of all slots of the other side, for whatever they wait: something that belongs to
/// no connection of theirs was published just now.
#[cold]
pub fn call_all(slots: &[WaitSlot], mut ring_bell: impl FnMut(usize)) {
    for slot in slots {
        // Release: pairs with the Acquire in `was_called`.
        slot.called.store(1, Ordering::Release);
    }
    // Pairs with fence S: either a sleeper is seen, or it sees that it is called.
    full_fence();
    for (index, slot) in slots.iter().enumerate() {
        if disarms(slot) {
            ring_bell(index);
        }
    }
}

/// Whether the owner of a slot has been called since it last asked; it asks after [`arm`].
#[inline]
pub fn was_called(slot: &WaitSlot) -> bool {
    // Acquire: pairs with the Release in `call_all`.
    slot.called.load(Ordering::Relaxed) != 0 && slot.called.swap(0, Ordering::AcqRel) != 0
}

/// Whether a sleeper wanted its bell, which the caller then rings.
#[inline(always)]
fn disarms(slot: &WaitSlot) -> bool {
    // Relaxed: ordered by the announcer's last fence. Of several announcers the swap lets one ring.
    slot.armed.load(Ordering::Relaxed) != 0 && slot.armed.swap(0, Ordering::AcqRel) != 0
}

#[inline(never)]
fn tell(
    conn: usize,
    (ready, bell): (u64, u64),
    slots: &[WaitSlot],
    note_time: impl Fn(),
    mut ring_bell: impl FnMut(usize),
) {
    let conn = conn & (CONNS - 1);
    for index in bits(ready | bell) {
        let Some(slot) = slots.get(index) else { break };
        if ready >> index & 1 != 0 && set_ready(slot, conn, &note_time) {
            // Fence B.
            fence_after_rmw();
        }
        if disarms(slot) {
            ring_bell(index);
        }
    }
}

/// Sets the bit of `slot` in [`Line::want_ready`] or [`Line::want_bell`] of the own line.
///
/// What was published before is not announced: the caller looks at the connection afterwards.
#[inline]
pub fn want(word: &AtomicU64, slot: usize) {
    // Relaxed: the fence pairs with fence A.
    word.fetch_or(1 << (slot & (WAIT_SLOTS - 1)), Ordering::Relaxed);
    fence_after_rmw();
}

/// Takes [`want`] back.
#[inline]
pub fn unwant(word: &AtomicU64, slot: usize) {
    // Relaxed: a bell or a ready bit too many does no harm.
    word.fetch_and(!(1 << (slot & (WAIT_SLOTS - 1))), Ordering::Relaxed);
}

/// Asks for the bell. The caller then looks at all that it waits for, and only then sleeps.
///
/// All writes to the word read it as well: so they have an order on which every thread (and loom,
/// which knows no other) agrees. On x86-64 that costs no more than the fence alone.
#[inline]
pub fn arm(slot: &WaitSlot) {
    // Relaxed: ordered by the fence.
    slot.armed.swap(1, Ordering::Relaxed);
    // Fence S.
    fence_after_rmw();
}

/// No longer asks for it; it may have been rung all the same.
#[inline]
pub fn disarm(slot: &WaitSlot) {
    // Relaxed: a bell that still rings is one in vain.
    if slot.armed.load(Ordering::Relaxed) != 0 {
        slot.armed.swap(0, Ordering::Relaxed);
    }
}

/// Whether a connection has news for this slot.
#[inline]
pub fn any_ready(slot: &WaitSlot) -> bool {
    slot.ready.iter().any(|word| word.load(Ordering::Relaxed) != 0)
}

/// Takes the connections that have news for this slot. `with` must look at the connection itself,
/// whatever it is told: the bitmap is the peer's to write.
#[inline(always)]
pub fn take_ready(slot: &WaitSlot, mut with: impl FnMut(usize)) {
    for (index, word) in slot.ready.iter().enumerate() {
        if word.load(Ordering::Relaxed) == 0 {
            continue;
        }
        // Acquire: pairs with the Release in tell.
        let taken = word.swap(0, Ordering::Acquire);
        // Pairs with fence A: an announcer that still saw the bit has published before we look.
        fence_after_rmw();
        bits(taken).for_each(|bit| with(index * 64 + bit));
    }
}

/// The numbers of the bits that are set.
#[inline(always)]
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = word.trailing_zeros() as usize;
        word &= word.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}
