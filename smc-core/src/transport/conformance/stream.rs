//! What arrives, and how much of it.
use super::{fill, sample, Ends, Pair};
use crate::transport::{Link, Receiver, Sender};

/// Larger than any segment: everything is published by `flush` at the latest.
const WHOLE: usize = usize::MAX;

/// Sends all of a message, the other side taking what arrives, and compares.
fn carry<P: Pair>(ends: &mut Ends<P>, side: usize, message: &[u8], segment: usize) {
    let (mut sent, mut got) = (0, Vec::new());
    let mut idle = 0;
    while got.len() < message.len() {
        let before = sent + got.len();
        sent += ends.send(side, &message[sent..], segment);
        ends.pair.settle();
        got.extend(ends.take(1 - side, message.len()));
        idle = if sent + got.len() == before { idle + 1 } else { 0 };
        assert!(idle < 4, "stuck at {sent} sent, {} taken of {}", got.len(), message.len());
        ends.pair.settle();
    }
    assert!(got == message, "{} bytes changed", message.len());
    assert!(ends.take_all(1 - side).is_empty());
}

pub(super) fn bytes_arrive_once_and_in_order<P: Pair>(ends: &mut Ends<P>, side: usize) {
    let size = ends.pair.size(side);
    let mut from = 0;
    for lap in 0..6 {
        for len in [1, 7, size / 8 - 1, size / 4, size / 2 + 1, size, size * 3 + 5] {
            carry(ends, side, &sample(from, len), [WHOLE, size / 4, 1 + size / 7][lap % 3]);
            from += len;
        }
    }
}

pub(super) fn lengths_around_the_ring<P: Pair>(ends: &mut Ends<P>, side: usize) {
    let size = ends.pair.size(side);
    for laps in 1..=3 {
        for len in [laps * size - 1, laps * size, laps * size + 1] {
            for segment in [WHOLE, size / 2, size / 16] {
                carry(ends, side, &sample(len, len), segment);
            }
        }
    }
}

pub(super) fn put_takes_what_fits<P: Pair>(ends: &mut Ends<P>, side: usize) {
    let size = ends.pair.size(side);
    let bytes = sample(0, 2 * size);
    assert_eq!(ends.send(side, &bytes, WHOLE), size);
    let mut sender = ends.tx(side);
    assert_eq!(sender.room(), Ok(0));
    assert_eq!(sender.put(bytes.as_slice().into(), WHOLE), Ok(0));
    assert_eq!(sender.reserve(size).unwrap().map(|piece| piece.len), [0, 0]);
    drop(sender);
    assert_eq!(ends.take_all(1 - side), bytes[..size]);
    ends.pair.settle();
    let mut sender = ends.tx(side);
    assert!(sender.room().unwrap() >= sender.enough());
    drop(sender);
    assert_eq!(ends.send(side, &bytes, WHOLE), size);
}

pub(super) fn a_flush_is_all_it_takes<P: Pair>(ends: &mut Ends<P>, side: usize) {
    let bytes = sample(0, 30);
    let mut sender = ends.tx(side);
    let mut done = 0;
    // Several buffers, one flush.
    while done < bytes.len() {
        done += sender.put(bytes[done..bytes.len().min(done + 7)].into(), WHOLE).unwrap();
    }
    sender.flush();
    sender.flush();
    drop(sender);
    ends.pair.settle();
    assert_eq!(ends.rx(1 - side).ready(), Ok(30));
    assert_eq!(ends.rx(1 - side).queued(), Ok(30));
    assert_eq!(ends.take(1 - side, 100), bytes);
    assert_eq!(ends.rx(1 - side).ready(), Ok(0));
}

pub(super) fn looking_takes_nothing<P: Pair>(ends: &mut Ends<P>, side: usize) {
    let size = ends.pair.size(side);
    // From here a look wraps around the end of the ring.
    carry(ends, side, &sample(0, size / 16), WHOLE);
    let bytes = sample(5, size);
    assert_eq!(ends.send(side, &bytes, WHOLE), size);
    ends.pair.settle();
    let mut receiver = ends.rx(1 - side);
    for (len, skip) in [(10, 0), (10, 10), (size, 0), (size, size / 2), (1, size - 1), (3, size)] {
        for _ in 0..2 {
            let mut buf = vec![0; len];
            let got = receiver.peek(buf.as_mut_slice().into(), skip).unwrap();
            assert_eq!(got, len.min(size - skip));
            assert_eq!(buf[..got], bytes[skip..][..got]);
        }
    }
    assert_eq!(receiver.queued(), Ok(size));
    drop(receiver);
    assert_eq!(ends.take_all(1 - side), bytes);
}

pub(super) fn discarded_bytes_are_gone<P: Pair>(ends: &mut Ends<P>, side: usize) {
    let size = ends.pair.size(side);
    let bytes = sample(0, size);
    assert_eq!(ends.send(side, &bytes, WHOLE), size);
    ends.pair.settle();
    let mut receiver = ends.rx(1 - side);
    assert_eq!(receiver.discard(0), Ok(0));
    assert_eq!(receiver.discard(size / 2 + 1), Ok(size / 2 + 1));
    receiver.done();
    drop(receiver);
    assert_eq!(ends.take(1 - side, 10), bytes[size / 2 + 1..][..10]);
    assert_eq!(ends.rx(1 - side).discard(2 * size), Ok(size / 2 - 11));
    ends.rx(1 - side).done();
    // Room came of it as of bytes that were taken.
    ends.pair.settle();
    carry(ends, side, &sample(3, size), WHOLE);
}

pub(super) fn reserved_memory_carries_what_was_filled<P: Pair>(ends: &mut Ends<P>, side: usize) {
    let size = ends.pair.size(side);
    let mut from = 0;
    for (want, got) in [(10, 10), (size, 9), (size * 2, size), (size / 2, 0), (7, 7), (size, size)]
    {
        let bytes = sample(from, got);
        let mut sender = ends.tx(side);
        let pieces = sender.reserve(want).unwrap();
        let total: usize = pieces.iter().map(|piece| piece.len).sum();
        assert!(total <= want.min(size));
        assert!(total >= got, "{got} bytes were to fit, {total} were reserved");
        fill(pieces, &bytes);
        if got > 0 {
            sender.filled(got);
        }
        drop(sender);
        from += got;
        assert_eq!(ends.take_all(1 - side), bytes);
        ends.pair.settle();
        carry(ends, side, &sample(1, 3), WHOLE);
    }
}

pub(super) fn positions_tell_of_progress<P: Pair>(ends: &mut Ends<P>, side: usize) {
    for len in [1, 9, 30] {
        let pos = ends.rx(1 - side).pos();
        assert_eq!(ends.pair.link(1 - side).filled(), pos);
        let drained = ends.pair.link(side).drained();
        assert_eq!(ends.send(side, &sample(0, len), WHOLE), len);
        ends.pair.settle();
        assert_ne!(ends.pair.link(1 - side).filled(), pos);
        assert_eq!(ends.pair.link(side).drained(), drained);
        assert_eq!(ends.take_all(1 - side).len(), len);
        ends.pair.settle();
        assert_ne!(ends.pair.link(side).drained(), drained);
        let pos = ends.rx(1 - side).pos();
        assert_eq!(ends.pair.link(1 - side).filled(), pos);
    }
}
