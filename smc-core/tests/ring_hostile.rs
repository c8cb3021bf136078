//! A peer that writes anything anywhere in its line, at any time.
//!
//! The ring lies between inaccessible pages: an access outside ends the test. Overflow checks are
//! on, so that arithmetic that wraps by accident ends it as well.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::Duct;
use proptest::prelude::*;
use smc_core::ring::{RingError, Violation};
use smc_core::shm::layout::{flags, Line, WaitSlot, CONNS, WAIT_SLOTS};
use smc_core::sync::Ordering::Relaxed;

#[derive(Clone, Copy, Debug)]
enum Value {
    Any(u64),
    /// Relative to the victim's own position.
    Near(i64),
    /// A start of a lap near it.
    Lap(i64),
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Prod(Value),
    Base(Value),
    Cons(Value),
    Flags(u32),
    Write(usize),
    Fill(usize),
    Read(usize),
    Peek(usize, usize),
    Discard(usize),
    Pieces(usize),
    Block,
}

impl Value {
    fn at(self, pos: u64, size: usize) -> u64 {
        match self {
            Self::Any(value) => value,
            Self::Near(delta) => pos.wrapping_add_signed(delta),
            Self::Lap(laps) => (pos & !(size as u64 - 1)).wrapping_add_signed(laps * size as i64),
        }
    }
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u64>().prop_map(Value::Any),
        (-80_i64..80).prop_map(Value::Near),
        (-2_i64..3).prop_map(Value::Lap),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let len = || prop_oneof![0_usize..200, Just(usize::MAX)];
    prop_oneof![
        value().prop_map(Op::Prod),
        value().prop_map(Op::Base),
        value().prop_map(Op::Cons),
        any::<u32>().prop_map(Op::Flags),
        (0_usize..200).prop_map(Op::Write),
        (0_usize..200).prop_map(Op::Fill),
        (0_usize..200).prop_map(Op::Read),
        (0_usize..200, len()).prop_map(|(len, skip)| Op::Peek(len, skip)),
        len().prop_map(Op::Discard),
        len().prop_map(Op::Pieces),
        Just(Op::Block),
    ]
}

/// A count is within the ring; an error is a violation.
fn sane<E: Into<RingError>>(result: Result<usize, E>, size: usize) {
    match result.map_err(Into::into) {
        Ok(n) => assert!(n <= size, "{n}"),
        Err(RingError::Violation(_)) => {}
        Err(RingError::Fault(fault)) => panic!("{fault}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn breaks_nothing_but_its_connection(
        code in 4_u32..=6,
        start in prop_oneof![Just(0), any::<u64>(), Just(u64::MAX - 20)],
        ops in prop::collection::vec(op(), 1..120),
    ) {
        let size = 1_usize << code;
        // Two ducts, of which we hold one half each; the lines of the other halves are hostile.
        let mut send = Duct::new(size, start);
        let mut receive = Duct::new(size, start);
        for op in ops {
            match op {
                Op::Prod(value) => {
                    receive.a.prod.store(value.at(receive.rx.pos(), size), Relaxed);
                }
                Op::Base(value) => {
                    receive.a.base.store(value.at(receive.rx.pos(), size), Relaxed);
                }
                Op::Cons(value) => send.b.cons.store(value.at(send.tx.pos(), size), Relaxed),
                Op::Flags(value) => receive.a.flags.store(value, Relaxed),
                Op::Write(len) => {
                    let bytes = vec![1; len];
                    sane(send.producer().write(bytes.as_slice().into(), 5, || ()), size * 13);
                }
                Op::Fill(len) => {
                    let mut producer = send.producer();
                    let pieces = producer.reserve(len);
                    for piece in pieces.iter().flatten() {
                        // SAFETY: requires writable memory: the ring's, or the test crashes.
                        unsafe { piece.ptr.write_bytes(2, piece.len) };
                    }
                    producer.publish(len);
                }
                Op::Read(len) => {
                    let mut buf = vec![0; len];
                    sane(receive.consumer().read(buf.as_mut_slice().into()), size);
                }
                Op::Peek(len, skip) => {
                    let mut buf = vec![0; len];
                    sane(receive.consumer().peek(buf.as_mut_slice().into(), skip), size);
                }
                Op::Discard(len) => sane(receive.consumer().discard(len), size),
                Op::Pieces(len) => {
                    for piece in receive.consumer().pieces(len).iter().flatten() {
                        let end = piece.len.saturating_sub(1);
                        for at in [0, end].into_iter().take(piece.len) {
                            // SAFETY: requires readable memory: the ring's, or the test crashes.
                            let byte = unsafe { piece.ptr.add(at).read_volatile() };
                            prop_assert_eq!(byte, 0);
                        }
                    }
                }
                Op::Block => {
                    let mut producer = send.producer();
                    producer.mark_blocked();
                    sane(producer.space(size), size);
                    sane(producer.used(), size);
                    let cleared = producer.clear_blocked();
                    let flag = send.a.flags.load(Relaxed) & flags::WRITE_BLOCKED;
                    prop_assert_eq!(cleared, flag == 0);
                }
            }
            receive.consumer().publish_cons();
            sane(receive.consumer().available(), size);
            sane(receive.consumer().queued(), size);
        }
    }

    #[test]
    fn want_masks_reach_no_further_than_the_slots(
        conn in any::<usize>(),
        ready in any::<u64>(),
        bell in any::<u64>(),
        armed in any::<u32>(),
    ) {
        let line = Line::default();
        line.want_ready.store(ready, Relaxed);
        line.want_bell.store(bell, Relaxed);
        let slots: [WaitSlot; WAIT_SLOTS] = std::array::from_fn(|_| WaitSlot::default());
        for slot in &slots {
            slot.armed.store(armed, Relaxed);
        }
        let mut rung = 0_u64;
        smc_core::ring::doorbell::announce(conn, &line, &slots, || {}, |slot| rung |= 1 << slot);
        prop_assert_eq!(rung, if armed == 0 { 0 } else { ready | bell });
        for (index, slot) in slots.iter().enumerate() {
            let mut conns = Vec::new();
            smc_core::ring::doorbell::take_ready(slot, |conn| conns.push(conn));
            let wanted = ready >> index & 1 == 1;
            prop_assert_eq!(conns, if wanted { vec![conn % CONNS] } else { vec![] });
        }
    }
}

#[test]
fn lies_are_found() {
    let mut duct = Duct::new(64, 0);
    duct.producer().write([1; 10].as_slice().into(), 64, || ()).unwrap();
    for lie in [11, u64::MAX, 1 << 63] {
        duct.b.cons.store(lie, Relaxed);
        assert_eq!(duct.producer().used(), Err(Violation::Cons));
    }
    let mut duct = Duct::new(64, 10);
    for lie in [9, 75, 128, u64::MAX] {
        duct.a.prod.store(lie, Relaxed);
        assert_eq!(duct.consumer().available(), Err(Violation::Prod));
    }
    // A base that no producer sets is not followed: then the position is too far ahead.
    for base in [0, 9, 10, 11, 63, 65, 128] {
        duct.a.base.store(base, Relaxed);
        duct.a.prod.store(80, Relaxed);
        assert_eq!(duct.consumer().available(), Err(Violation::Prod));
    }
    // The position that comes with an honest one counts from there.
    duct.a.base.store(64, Relaxed);
    assert_eq!(duct.consumer().available(), Ok(16));
}
