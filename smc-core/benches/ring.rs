//! What a byte costs: on one thread, and there and back between two.
#![cfg_attr(loom, allow(unused))]
#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use smc_core::ring::{Consumer, Producer, RingMem, RxHalf, TxHalf};
use smc_core::shm::layout::Line;
use smc_core::sys::copy::{copy_in, InBuf};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const RING: usize = 128 * 1024;

/// One direction, on the heap.
#[derive(Default)]
struct Duct {
    a: Line,
    b: Line,
    bytes: usize,
}

impl Duct {
    fn new() -> Self {
        let bytes = Box::leak(vec![0_u8; RING + 4096].into_boxed_slice()).as_mut_ptr() as usize;
        Self { bytes: bytes.next_multiple_of(4096), ..Self::default() }
    }

    fn ring(&self) -> RingMem {
        // SAFETY: requires memory that lives on without references: it has been leaked.
        unsafe { RingMem::new(self.bytes as *mut u8, RING) }
    }

    fn write(&self, half: &mut TxHalf, message: &[u8]) -> usize {
        let mut producer = Producer::new(&self.a, &self.b, half, self.ring());
        producer.write(message.into(), RING / 2, || ()).unwrap_or(0)
    }

    fn read(&self, half: &mut RxHalf, buf: &mut [u8]) -> usize {
        let mut consumer = Consumer::new(&self.b, &self.a, half, self.ring());
        let n = consumer.read(buf.into()).unwrap_or(0);
        consumer.publish_cons();
        n
    }

    fn read_all(&self, half: &mut RxHalf, buf: &mut [u8], stop: &AtomicBool) -> bool {
        let mut got = 0;
        while got < buf.len() {
            match self.read(half, &mut buf[got..]) {
                0 if stop.load(Ordering::Relaxed) => return false,
                0 => spin_loop(),
                n => got += n,
            }
        }
        true
    }
}

fn one_thread(c: &mut Criterion) {
    let mut group = c.benchmark_group("write+read");
    for len in [64, 4096, 65536] {
        let duct = Duct::new();
        let (mut tx, mut rx) = (TxHalf::default(), RxHalf::default());
        let (message, mut buf) = (vec![1; len], vec![0; len]);
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(len.to_string(), |b| {
            b.iter(|| {
                duct.write(&mut tx, black_box(&message));
                duct.read(&mut rx, black_box(&mut buf))
            });
        });
    }
}

fn two_threads(c: &mut Criterion) {
    let mut group = c.benchmark_group("ping-pong");
    for len in [64, 4096, 65536] {
        let (there, back) = (Duct::new(), Duct::new());
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut tx, mut rx) = (TxHalf::default(), RxHalf::default());
                let mut buf = vec![0; len];
                while there.read_all(&mut rx, &mut buf, &stop) {
                    back.write(&mut tx, &buf);
                }
            });
            let (mut tx, mut rx) = (TxHalf::default(), RxHalf::default());
            let (message, mut buf) = (vec![1; len], vec![0; len]);
            group.throughput(Throughput::Bytes(2 * len as u64));
            group.bench_function(len.to_string(), |b| {
                b.iter(|| {
                    there.write(&mut tx, black_box(&message));
                    back.read_all(&mut rx, &mut buf, &stop)
                });
            });
            stop.store(true, Ordering::Relaxed);
        });
    }
}

/// The copy routine alone, beside the compiler's.
fn copy(c: &mut Criterion) {
    let mut group = c.benchmark_group("copy");
    for len in [16, 64, 200, 512, 1024, 2048, 4096, 16384, 65536] {
        let (from, mut to) = (vec![1_u8; len + 64], vec![0_u8; len + 64]);
        group.throughput(Throughput::Bytes(len as u64));
        for (name, offset) in [("aligned", 0), ("odd", 3)] {
            group.bench_function(format!("{name}/{len}"), |b| {
                b.iter(|| {
                    let from: InBuf<'_> = black_box(&from[offset..offset + len]).into();
                    let to = black_box(&mut to[..len]);
                    // SAFETY: requires a target of that length: sliced above.
                    unsafe { copy_in(to.as_mut_ptr(), from) }
                });
            });
        }
        group.bench_function(format!("memcpy/{len}"), |b| {
            b.iter(|| black_box(&mut to[..len]).copy_from_slice(black_box(&from[..len])));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500))
        .without_plots();
    targets = one_thread, two_threads, copy
}
criterion_main!(benches);
