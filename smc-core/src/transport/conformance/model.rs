//! Random calls of both ends against two queues of bytes.
use super::{fill, sample, Ends, Pair};
use crate::transport::{Receiver, Sender};
use proptest::prelude::*;
use std::collections::VecDeque;

/// A length: parts of 8 of the ring, and some bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Len(usize, usize);

impl Len {
    fn of(self, size: usize) -> usize {
        self.0 * size / 8 + self.1
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Call {
    /// Puts several buffers, then flushes.
    Send {
        parts: Vec<Len>,
        segment: Len,
    },
    /// Reserves, fills a part, publishes it.
    Fill {
        want: Len,
        got: Len,
    },
    Take(Len),
    Peek {
        len: Len,
        skip: Len,
    },
    Discard(Len),
    /// Sleeps until there is room, or there are bytes.
    AwaitRoom,
    AwaitBytes,
    /// Time passes.
    Settle,
}

/// A call of a side.
pub(crate) type Op = (usize, Call);

fn len() -> impl Strategy<Value = Len> {
    prop_oneof![
        3 => (Just(0_usize), 0_usize..40),
        2 => (0_usize..=9, 0_usize..3),
    ]
    .prop_map(|(parts, bytes)| Len(parts, bytes))
}

/// Calls to check.
pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let call = prop_oneof![
        4 => (proptest::collection::vec(len(), 1..4), len())
            .prop_map(|(parts, segment)| Call::Send { parts, segment }),
        1 => (len(), len()).prop_map(|(want, got)| Call::Fill { want, got }),
        4 => len().prop_map(Call::Take),
        1 => (len(), len()).prop_map(|(len, skip)| Call::Peek { len, skip }),
        1 => len().prop_map(Call::Discard),
        1 => Just(Call::AwaitRoom),
        1 => Just(Call::AwaitBytes),
        2 => Just(Call::Settle),
    ];
    proptest::collection::vec((0_usize..2, call), 1..60)
}

/// What a direction should hold, and who sleeps at its ends.
#[derive(Default)]
struct Direction {
    queue: VecDeque<u8>,
    sent: usize,
    sender_sleeps: bool,
    receiver_sleeps: bool,
}

impl Direction {
    fn next(&self, len: usize) -> Vec<u8> {
        sample(self.sent, len)
    }
    fn sent(&mut self, bytes: &[u8]) {
        self.sent += bytes.len();
        self.queue.extend(bytes);
    }
}

struct Model<P> {
    ends: Ends<P>,
    /// The n-th is filled by side n.
    ways: [Direction; 2],
    /// Nothing is under way.
    settled: bool,
}

/// Runs the calls, then lets all sleepers have what they wait for.
pub(crate) fn check<P: Pair>(pair: P, ops: &[Op]) {
    let mut model = Model { ends: Ends::new(pair), ways: Default::default(), settled: true };
    for (side, call) in ops {
        model.apply(*side, call);
        model.bells();
    }
    for side in [0, 1] {
        let expected: Vec<u8> = model.ways[side].queue.drain(..).collect();
        assert_eq!(model.ends.take_all(1 - side), expected);
        model.ends.pair.settle();
        model.bells();
        assert!(!model.ways[side].sender_sleeps, "side {side} still waits for room");
        if model.ways[side].receiver_sleeps {
            let bytes = model.ways[side].next(1);
            assert_eq!(model.ends.send(side, &bytes, 1), 1);
            model.ways[side].sent(&bytes);
            model.ends.pair.settle();
            model.bells();
        }
        assert!(!model.ways[side].receiver_sleeps, "side {} still waits for bytes", 1 - side);
    }
}

impl<P: Pair> Model<P> {
    /// Sleepers whose bell rang look, and ask again if there is nothing for them.
    fn bells(&mut self) {
        for side in [0, 1] {
            if self.ends.pair.rung(side) {
                self.look(side);
            }
        }
    }

    fn look(&mut self, side: usize) {
        if !self.ways[side].sender_sleeps && !self.ways[1 - side].receiver_sleeps {
            return;
        }
        self.ends.pair.arm(side);
        if self.ways[side].sender_sleeps {
            self.ways[side].sender_sleeps = !self.ends.tx(side).block().unwrap();
        }
        if self.ways[1 - side].receiver_sleeps {
            self.ways[1 - side].receiver_sleeps = self.ends.rx(side).ready().unwrap() == 0;
        }
    }

    fn apply(&mut self, side: usize, call: &Call) {
        let out = self.ends.pair.size(side);
        let back = self.ends.pair.size(1 - side);
        match call {
            Call::Send { parts, segment } => {
                for part in parts {
                    self.send(side, part.of(out), segment.of(out));
                }
                self.settled = false;
            }
            Call::Fill { want, got } => self.fill(side, want.of(out), got.of(out)),
            Call::Take(len) => self.take(side, len.of(back)),
            Call::Peek { len, skip } => self.peek(side, len.of(back), skip.of(back)),
            Call::Discard(len) => {
                let n = self.ends.rx(side).discard(len.of(back)).unwrap();
                self.ends.rx(side).done();
                self.took(side, len.of(back), n);
            }
            Call::AwaitRoom => {
                self.ways[side].sender_sleeps = true;
                self.look(side);
            }
            Call::AwaitBytes => {
                self.ways[1 - side].receiver_sleeps = true;
                self.look(side);
            }
            Call::Settle => {
                self.ends.pair.settle();
                self.settled = true;
            }
        }
    }

    fn send(&mut self, side: usize, len: usize, segment: usize) {
        let bytes = self.ways[side].next(len);
        let free = self.ends.pair.size(side) - self.ways[side].queue.len();
        let mut sender = self.ends.tx(side);
        let room = sender.room().unwrap();
        assert!(room <= free);
        let put = sender.put(bytes.as_slice().into(), segment).unwrap();
        assert!(put <= len.min(free), "{put} of {len} put into {free}");
        assert!(put > 0 || len == 0 || room == 0, "nothing put into {room}");
        sender.flush();
        drop(sender);
        self.ways[side].sent(&bytes[..put]);
    }

    fn fill(&mut self, side: usize, want: usize, got: usize) {
        let free = self.ends.pair.size(side) - self.ways[side].queue.len();
        let mut sender = self.ends.tx(side);
        let pieces = sender.reserve(want).unwrap();
        let total: usize = pieces.iter().map(|piece| piece.len).sum();
        assert!(total <= want.min(free));
        let bytes = self.ways[side].next(got.min(total));
        fill(pieces, &bytes);
        if !bytes.is_empty() {
            sender.filled(bytes.len());
            self.settled = false;
        }
        drop(sender);
        self.ways[side].sent(&bytes);
    }

    fn take(&mut self, side: usize, len: usize) {
        let got = self.ends.take(side, len);
        let expected: Vec<u8> = self.ways[1 - side].queue.iter().take(got.len()).copied().collect();
        assert_eq!(got, expected);
        self.took(side, len, got.len());
    }

    fn peek(&mut self, side: usize, len: usize, skip: usize) {
        let queue = &self.ways[1 - side].queue;
        let mut buf = vec![0; len];
        let mut receiver = self.ends.rx(side);
        let queued = receiver.queued().unwrap();
        assert!(queued <= queue.len());
        let n = receiver.peek(buf.as_mut_slice().into(), skip).unwrap();
        assert!(n >= len.min(queued.saturating_sub(skip)));
        assert!(n <= len.min(queue.len().saturating_sub(skip)));
        assert!(buf[..n].iter().eq(queue.iter().skip(skip).take(n)));
    }

    /// `n` bytes of `asked` are gone: as many as there were, once nothing is under way.
    fn took(&mut self, side: usize, asked: usize, n: usize) {
        let queue = &mut self.ways[1 - side].queue;
        assert!(n <= asked.min(queue.len()));
        if self.settled {
            assert_eq!(n, asked.min(queue.len()));
        }
        queue.drain(..n);
    }
}
