//! What a mock is to do, and where it stands.
use crate::ring::{RingError, Violation};
use crate::sys::copy::Fault;
use crate::transport::{Copied, Peer};
use std::collections::VecDeque;

/// What the transport will do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    /// Of all that is left to chance.
    pub(crate) seed: u64,
    /// Bytes that a direction holds.
    pub(crate) size: usize,
    /// The most steps until the other side sees what was published or taken.
    pub(crate) delay: u64,
    /// The most steps until a bell rings.
    pub(crate) bell_delay: u64,
    /// News that are under way arrive just before a bell is armed, when it is too late to ring it.
    pub(crate) lose_bells: bool,
    /// `put` takes a part of what fits.
    pub(crate) partial: bool,
    /// At this call of a half, counted from 0, this happens.
    pub(crate) failure: Option<(u64, Failure)>,
}

impl Script {
    /// Nothing is late and nothing fails.
    pub(crate) const PLAIN: Self = Self {
        seed: 1,
        size: 64,
        delay: 0,
        bell_delay: 0,
        lose_bells: false,
        partial: false,
        failure: None,
    };
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The peer breaks the rules: each call that looks at it fails from now on.
    Violation(Violation),
    /// The peer of the calling side is no more.
    Gone,
    /// The program's buffer is not there, this once.
    Fault,
}

/// One direction; positions count all bytes since the start.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Bytes from `taken` to `published`.
    pub(super) bytes: VecDeque<u8>,
    pub(super) staged: Vec<u8>,
    /// Memory that `reserve` hands out, and how much of it.
    pub(super) reserve: Vec<u8>,
    pub(super) reserved: usize,
    pub(super) published: u64,
    /// How far the receiver sees.
    pub(super) seen: u64,
    pub(super) taken: u64,
    /// How far the receiver has told that it took.
    pub(super) told: u64,
    /// How far the sender sees that.
    pub(super) freed: u64,
    /// A sender waits for room and has not been told.
    pub(super) blocked: bool,
    /// Step and position at which `seen`, and `freed`, move on.
    pub(super) sightings: VecDeque<(u64, u64)>,
    pub(super) releases: VecDeque<(u64, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct Bell {
    pub(super) armed: bool,
    pub(super) rings_at: Option<u64>,
    pub(super) lost: u32,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) script: Script,
    pub(super) random: u64,
    pub(super) now: u64,
    pub(super) calls: u64,
    /// Lane n is filled by side n.
    pub(super) lanes: [Lane; 2],
    pub(super) bells: [Bell; 2],
    pub(super) said: [Peer; 2],
    pub(super) copied: [Copied; 2],
    pub(super) gone: [bool; 2],
    pub(super) violation: Option<Violation>,
    pub(super) fault: bool,
}

impl State {
    pub(super) fn new(script: Script) -> Self {
        Self {
            script,
            random: script.seed,
            now: 0,
            calls: 0,
            lanes: Default::default(),
            bells: Default::default(),
            said: Default::default(),
            copied: Default::default(),
            gone: [false; 2],
            violation: None,
            fault: false,
        }
    }

    /// A number below `bound`; 0 if that is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.random;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)).checked_rem(bound).unwrap_or(0)
    }

    pub(super) fn later(&mut self, most: u64) -> u64 {
        self.now + self.below(most + 1)
    }

    pub(super) fn pass(&mut self, steps: u64) {
        for _ in 0..steps {
            self.now += 1;
            self.arrive(0, self.now);
            self.arrive(1, self.now);
        }
    }

    /// Lets a side see what is due by a time.
    pub(super) fn arrive(&mut self, side: usize, by: u64) {
        while let Some((_, pos)) = self.lanes[1 - side].sightings.pop_front_if(|(at, _)| *at <= by)
        {
            self.lanes[1 - side].seen = pos;
            self.ring(side);
        }
        while let Some((_, pos)) = self.lanes[side].releases.pop_front_if(|(at, _)| *at <= by) {
            self.lanes[side].freed = pos;
            if self.lanes[side].blocked && self.room(side) >= self.script.size / 4 {
                self.lanes[side].blocked = false;
                self.ring(side);
            }
        }
    }

    pub(super) fn ring(&mut self, side: usize) {
        if !self.bells[side].armed {
            self.bells[side].lost += 1;
            return;
        }
        self.bells[side].armed = false;
        self.bells[side].rings_at = Some(self.later(self.script.bell_delay));
    }

    pub(super) fn room(&self, side: usize) -> usize {
        let lane = &self.lanes[side];
        self.script.size - (lane.published - lane.freed) as usize - lane.staged.len()
    }

    pub(super) fn publish(&mut self, side: usize) {
        let lane = &mut self.lanes[side];
        if lane.staged.is_empty() {
            return;
        }
        lane.published += lane.staged.len() as u64;
        lane.bytes.extend(lane.staged.drain(..));
        let pos = lane.published;
        let soonest = lane.sightings.back().map_or(0, |(at, _)| *at);
        let at = self.later(self.script.delay).max(soonest);
        self.lanes[side].sightings.push_back((at, pos));
        self.arrive(1 - side, self.now);
    }

    pub(super) fn looks(&self) -> Result<(), Violation> {
        self.violation.map_or(Ok(()), Err)
    }

    /// Whether the program's buffer is there.
    pub(super) fn copies(&mut self) -> Result<(), RingError> {
        self.looks()?;
        if core::mem::take(&mut self.fault) {
            return Err(Fault.into());
        }
        Ok(())
    }
}
