//! A deterministic double of a transport: as unhelpful as the contract allows.
//!
//! A [`Script`] decides when published bytes and freed room are seen, whether `put` takes less than
//! it could, when bells ring, and at which step what fails. Time passes by one step at each call;
//! the same script and the same calls give the same run. One thread, two ends, sides 0 and 1.
mod state;

use super::{Copied, Link, Peer, Receiver, Sender};
use crate::arena::{Rx, Tx};
use crate::ring::{Piece, RingError, RxHalf, TxHalf, Violation};
use crate::sys::copy::{Fault, InBuf, OutBuf};
use crate::sys::iov::{fetch, store};
use core::cell::{RefCell, RefMut};
use state::State;

pub(crate) use state::{Failure, Script};

/// The state that the halves of a transport are made from. The double keeps its own.
pub(crate) fn halves() -> (Tx, Rx) {
    let tx = Tx { switch: Default::default(), half: TxHalf::at(0), looked: 0, recalled: 0, again: None };
    let rx = Rx { switch: Default::default(), half: RxHalf::at(0), looked: 0, error: 0 };
    (tx, rx)
}

/// The double: both ends.
#[derive(Debug)]
pub(crate) struct Mock(RefCell<State>);

impl Mock {
    pub(crate) fn new(script: Script) -> Self {
        Self(RefCell::new(State::new(script)))
    }

    /// The end of a side.
    pub(crate) fn link(&self, side: usize) -> MockLink<'_> {
        MockLink { mock: self, side }
    }

    pub(crate) fn size(&self) -> usize {
        self.0.borrow().script.size
    }

    /// Lets everything arrive that is under way.
    pub(crate) fn settle(&self) {
        let mut state = self.0.borrow_mut();
        let longest = state.script.delay + state.script.bell_delay + 1;
        state.pass(longest);
    }

    /// A side asks for its bell.
    pub(crate) fn arm(&self, side: usize) {
        let mut state = self.0.borrow_mut();
        if state.script.lose_bells {
            state.bells[side].armed = false;
            state.arrive(side, u64::MAX);
        }
        state.bells[side].armed = true;
    }

    /// Whether the bell of a side has been rung since this was last asked.
    pub(crate) fn rung(&self, side: usize) -> bool {
        let mut state = self.0.borrow_mut();
        state.pass(1);
        let now = state.now;
        state.bells[side].rings_at.take_if(|at| *at <= now).is_some()
    }

    /// News for which no bell was rung.
    pub(crate) fn lost(&self, side: usize) -> u32 {
        self.0.borrow().bells[side].lost
    }

    /// Calls of the halves so far.
    pub(crate) fn calls(&self) -> u64 {
        self.0.borrow().calls
    }

    /// A failure at once; a side's peer is gone, for that one.
    pub(crate) fn fail(&self, side: usize, failure: Failure) {
        let mut state = self.0.borrow_mut();
        match failure {
            Failure::Violation(violation) => state.violation = Some(violation),
            Failure::Gone => state.gone[1 - side] = true,
            Failure::Fault => state.fault = true,
        }
    }

    /// What a side says of its end.
    pub(crate) fn say(&self, side: usize, peer: Peer) {
        self.0.borrow_mut().said[side] = peer;
    }

    /// One call of a half.
    fn call(&self, side: usize) -> RefMut<'_, State> {
        let mut state = self.0.borrow_mut();
        state.pass(1);
        let due = state.script.failure.filter(|(at, _)| *at == state.calls);
        state.calls += 1;
        drop(state);
        if let Some((_, failure)) = due {
            self.fail(side, failure);
        }
        self.0.borrow_mut()
    }
}

/// One end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MockLink<'a> {
    mock: &'a Mock,
    side: usize,
}

/// Its sending half.
#[derive(Debug)]
pub(crate) struct MockTx<'a>(MockLink<'a>);

/// Its receiving half.
#[derive(Debug)]
pub(crate) struct MockRx<'a>(MockLink<'a>);

impl MockLink<'_> {
    /// A look from outside of the halves.
    fn look<T>(self, at: impl FnOnce(&State) -> T) -> T {
        let mut state = self.mock.0.borrow_mut();
        state.pass(1);
        at(&state)
    }
}

impl<'a> Link for MockLink<'a> {
    type Sender<'t>
        = MockTx<'t>
    where
        Self: 't;
    type Receiver<'t>
        = MockRx<'t>
    where
        Self: 't;

    fn sender<'t>(self, _: &'t mut Tx) -> MockTx<'t>
    where
        Self: 't,
    {
        MockTx(self)
    }
    fn receiver<'t>(self, _: &'t mut Rx) -> MockRx<'t>
    where
        Self: 't,
    {
        MockRx(self)
    }
    fn filled(self) -> u64 {
        self.look(|state| state.lanes[1 - self.side].seen)
    }
    fn drained(self) -> u64 {
        self.look(|state| state.lanes[self.side].freed)
    }
    fn peer(self) -> Peer {
        self.look(|state| state.said[1 - self.side])
    }
    fn is_gone(self) -> bool {
        self.look(|state| state.gone[1 - self.side])
    }
    fn say_back_on_tcp(self) {
        self.mock.0.borrow_mut().said[self.side].back_on_tcp = true;
    }
    fn say_left(self) {
        self.mock.0.borrow_mut().said[self.side].left = true;
    }
    fn say_ask_for_tcp(self) {
        self.mock.0.borrow_mut().said[self.side].asks_for_tcp = true;
    }
    fn say_copying(self) {
        self.mock.0.borrow_mut().said[self.side].copying = true;
    }
    fn say_ending(self) {
        self.mock.0.borrow_mut().said[self.side].ending = true;
    }
    fn say_urgent(self) {
        self.mock.0.borrow_mut().said[self.side].urgent = true;
    }
    fn say_copied(self, copied: Copied) {
        let mut state = self.mock.0.borrow_mut();
        state.said[self.side].copied = true;
        state.copied[self.side] = copied;
    }
    fn said_copied(self) -> Option<Copied> {
        self.look(|state| state.said[self.side].copied.then_some(state.copied[self.side]))
    }
    fn copied(self) -> Copied {
        self.look(|state| state.copied[1 - self.side])
    }
    fn is_unread(self) -> bool {
        self.look(|state| !state.lanes[self.side].bytes.is_empty())
    }
}

impl MockTx<'_> {
    fn call(&self) -> RefMut<'_, State> {
        self.0.mock.call(self.0.side)
    }
}

impl Drop for MockTx<'_> {
    /// What was not published is lost.
    fn drop(&mut self) {
        self.0.mock.0.borrow_mut().lanes[self.0.side].staged.clear();
    }
}

impl Sender for MockTx<'_> {
    fn put(&mut self, data: InBuf<'_>, segment: usize) -> Result<usize, RingError> {
        let side = self.0.side;
        let mut state = self.call();
        state.copies()?;
        let mut n = state.room(side).min(data.len());
        if state.script.partial && n > 1 {
            n = 1 + state.below(n as u64) as usize;
        }
        let bytes = (0..n).map(|at| fetch(data.as_ptr().wrapping_add(at)));
        let bytes: Vec<u8> = bytes.collect::<Result<_, _>>().map_err(|_| Fault)?;
        state.lanes[side].staged.extend(bytes);
        if data.len() > segment || state.below(4) == 0 {
            state.publish(side);
        }
        Ok(n)
    }

    fn flush(&mut self) {
        self.call().publish(self.0.side);
    }

    fn unput(&mut self) -> usize {
        let side = self.0.side;
        let staged = &mut self.0.mock.0.borrow_mut().lanes[side].staged;
        let count = staged.len();
        staged.clear();
        count
    }

    fn reserve(&mut self, n: usize) -> Result<[Piece; 2], Violation> {
        let side = self.0.side;
        let mut state = self.call();
        state.looks()?;
        let n = state.room(side).min(n);
        let first = n - state.below(n as u64) as usize;
        let lane = &mut state.lanes[side];
        lane.reserve = vec![0; n];
        lane.reserved = n;
        let ptr = lane.reserve.as_mut_ptr();
        Ok([Piece { ptr, len: first }, Piece { ptr: ptr.wrapping_add(first), len: n - first }])
    }

    fn filled(&mut self, n: usize) {
        let side = self.0.side;
        let mut state = self.call();
        let lane = &mut state.lanes[side];
        let n = n.min(core::mem::take(&mut lane.reserved));
        lane.staged.extend(lane.reserve.drain(..).take(n));
        state.publish(side);
    }

    fn room(&mut self) -> Result<usize, Violation> {
        let state = self.call();
        state.looks()?;
        Ok(state.room(self.0.side))
    }

    fn enough(&self) -> usize {
        self.0.mock.size() / 4
    }

    fn block(&mut self) -> Result<bool, Violation> {
        let side = self.0.side;
        let mut state = self.call();
        state.looks()?;
        state.lanes[side].blocked = true;
        Ok(state.room(side) >= state.script.size / 4)
    }

    fn taken(&mut self) -> Result<u64, Violation> {
        let state = self.call();
        state.looks()?;
        Ok(state.lanes[self.0.side].taken)
    }

    fn recall(&mut self, skip: usize, into: OutBuf<'_>) -> Result<usize, RingError> {
        let mut state = self.call();
        state.copies()?;
        let mut n = 0;
        for byte in state.lanes[self.0.side].bytes.iter().skip(skip).take(into.len()) {
            store(into.as_ptr().wrapping_add(n), byte).map_err(|_| Fault)?;
            n += 1;
        }
        Ok(n)
    }
}

impl MockRx<'_> {
    /// A call, and how many bytes there are.
    fn call(&self) -> (RefMut<'_, State>, usize) {
        let state = self.0.mock.call(self.0.side);
        let lane = &state.lanes[1 - self.0.side];
        let there = (lane.seen - lane.taken) as usize;
        (state, there)
    }
}

impl Receiver for MockRx<'_> {
    fn ready(&mut self) -> Result<usize, Violation> {
        let (state, there) = self.call();
        state.looks()?;
        Ok(there)
    }

    fn queued(&mut self) -> Result<usize, Violation> {
        self.ready()
    }

    fn pos(&self) -> u64 {
        self.0.look(|state| state.lanes[1 - self.0.side].taken)
    }

    fn take(&mut self, mut into: OutBuf<'_>) -> Result<usize, RingError> {
        let n = self.peek(into.reborrow(), 0)?;
        let mut state = self.0.mock.0.borrow_mut();
        let lane = &mut state.lanes[1 - self.0.side];
        lane.bytes.drain(..n);
        lane.taken += n as u64;
        Ok(n)
    }

    fn peek(&mut self, into: OutBuf<'_>, skip: usize) -> Result<usize, RingError> {
        let (mut state, there) = self.call();
        state.copies()?;
        let n = there.saturating_sub(skip).min(into.len());
        for (at, byte) in state.lanes[1 - self.0.side].bytes.iter().skip(skip).take(n).enumerate() {
            store(into.as_ptr().wrapping_add(at), byte).map_err(|_| Fault)?;
        }
        Ok(n)
    }

    fn discard(&mut self, n: usize) -> Result<usize, Violation> {
        let (mut state, there) = self.call();
        state.looks()?;
        let n = n.min(there);
        let lane = &mut state.lanes[1 - self.0.side];
        lane.bytes.drain(..n);
        lane.taken += n as u64;
        Ok(n)
    }

    fn since(&self, position: u64) -> usize {
        let distance = self.pos().wrapping_sub(position);
        if distance <= self.0.mock.size() as u64 {
            distance as usize
        } else {
            0
        }
    }

    fn leave(&mut self) {}

    fn done(&mut self) {
        let (mut state, there) = self.call();
        let quarter = state.script.size as u64 / 4;
        let lane = &state.lanes[1 - self.0.side];
        let pos = lane.taken;
        // As thrifty as the ring: when there is nothing left, and after each quarter.
        if pos == lane.told || (there > 0 && pos - lane.told < quarter) {
            return;
        }
        let soonest = lane.releases.back().map_or(0, |(at, _)| *at);
        let delay = state.script.delay;
        let at = state.later(delay).max(soonest);
        let lane = &mut state.lanes[1 - self.0.side];
        lane.told = pos;
        lane.releases.push_back((at, pos));
        let now = state.now;
        state.arrive(1 - self.0.side, now);
    }
}
