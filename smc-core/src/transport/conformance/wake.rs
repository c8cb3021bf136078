//! Who sleeps is woken.
use super::{sample, Ends, Pair};
use crate::transport::{Receiver, Sender};

/// Arms the bell of a side and looks for bytes once more; true: there are some.
fn awaits_bytes<P: Pair>(ends: &mut Ends<P>, side: usize) -> bool {
    ends.pair.arm(side);
    ends.rx(side).ready().unwrap() > 0
}

/// The same for room.
fn awaits_room<P: Pair>(ends: &mut Ends<P>, side: usize) -> bool {
    ends.tx(side).block().unwrap() || {
        ends.pair.arm(side);
        ends.tx(side).block().unwrap()
    }
}

/// A sleeper for room whose bell may have rung: true once it has what it waits for.
fn is_woken<P: Pair>(ends: &mut Ends<P>, side: usize) -> bool {
    ends.pair.settle();
    ends.pair.rung(side) && awaits_room(ends, side)
}

pub(super) fn bytes_wake_a_sleeper<P: Pair>(ends: &mut Ends<P>, side: usize) {
    for (round, segment) in [usize::MAX, 4, 1].into_iter().enumerate() {
        assert!(!awaits_bytes(ends, 1 - side));
        ends.pair.settle();
        // A bell in vain, from before: it asks again.
        if ends.pair.rung(1 - side) {
            assert!(!awaits_bytes(ends, 1 - side));
        }
        assert_eq!(ends.send(side, &sample(round, 10), segment), 10);
        ends.pair.settle();
        assert!(ends.pair.rung(1 - side));
        assert_eq!(ends.take_all(1 - side), sample(round, 10));
        // So does memory that a system call has filled.
        assert!(!awaits_bytes(ends, 1 - side));
        let mut sender = ends.tx(side);
        assert!(sender.reserve(5).unwrap()[0].len > 0);
        sender.filled(1);
        drop(sender);
        ends.pair.settle();
        assert!(ends.pair.rung(1 - side));
        assert_eq!(ends.take_all(1 - side).len(), 1);
    }
}

pub(super) fn a_second_look_finds_what_rang_no_bell<P: Pair>(ends: &mut Ends<P>, side: usize) {
    for round in 0..50 {
        assert_eq!(ends.rx(1 - side).ready(), Ok(0));
        // Between the look and the bell.
        assert_eq!(ends.send(side, &sample(round, 10), usize::MAX), 10);
        if !awaits_bytes(ends, 1 - side) {
            ends.pair.settle();
            assert!(ends.pair.rung(1 - side), "neither seen nor told, round {round}");
        }
        assert_eq!(ends.take_all(1 - side), sample(round, 10));
    }
}

pub(super) fn room_wakes_a_sleeper<P: Pair>(ends: &mut Ends<P>, side: usize) {
    let size = ends.pair.size(side);
    let bytes = sample(0, size);
    for step in [1 + size / 16, size / 5, size / 4, size / 2 + 1, size] {
        // The ring wraps elsewhere each time.
        assert_eq!(ends.send(side, &bytes[..step / 2], usize::MAX), step / 2);
        assert_eq!(ends.take_all(1 - side).len(), step / 2);
        ends.pair.settle();
        ends.send(side, &bytes, usize::MAX);
        assert_eq!(ends.tx(side).room(), Ok(0));
        assert!(!awaits_room(ends, side));
        let mut taken = 0;
        while !is_woken(ends, side) {
            assert!(taken < size, "all is taken and nobody was told, in steps of {step}");
            taken += ends.take(1 - side, step).len();
        }
        assert!(taken <= size / 2 + step, "told only after {taken} of {size}, in steps of {step}");
        let mut sender = ends.tx(side);
        assert!(sender.room().unwrap() >= sender.enough());
        drop(sender);
        ends.take_all(1 - side);
        ends.pair.settle();
    }
}

pub(super) fn who_waits_for_room_survives_the_puts_of_others<P: Pair>(
    ends: &mut Ends<P>,
    side: usize,
) {
    let size = ends.pair.size(side);
    for (left, put) in [(10, 5), (10, 10), (0, size / 4)] {
        assert_eq!(ends.send(side, &sample(0, size - left), usize::MAX), size - left);
        let mut awake = awaits_room(ends, side);
        assert!(!awake);
        ends.pair.settle();
        if left == 0 {
            assert_eq!(ends.take(1 - side, size / 4).len(), size / 4);
            ends.pair.settle();
        }
        // Another thread sends what little there is room for.
        assert_eq!(ends.send(side, &sample(0, put), usize::MAX), put);
        loop {
            awake |= is_woken(ends, side);
            if ends.take(1 - side, size / 8).is_empty() {
                break;
            }
        }
        assert!(awake, "a sleeper was forgotten: {left} bytes were free, {put} put");
        ends.pair.settle();
    }
}
