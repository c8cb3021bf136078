//! The double keeps the contract as well, however unhelpful it is told to be.
use super::{conformance, model, Pair};
use crate::arena::{Rx, Tx};
use crate::ring::Violation;
use crate::transport::mock::{halves, Failure, Mock, MockLink, Script};
use crate::transport::{Link, Peer, Receiver, Sender};
use proptest::prelude::*;

impl Pair for Mock {
    type Link<'p> = MockLink<'p>;

    fn link(&self, side: usize) -> MockLink<'_> {
        Mock::link(self, side)
    }
    fn halves(&self, _: usize) -> (Tx, Rx) {
        halves()
    }
    fn size(&self, _: usize) -> usize {
        Mock::size(self)
    }
    fn settle(&self) {
        Mock::settle(self);
    }
    fn arm(&self, side: usize) {
        Mock::arm(self, side);
    }
    fn rung(&self, side: usize) -> bool {
        Mock::rung(self, side)
    }
    fn corrupt(&self, side: usize, violation: Violation) {
        self.fail(side, Failure::Violation(violation));
    }
    fn say(&self, side: usize, peer: Peer) {
        Mock::say(self, side, peer);
    }
    fn kill(&self, side: usize) {
        self.fail(1 - side, Failure::Gone);
    }
}

mod plain {
    use super::*;
    conformance!(Mock::new(Script::PLAIN));
}

mod late {
    use super::*;
    conformance!(Mock::new(Script { delay: 9, bell_delay: 5, size: 256, ..Script::PLAIN }));
}

mod stingy {
    use super::*;
    conformance!(Mock::new(Script { partial: true, seed: 3, size: 80, ..Script::PLAIN }));
}

const SPITEFUL: Script =
    Script { delay: 20, lose_bells: true, partial: true, seed: 9, ..Script::PLAIN };

mod spiteful {
    use super::*;
    conformance!(Mock::new(SPITEFUL));
}

proptest! {
    #![proptest_config(super::cases())]
    #[test]
    fn every_script_follows_the_model(
        seed in any::<u64>(),
        size in prop_oneof![Just(64_usize), 64_usize..600],
        delay in 0_u64..30,
        bell_delay in 0_u64..30,
        lose_bells in any::<bool>(),
        partial in any::<bool>(),
        ops in model::ops(),
    ) {
        let script =
            Script { seed, size, delay, bell_delay, lose_bells, partial, failure: None };
        model::check(Mock::new(script), &ops);
    }
}

/// The double really loses bells: one who does not look again sleeps on beside its bytes.
#[test]
fn who_does_not_look_again_misses_a_lost_bell() {
    let mock = Mock::new(SPITEFUL);
    let (mut tx, mut rx) = (mock.halves(0).0, mock.halves(1).1);
    let mut missed = 0;
    for round in 0..50 {
        let mut sender = mock.link(0).sender(&mut tx);
        assert_eq!(sender.put([round].as_slice().into(), 9), Ok(1));
        sender.flush();
        drop(sender);
        mock.arm(1);
        mock.settle();
        missed += u32::from(!mock.rung(1));
        assert_eq!(mock.link(1).receiver(&mut rx).discard(9), Ok(1));
    }
    assert!(missed > 0);
    assert!(mock.lost(1) >= missed);
}

/// The same script and calls give the same run.
#[test]
fn a_run_can_be_repeated() {
    let run = |seed| {
        let mock = Mock::new(Script { seed, ..SPITEFUL });
        let (mut tx, mut rx) = (mock.halves(0).0, mock.halves(1).1);
        let mut counts = Vec::new();
        let mut buf = [0; 64];
        for _ in 0..100 {
            let mut sender = mock.link(0).sender(&mut tx);
            counts.push(sender.put([7; 20].as_slice().into(), 9).unwrap());
            sender.flush();
            let mut receiver = mock.link(1).receiver(&mut rx);
            counts.push(receiver.take(buf.as_mut_slice().into()).unwrap());
            receiver.done();
        }
        counts
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
