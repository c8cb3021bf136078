//! The ring against a queue of bytes: all sizes, start positions, wraps and message lengths.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::Duct;
use proptest::prelude::*;
use smc_core::ring::{cursor, Consumer, Producer};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Op {
    Write { len: usize, segment: usize },
    Stage(Vec<usize>),
    Fill { len: usize, publish: usize },
    Read(usize),
    Peek { len: usize, skip: usize },
    Discard(usize),
    Drain(usize),
    Block,
}

/// A ring, what it should hold, and the stream's next byte.
struct Model {
    duct: Duct,
    size: usize,
    queue: VecDeque<u8>,
    written: u64,
    /// A producer sleeps and has not been told.
    asleep: bool,
}

impl Model {
    fn new(size: usize, start: u64) -> Self {
        let duct = Duct::new(size, start);
        Self { duct, size, queue: VecDeque::new(), written: 0, asleep: false }
    }

    fn next_bytes(&self, len: usize) -> Vec<u8> {
        (self.written..).take(len).map(|n| (n ^ (n >> 8)).wrapping_mul(167) as u8).collect()
    }

    fn wrote(&mut self, bytes: &[u8]) {
        self.queue.extend(bytes);
        self.written += bytes.len() as u64;
    }

    /// What fits: no more than is free, and less by what thrift may hide.
    fn check_count(&self, asked: usize, got: usize) {
        let free = self.size - self.queue.len();
        assert!(got <= asked.min(free), "{got} of {asked} into {free}");
        let seen = match self.queue.len() {
            0 => free,
            _ => free.saturating_sub(self.size / 4),
        };
        assert!(got >= asked.min(seen), "{got} of {asked}, {seen} to be seen free");
    }

    fn took(&mut self, expected: Vec<u8>, got: &[u8]) {
        assert_eq!(expected, got);
        self.queue.drain(..got.len());
        self.settle();
    }

    fn settle(&mut self) {
        if self.duct.consumer().publish_cons() {
            self.asleep = false;
        }
        // The promise to a blocked producer.
        assert!(!self.asleep || self.queue.len() > self.size / 2, "forgotten");
    }

    fn head(&self, len: usize, skip: usize) -> Vec<u8> {
        self.queue.iter().skip(skip).take(len).copied().collect()
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Write { len, segment } => {
                let bytes = self.next_bytes(len);
                let mut bells = 0;
                let n = self
                    .duct
                    .producer()
                    .write(bytes.as_slice().into(), segment, || bells += 1)
                    .unwrap();
                self.check_count(len, n);
                assert!(bells >= n.div_ceil(segment.clamp(1, self.size / 2)));
                self.wrote(&bytes[..n]);
            }
            Op::Stage(parts) => {
                let bytes = self.next_bytes(parts.iter().sum());
                let before = self.duct.consumer().queued().unwrap();
                let mut producer = self.duct.producer();
                let mut n = 0;
                for part in &parts {
                    n += producer.stage(bytes[n..n + part].into()).unwrap();
                    if n < bytes.len() && producer.space(1).unwrap() == 0 {
                        break;
                    }
                }
                let visible = self.duct.a.prod.load(smc_core::sync::Ordering::Relaxed);
                let mut producer = smc_core::ring::Producer::new(
                    &self.duct.a,
                    &self.duct.b,
                    &mut self.duct.tx,
                    self.duct.mem.ring(),
                );
                // What is staged is forgotten with its producer, and no one has seen it.
                let restaged = producer.stage(bytes[..n].into()).unwrap();
                assert_eq!(restaged, n);
                producer.commit();
                let shown = self.duct.a.prod.load(smc_core::sync::Ordering::Relaxed);
                assert!(n == 0 || shown != visible);
                self.check_count(bytes.len(), n);
                self.wrote(&bytes[..n]);
                assert_eq!(self.duct.consumer().queued().unwrap(), before + n);
            }
            Op::Fill { len, publish } => {
                let bytes = self.next_bytes(len);
                let mut producer = self.duct.producer();
                let pieces = producer.reserve(len).unwrap();
                let n = pieces[0].len + pieces[1].len;
                let (first, second) = bytes[..n].split_at(pieces[0].len);
                for (piece, part) in pieces.iter().zip([first, second]) {
                    // SAFETY: requires writable memory of that length: free memory of the ring.
                    unsafe { piece.ptr.copy_from_nonoverlapping(part.as_ptr(), part.len()) };
                }
                let used = publish.min(n);
                producer.publish(used);
                self.check_count(len, n);
                self.wrote(&bytes[..used]);
            }
            Op::Read(len) => {
                let mut buf = vec![0; len];
                let n = self.duct.consumer().read(buf.as_mut_slice().into()).unwrap();
                self.took(self.head(len, 0), &buf[..n]);
            }
            Op::Peek { len, skip } => {
                let mut buf = vec![0; len];
                let n = self.duct.consumer().peek(buf.as_mut_slice().into(), skip).unwrap();
                assert_eq!(self.head(len, skip), &buf[..n]);
            }
            Op::Discard(len) => {
                let n = self.duct.consumer().discard(len).unwrap();
                assert_eq!(n, len.min(self.queue.len()));
                self.queue.drain(..n);
                self.settle();
            }
            Op::Drain(len) => {
                let mut consumer = self.duct.consumer();
                let mut got = Vec::new();
                for piece in consumer.pieces(len).unwrap() {
                    // SAFETY: requires readable memory of that length: data of the ring.
                    got.extend((0..piece.len).map(|i| unsafe { piece.ptr.add(i).read() }));
                }
                assert_eq!(consumer.discard(got.len()).unwrap(), got.len());
                self.took(self.head(len, 0), &got);
            }
            Op::Block => {
                let marked = self.duct.tx.is_blocked();
                let mut producer = self.duct.producer();
                let want = producer.low_water();
                if producer.space(want).unwrap() >= want {
                    // Whoever slept is told by the one who clears the flag.
                    assert_eq!(producer.clear_blocked(), marked);
                    self.asleep = false;
                } else {
                    producer.mark_blocked();
                    assert!(producer.space(want).unwrap() < want);
                    // Nobody may take the mark from one who sleeps for want of space.
                    assert!(!producer.clear_blocked());
                    self.asleep = true;
                }
            }
        }
        let used = self.duct.producer().used().unwrap();
        let held = self.queue.len();
        assert!(used >= held && used <= held + self.size / 4, "{used} used of {held}");
        assert!(held != 0 || used == 0);
        assert_eq!(self.duct.consumer().queued().unwrap(), held);
        assert_eq!(self.duct.consumer().available().unwrap() == 0, held == 0);
    }
}

fn length(size: usize) -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 0..=size + 3,
        2 => 0..=size / 4,
        2 => (0_usize..=3, 0_usize..=4).prop_map(move |(k, d)| (k * size + d).saturating_sub(2)),
    ]
}

fn op(size: usize) -> impl Strategy<Value = Op> {
    let len = move || length(size);
    prop_oneof![
        6 => (len(), 1..=size).prop_map(|(len, segment)| Op::Write { len, segment }),
        1 => prop::collection::vec(0..=size / 2, 1..4).prop_map(Op::Stage),
        1 => (len(), len()).prop_map(|(len, publish)| Op::Fill { len, publish }),
        6 => len().prop_map(Op::Read),
        1 => (len(), len()).prop_map(|(len, skip)| Op::Peek { len, skip }),
        1 => len().prop_map(Op::Discard),
        1 => len().prop_map(Op::Drain),
        3 => Just(Op::Block),
    ]
}

fn start() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), any::<u64>(), (0_u64..300).prop_map(|n| u64::MAX - n)]
}

fn case() -> impl Strategy<Value = (usize, u64, Vec<Op>)> {
    (4_u32..=9, start()).prop_flat_map(|(code, start)| {
        let size = 1 << code;
        (Just(size), Just(start), prop::collection::vec(op(size), 1..80))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_a_queue_of_bytes((size, start, ops) in case()) {
        let mut model = Model::new(size, start);
        for op in ops {
            model.apply(op);
        }
    }

    #[test]
    fn span_covers_the_range(pos in any::<u64>(), len in 0_usize..200, code in 4_u32..=7) {
        let size = 1_usize << code;
        let [(offset, first), (zero, second)] = cursor::span(pos, len, size);
        prop_assert_eq!(offset as u64, pos % size as u64);
        prop_assert_eq!(zero, 0);
        prop_assert_eq!(first + second, len.min(size));
        prop_assert!(offset + first <= size);
        prop_assert!(second == 0 || offset + first == size);
        prop_assert!(second <= offset);
    }

    #[test]
    fn only_forward_positions_are_valid(own in any::<u64>(), known in 0_u64..=64, new in any::<u64>()) {
        let near = own.wrapping_add(new % 200).wrapping_sub(60);
        for new in [new, near] {
            // In wide integers around `own`, where nothing wraps.
            let ahead = i128::from(new.wrapping_sub(own) as i64);
            let prod = cursor::validate_peer_prod(own, own.wrapping_add(known), new, 64);
            prop_assert_eq!(prod.is_ok(), (i128::from(known)..=64).contains(&ahead));
            let cons = cursor::validate_peer_cons(own, own.wrapping_sub(known), new);
            prop_assert_eq!(cons.is_ok(), (-i128::from(known)..=0).contains(&ahead));
        }
    }
}

#[test]
fn every_wrap_position_carries_every_length() {
    for start in (0..32).chain((0..32).map(|n| u64::MAX - n)) {
        for len in 0..=16 {
            let mut model = Model::new(16, start);
            for _ in 0..3 {
                model.apply(Op::Write { len, segment: 3 });
                model.apply(Op::Read(16));
                assert!(model.queue.is_empty());
            }
        }
    }
}

#[test]
fn a_message_near_a_multiple_of_the_ring_takes_no_more_rounds() {
    let size = 16 * 1024;
    for laps in 1..=4 {
        for len in [laps * size - 1, laps * size, laps * size + 1] {
            let mut duct = Duct::new(size, 0);
            let message = vec![7; len];
            let mut buf = vec![0; size];
            for _ in 0..20 {
                let (mut sent, mut rounds) = (0, 0);
                while sent < len {
                    let rest = message[sent..].into();
                    sent += duct.producer().write(rest, size, || ()).unwrap();
                    while duct.consumer().read(buf.as_mut_slice().into()).unwrap() > 0 {}
                    duct.consumer().publish_cons();
                    rounds += 1;
                }
                assert_eq!(rounds, len.div_ceil(size), "{len} bytes");
            }
        }
    }
}

#[test]
fn requests_and_replies_stay_in_the_first_page() {
    let size = 128 * 1024;
    for len in [1, 64, 100, 1024, 2048] {
        let mut duct = Duct::new(size, 0);
        let message = vec![9; len];
        let mut buf = vec![0; 4096];
        for _ in 0..1000 {
            let n = duct.producer().write(message.as_slice().into(), size, || ()).unwrap();
            assert_eq!(n, len);
            assert_eq!(duct.consumer().read(buf.as_mut_slice().into()).unwrap(), len);
            duct.consumer().publish_cons();
        }
        assert!(duct.mem.bytes(4096, size - 4096).iter().all(|byte| *byte == 0), "{len}");
    }
}

#[test]
fn a_stream_is_not_asked_for_its_end_at_each_message() {
    // The consumer lags by a message, so that the ring is never empty: the producer must use the
    // whole ring, whatever it looks for.
    let size = 16 * 1024;
    let mut duct = Duct::new(size, 0);
    let mut buf = [0; 100];
    duct.producer().write([1; 100].as_slice().into(), size, || ()).unwrap();
    for _ in 0..1000 {
        let n = duct.producer().write([1; 100].as_slice().into(), size, || ()).unwrap();
        assert_eq!(n, 100);
        assert_eq!(duct.consumer().read(buf.as_mut_slice().into()).unwrap(), 100);
        duct.consumer().publish_cons();
    }
    assert_eq!(duct.tx.pos(), 1001 * 100);
    assert!(duct.mem.bytes(0, size).iter().all(|byte| *byte == 1));
}

/// Laps that begin in the middle of the memory: small messages stay behind that point, a stream goes
/// round, and every byte arrives.
#[test]
fn laps_may_begin_anywhere() {
    const SIZE: usize = 16384;
    const FIRST: usize = SIZE - 2048;
    let mut duct = Duct::new(SIZE, 0);
    let send = |duct: &mut Duct, message: &[u8]| {
        let ring = duct.mem.ring().beginning_at(FIRST);
        let mut producer = Producer::new(&duct.a, &duct.b, &mut duct.tx, ring);
        assert_eq!(producer.write(message.into(), SIZE, || ()), Ok(message.len()));
        let mut got = vec![0; message.len()];
        let mut consumer = Consumer::new(&duct.b, &duct.a, &mut duct.rx, ring);
        assert_eq!(consumer.read(got.as_mut_slice().into()), Ok(message.len()));
        consumer.publish_cons();
        assert_eq!(got, message);
    };
    for byte in 1..=255 {
        send(&mut duct, &[byte; 500]);
    }
    assert_eq!(duct.mem.bytes(0, FIRST), vec![0; FIRST], "nothing else was touched");
    assert_ne!(duct.mem.bytes(FIRST, 500), vec![0; 500]);
    let stream: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    for message in stream.chunks(7_777) {
        send(&mut duct, message);
    }
}
