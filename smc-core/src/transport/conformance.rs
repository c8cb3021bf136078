//! The contract of [`super`], checked line by line for every implementation.
#![allow(clippy::unwrap_used, clippy::panic)]

mod end;
mod loopback;
mod mock;
mod model;
mod stream;
mod wake;

use super::{Link, Peer, Receiver, Sender};
use crate::arena::{Rx, Tx};
use crate::ring::{Piece, Violation};
use crate::sys::iov::store;

/// Both ends of a connection, in this process.
pub(crate) trait Pair {
    /// An end.
    type Link<'p>: Link
    where
        Self: 'p;

    fn link(&self, side: usize) -> Self::Link<'_>;
    /// The state of a side's two halves, at the start.
    fn halves(&self, side: usize) -> (Tx, Rx);
    /// Bytes that the direction filled by a side holds.
    fn size(&self, side: usize) -> usize;
    /// Lets everything arrive that is under way.
    fn settle(&self);
    /// A side asks for its bell.
    fn arm(&self, side: usize);
    /// Whether it rang since this was last asked; the bell is no longer armed then.
    fn rung(&self, side: usize) -> bool;
    /// The peer of a side publishes what it must not.
    fn corrupt(&self, side: usize, violation: Violation);
    /// A side says something of its end.
    fn say(&self, side: usize, peer: Peer);
    /// A side's process ends.
    fn kill(&self, side: usize);
}

/// A pair with the state of its halves.
struct Ends<P> {
    pair: P,
    halves: [(Tx, Rx); 2],
}

impl<P: Pair> Ends<P> {
    fn new(pair: P) -> Self {
        let halves = [pair.halves(0), pair.halves(1)];
        Self { pair, halves }
    }

    fn tx(&mut self, side: usize) -> <P::Link<'_> as Link>::Sender<'_> {
        self.pair.link(side).sender(&mut self.halves[side].0)
    }

    fn rx(&mut self, side: usize) -> <P::Link<'_> as Link>::Receiver<'_> {
        self.pair.link(side).receiver(&mut self.halves[side].1)
    }

    /// Puts and flushes as much as fits.
    fn send(&mut self, side: usize, bytes: &[u8], segment: usize) -> usize {
        let mut sender = self.tx(side);
        let mut done = 0;
        while done < bytes.len() {
            match sender.put(bytes[done..].into(), segment).unwrap() {
                0 => break,
                n => done += n,
            }
        }
        sender.flush();
        done
    }

    /// Takes up to `n` bytes that have arrived, in one call, and tells.
    fn take(&mut self, side: usize, n: usize) -> Vec<u8> {
        let mut bytes = vec![0; n];
        let mut receiver = self.rx(side);
        let got = receiver.take(bytes.as_mut_slice().into()).unwrap();
        receiver.done();
        bytes.truncate(got);
        bytes
    }

    /// Takes everything that will arrive.
    fn take_all(&mut self, side: usize) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            self.pair.settle();
            match self.take(side, 4096) {
                bytes if bytes.is_empty() => return all,
                bytes => all.extend(bytes),
            }
        }
    }
}

/// A stream in which a lost, doubled or moved byte shows.
fn sample(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|n| ((n ^ (n >> 8)) * 167) as u8).collect()
}

/// Does what a system call does with reserved memory.
fn fill(pieces: [Piece; 2], bytes: &[u8]) {
    let places =
        pieces.iter().flat_map(|Piece { ptr, len }| (0..*len).map(|n| ptr.wrapping_add(n)));
    for (byte, place) in bytes.iter().zip(places) {
        store(place, byte).unwrap();
    }
}

/// How many random runs each test tries.
fn cases() -> proptest::test_runner::Config {
    let cases = if cfg!(feature = "mock") { 1500 } else { 150 };
    proptest::test_runner::Config::with_cases(cases)
}

/// Makes the tests of one implementation: `$make` gives a fresh pair.
macro_rules! conformance {
    ($make:expr) => {
        $crate::transport::conformance::checks! { $make;
            stream: bytes_arrive_once_and_in_order
            stream: put_takes_what_fits
            stream: a_flush_is_all_it_takes
            stream: lengths_around_the_ring
            stream: looking_takes_nothing
            stream: discarded_bytes_are_gone
            stream: reserved_memory_carries_what_was_filled
            stream: positions_tell_of_progress
            end: a_false_producer_is_a_violation
            end: a_false_consumer_is_a_violation
            end: what_was_sent_before_the_end_is_there
            end: what_a_dead_peer_sent_is_there
            wake: bytes_wake_a_sleeper
            wake: a_second_look_finds_what_rang_no_bell
            wake: room_wakes_a_sleeper
            wake: who_waits_for_room_survives_the_puts_of_others
        }

        proptest::proptest! {
            #![proptest_config($crate::transport::conformance::cases())]
            #[test]
            fn follows_the_model(ops in $crate::transport::conformance::model::ops()) {
                $crate::transport::conformance::model::check($make, &ops);
            }
        }
    };
}
pub(crate) use conformance;

/// Each check is a test, in both directions: side 0 sends, then side 1.
macro_rules! checks {
    ($make:expr; $($module:ident: $check:ident)+) => {
        $(#[test]
        fn $check() {
            for side in [0, 1] {
                let mut ends = $crate::transport::conformance::Ends::new($make);
                $crate::transport::conformance::$module::$check(&mut ends, side);
            }
        })+
    };
}
pub(crate) use checks;
