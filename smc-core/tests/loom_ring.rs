//! The ring under loom: every order of every access, with races on the payload found.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p smc-core --release --test loom_ring`
#![cfg(loom)]
#![allow(clippy::unwrap_used, clippy::panic)]

mod loom_common;

use loom::sync::Arc;
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
    static SLEPT: AtomicUsize = AtomicUsize::new(0);
    SLEPT.store(0, Ordering::Relaxed);
    check(3, move || {
        let duct = Arc::new(Duct::new(0));
        let bell = Arc::new(Bell::default());
        let mut half = duct.tx();
        let full = bytes(0, SIZE);
        assert_eq!(duct.producer(&mut half).write(full.as_slice().into(), SIZE, || ()), Ok(SIZE));
        let sender = thread::spawn({
            let (duct, bell) = (duct.clone(), bell.clone());
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
                        SLEPT.fetch_add(1, Ordering::Relaxed);
                        bell.wait();
                    }
                    doorbell::disarm(slot);
                    doorbell::unwant(&duct.a.want_bell, 1);
                    producer.clear_blocked();
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
                doorbell::announce(0, &duct.a, &duct.slots, |slot| {
                    assert_eq!(slot, 1);
                    bell.ring();
                });
            }
        }
        sender.join().unwrap();
        let mut rest = vec![0; 2 * SIZE];
        let n = duct.consumer(&mut half).read(rest.as_mut_slice().into()).unwrap();
        got.extend(&rest[..n]);
        assert_eq!(got, bytes(0, SIZE + more));
        assert_eq!(duct.a.want_bell.load(Relaxed), 0);
    });
    assert_ne!(SLEPT.load(Ordering::Relaxed), 0);
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
