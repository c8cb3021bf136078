//! Peers that lie, leave or die.
use super::{sample, Ends, Pair};
use crate::ring::{RingError, Violation};
use crate::transport::{Link, Peer, Receiver, Sender};

pub(super) fn a_false_producer_is_a_violation<P: Pair>(ends: &mut Ends<P>, side: usize) {
    let bytes = sample(0, 20);
    assert_eq!(ends.send(side, &bytes, usize::MAX), 20);
    ends.pair.settle();
    let mut got = ends.take(1 - side, 3);
    ends.pair.corrupt(1 - side, Violation::Prod);
    let mut receiver = ends.rx(1 - side);
    let mut buf = [0; 64];
    // What it knew of may still come, if it need not look again.
    for len in [64, 7, 64, 64] {
        match receiver.take(buf[..len].as_mut().into()) {
            Ok(n) => got.extend(&buf[..n]),
            Err(error) => assert_eq!(error, RingError::Violation(Violation::Prod)),
        }
    }
    assert_eq!(got, bytes[..got.len()]);
    assert!(receiver.take(buf.as_mut_slice().into()).is_err());
    assert!(receiver.peek(buf.as_mut_slice().into(), 0).is_err());
    assert_eq!(receiver.discard(64), Err(Violation::Prod));
    assert_eq!(receiver.queued(), Err(Violation::Prod));
}

pub(super) fn a_false_consumer_is_a_violation<P: Pair>(ends: &mut Ends<P>, side: usize) {
    let size = ends.pair.size(side);
    assert_eq!(ends.send(side, &sample(0, size), usize::MAX), size);
    ends.pair.corrupt(side, Violation::Cons);
    let mut sender = ends.tx(side);
    for _ in 0..2 {
        let put = sender.put([1, 2, 3].as_slice().into(), usize::MAX);
        assert_eq!(put, Err(RingError::Violation(Violation::Cons)));
        let put = sender.put([1, 2, 3].as_slice().into(), 1);
        assert_eq!(put, Err(RingError::Violation(Violation::Cons)));
        assert_eq!(sender.room(), Err(Violation::Cons));
        assert_eq!(sender.block(), Err(Violation::Cons));
        assert_eq!(sender.reserve(9).unwrap_err(), Violation::Cons);
    }
}

pub(super) fn what_was_sent_before_the_end_is_there<P: Pair>(ends: &mut Ends<P>, side: usize) {
    let other = 1 - side;
    assert_eq!(ends.pair.link(other).peer(), Peer::default());
    let bytes = sample(0, 40);
    assert_eq!(ends.send(side, &bytes, 8), 40);
    let done = Peer { closed: false, done_writing: true };
    ends.pair.say(side, done);
    assert_eq!(ends.pair.link(other).peer(), done);
    assert!(ends.pair.link(other).peer().ended());
    assert_eq!(ends.take_all(other), bytes);
    // Half closed: the other direction goes on.
    assert_eq!(ends.pair.link(side).peer(), Peer::default());
    assert_eq!(ends.send(other, &bytes, 8), 40);
    assert_eq!(ends.take_all(side), bytes);
    ends.pair.say(side, Peer { closed: true, done_writing: true });
    assert!(ends.pair.link(other).peer().closed);
    assert!(!ends.pair.link(other).is_gone());
}

pub(super) fn what_a_dead_peer_sent_is_there<P: Pair>(ends: &mut Ends<P>, side: usize) {
    let bytes = sample(0, 40);
    assert_eq!(ends.send(side, &bytes, usize::MAX), 40);
    assert!(!ends.pair.link(1 - side).is_gone());
    ends.pair.kill(side);
    ends.pair.settle();
    assert!(ends.pair.link(1 - side).is_gone());
    assert_eq!(ends.take_all(1 - side), bytes);
    // What is sent to it is no error here: the caller has asked the link.
    assert_eq!(ends.send(1 - side, &bytes, usize::MAX), 40);
}
