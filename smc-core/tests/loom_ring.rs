//! The ring under loom: every order of every access, with races on the payload found.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p smc-core --release --test loom_ring`
#![cfg(loom)]
#![allow(clippy::unwrap_used, clippy::panic)]

mod loom_common;

use loom::sync::{Arc, Mutex};
use loom::thread;
use loom_common::{check, Bell, Duct, SIZE};
use smc_core::ring::{cursor, doorbell};
use smc_core::sync::Ordering::Relaxed;
use std::sync::atomic::{AtomicUsize, Ordering};

fn bytes(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|n| n as u8).collect()
}

/// Sends messages of the given lengths, as fast as they fit; returns the position at the end.
fn send(duct: &Duct, lens: &[usize]) -> u64 {
    let mut half = duct.tx();
    let mut sent = 0;
    for len in lens {
        let message = bytes(sent, *len);
        let mut done = 0;
        while done < *len {
            match duct.producer(&mut half).write(message[done..].into(), SIZE, || ()).unwrap() {
                0 => thread::yield_now(),
                n => done += n,
            }
        }
        sent += len;
    }
    half.pos()
}

/// Receives `total` bytes in reads of at most `len`; returns the position at the end.
fn receive(duct: &Duct, total: usize, len: usize) -> u64 {
    let mut half = duct.rx();
    let mut got: Vec<u8> = Vec::new();
    while got.len() < total {
        let mut buf = vec![0; len];
        match duct.consumer(&mut half).read(buf.as_mut_slice().into()).unwrap() {
            0 => thread::yield_now(),
            n => got.extend(&buf[..n]),
        }
        duct.consumer(&mut half).publish_cons();
    }
    assert_eq!(got, bytes(0, total));
    half.pos()
}

#[test]
fn a_stream_wraps() {
    check(2, || {
        let duct = Arc::new(Duct::new(0));
        let sender = thread::spawn({
            let duct = duct.clone();
            move || send(&duct, &[13, 9])
        });
        let end = receive(&duct, 22, 7);
        assert_eq!(sender.join().unwrap(), end);
    });
}

#[test]
fn a_producer_starts_laps_while_the_consumer_looks() {
    static SKIPPED: AtomicUsize = AtomicUsize::new(0);
    static STAYED: AtomicUsize = AtomicUsize::new(0);
    check(3, || {
        let duct = Arc::new(Duct::new(u64::MAX - 15));
        let sender = thread::spawn({
            let duct = duct.clone();
            move || send(&duct, &[3, 3, 3])
        });
        let end = receive(&duct, 9, 4);
        assert_eq!(sender.join().unwrap(), end);
        let counter = if end == cursor::next_lap(end, SIZE) - 7 { &STAYED } else { &SKIPPED };
        counter.fetch_add(1, Ordering::Relaxed);
    });
    // Both ways were taken, or the test has shown nothing.
    assert_ne!(SKIPPED.load(Ordering::Relaxed), 0);
    assert_ne!(STAYED.load(Ordering::Relaxed), 0);
}

/// A full ring, a producer that sleeps until it is told, and a consumer that takes `reads` and then
/// goes away: a forgotten producer is a deadlock, which loom finds.
fn blocked_producer_is_told(reads: &'static [usize], more: usize) {
    // Of this call alone: the models run at the same time.
    let slept = std::sync::Arc::new(AtomicUsize::new(0));
    let counter = slept.clone();
    check(3, move || {
        let duct = Arc::new(Duct::new(0));
        let bell = Arc::new(Bell::default());
        let mut half = duct.tx();
        let full = bytes(0, SIZE);
        assert_eq!(duct.producer(&mut half).write(full.as_slice().into(), SIZE, || ()), Ok(SIZE));
        let sender = thread::spawn({
            let (duct, bell, slept) = (duct.clone(), bell.clone(), counter.clone());
            move || {
                let message = bytes(SIZE, more);
                let mut done = 0;
                while done < more {
                    let mut producer = duct.producer(&mut half);
                    done += producer.write(message[done..].into(), SIZE, || ()).unwrap();
                    if done == more {
                        break;
                    }
                    // As a blocking send does it.
                    let want = producer.low_water().min(more - done);
                    let slot = &duct.slots[1];
                    doorbell::want(&duct.a.want_bell, 1);
                    doorbell::arm(slot);
                    producer.mark_blocked();
                    if producer.space(want).unwrap() < want {
                        slept.fetch_add(1, Ordering::Relaxed);
                        bell.wait();
                    }
                    doorbell::disarm(slot);
                    doorbell::unwant(&duct.a.want_bell, 1);
                    // Nobody else waits.
                    let _ = producer.clear_blocked();
                }
            }
        });
        let mut half = duct.rx();
        let mut got: Vec<u8> = Vec::new();
        for len in reads {
            let mut buf = vec![0; *len];
            let mut consumer = duct.consumer(&mut half);
            let n = consumer.read(buf.as_mut_slice().into()).unwrap();
            got.extend(&buf[..n]);
            if consumer.publish_cons() {
                doorbell::announce(
                    0,
                    &duct.a,
                    &duct.slots,
                    || {},
                    |slot| {
                        assert_eq!(slot, 1);
                        bell.ring();
                    },
                );
            }
        }
        sender.join().unwrap();
        let mut rest = vec![0; 2 * SIZE];
        let n = duct.consumer(&mut half).read(rest.as_mut_slice().into()).unwrap();
        got.extend(&rest[..n]);
        assert_eq!(got, bytes(0, SIZE + more));
        assert_eq!(duct.a.want_bell.load(Relaxed), 0);
    });
    assert_ne!(slept.load(Ordering::Relaxed), 0);
}

#[test]
fn a_blocked_producer_is_told_by_one_big_read() {
    blocked_producer_is_told(&[SIZE], 3);
}

#[test]
fn a_blocked_producer_is_told_by_small_reads() {
    blocked_producer_is_told(&[3, 3, 2], 4);
}

#[test]
fn a_blocked_producer_is_told_by_uneven_reads() {
    blocked_producer_is_told(&[1, 5, 6], 8);
}

/// Of two senders on a full ring one sleeps for space, and the other writes at once what fits.
#[test]
fn a_blocked_producer_is_told_when_another_writes() {
    check(2, || {
        let duct = Arc::new(Duct::new(0));
        let bell = Arc::new(Bell::default());
        let mut half = duct.tx();
        let full = bytes(0, SIZE);
        assert_eq!(duct.producer(&mut half).write(full.as_slice().into(), SIZE, || ()), Ok(SIZE));
        let half = Arc::new(Mutex::new(half));
        let sleeper = thread::spawn({
            let (duct, bell, half) = (duct.clone(), bell.clone(), half.clone());
            move || loop {
                doorbell::want(&duct.a.want_bell, 1);
                doorbell::arm(&duct.slots[1]);
                let mut half = half.lock().unwrap();
                let mut producer = duct.producer(&mut half);
                let want = producer.low_water();
                if producer.space(want).unwrap() >= want {
                    break;
                }
                producer.mark_blocked();
                if producer.space(want).unwrap() >= want {
                    break;
                }
                drop(half);
                bell.wait();
            }
        });
        let writer = thread::spawn({
            let (duct, bell, half) = (duct.clone(), bell.clone(), half.clone());
            move || {
                let mut half = half.lock().unwrap();
                let mut producer = duct.producer(&mut half);
                let message = bytes(SIZE, 2);
                let n = producer.write(message.as_slice().into(), SIZE, || ()).unwrap();
                if producer.clear_blocked() {
                    doorbell::announce(0, &duct.a, &duct.slots, || {}, |_| bell.ring());
                }
                n
            }
        });
        let mut half = duct.rx();
        let mut buf = [0; 7];
        let mut consumer = duct.consumer(&mut half);
        assert_eq!(consumer.read(buf.as_mut_slice().into()), Ok(7));
        if consumer.publish_cons() {
            doorbell::announce(0, &duct.a, &duct.slots, || {}, |_| bell.ring());
        }
        sleeper.join().unwrap();
        let more = writer.join().unwrap();
        let mut rest = vec![0; SIZE];
        let n = duct.consumer(&mut half).read(rest.as_mut_slice().into()).unwrap();
        assert_eq!(rest[..n], bytes(7, SIZE - 7 + more));
    });
}
