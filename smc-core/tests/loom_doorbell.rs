//! Nobody sleeps through news: a lost wake-up is a deadlock, which loom finds.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p smc-core --release --test loom_doorbell`
#![cfg(loom)]
#![allow(clippy::unwrap_used, clippy::panic)]

mod loom_common;

use loom::sync::Arc;
use loom::thread;
use loom_common::{check, Bell, Duct, SIZE};
use smc_core::ring::{doorbell, RxHalf};
use smc_core::shm::layout::WaitSlot;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Two connections of one group; they share the receiver's slots and its bell.
struct World {
    ducts: Vec<Duct>,
    slots: [WaitSlot; 2],
    bell: Bell,
}

impl World {
    fn new(conns: usize) -> Arc<Self> {
        let slots = [WaitSlot::default(), WaitSlot::default()];
        let ducts = (0..conns).map(|_| Duct::new(0)).collect();
        Arc::new(Self { ducts, slots, bell: Bell::default() })
    }

    /// Sends `messages` of one byte on connection `conn`, and announces each.
    fn send(world: &Arc<Self>, conn: usize, messages: u8) -> thread::JoinHandle<()> {
        let world = world.clone();
        thread::spawn(move || {
            let duct = &world.ducts[conn];
            let mut half = duct.tx();
            for n in 0..messages {
                let mut producer = duct.producer(&mut half);
                let announce = || {
                    doorbell::announce(conn, &duct.b, &world.slots, || {}, |_| world.bell.ring());
                };
                assert_eq!(producer.write([n].as_slice().into(), SIZE, announce), Ok(1));
            }
        })
    }

    /// Takes what connection `conn` holds: how many bytes.
    fn take(&self, conn: usize, half: &mut RxHalf) -> usize {
        let mut consumer = self.ducts[conn].consumer(half);
        let mut buf = [0; SIZE];
        let n = consumer.read(buf.as_mut_slice().into()).unwrap();
        consumer.publish_cons();
        n
    }

    /// An epoll instance with slot 0: waits until `wanted` bytes have come in all.
    fn epoll(&self, halves: &mut [RxHalf], mut got: usize, wanted: usize, slept: &AtomicUsize) {
        let slot = &self.slots[0];
        while got < wanted {
            let mut news = false;
            doorbell::take_ready(slot, |conn| {
                news = true;
                got += self.take(conn, &mut halves[conn]);
            });
            if news {
                continue;
            }
            doorbell::arm(slot);
            if !doorbell::any_ready(slot) {
                slept.fetch_add(1, Ordering::Relaxed);
                self.bell.wait();
            }
            doorbell::disarm(slot);
        }
    }
}

#[test]
fn a_thread_that_waits_for_one_connection_is_woken() {
    static SLEPT: AtomicUsize = AtomicUsize::new(0);
    check(3, || {
        let world = World::new(1);
        let sender = World::send(&world, 0, 2);
        let (slot, want) = (&world.slots[1], &world.ducts[0].b.want_bell);
        let mut half = world.ducts[0].rx();
        let mut got = 0;
        doorbell::want(want, 1);
        while got < 2 {
            doorbell::arm(slot);
            match world.take(0, &mut half) {
                0 => {
                    SLEPT.fetch_add(1, Ordering::Relaxed);
                    world.bell.wait();
                }
                n => got += n,
            }
            doorbell::disarm(slot);
        }
        doorbell::unwant(want, 1);
        sender.join().unwrap();
    });
    assert_ne!(SLEPT.load(Ordering::Relaxed), 0);
}

#[test]
fn a_thread_that_waits_anew_each_time_is_woken() {
    check(3, || {
        let world = World::new(1);
        let sender = World::send(&world, 0, 2);
        let (slot, want) = (&world.slots[1], &world.ducts[0].b.want_bell);
        let mut half = world.ducts[0].rx();
        let mut got = 0;
        while got < 2 {
            got += world.take(0, &mut half);
            if got < 2 {
                doorbell::want(want, 1);
                doorbell::arm(slot);
                match world.take(0, &mut half) {
                    0 => world.bell.wait(),
                    n => got += n,
                }
                doorbell::disarm(slot);
                doorbell::unwant(want, 1);
            }
        }
        sender.join().unwrap();
    });
}

#[test]
fn who_is_called_does_not_sleep_on() {
    static SLEPT: AtomicUsize = AtomicUsize::new(0);
    check(3, || {
        let world = World::new(0);
        // What a caller publishes; loom reports a race.
        let left = Arc::new(loom::cell::Cell::new(0));
        let caller = thread::spawn({
            let (world, left) = (world.clone(), left.clone());
            move || {
                left.set(1);
                doorbell::call_all(&world.slots[..1], |_| world.bell.ring());
            }
        });
        let slot = &world.slots[0];
        doorbell::arm(slot);
        if !doorbell::was_called(slot) {
            SLEPT.fetch_add(1, Ordering::Relaxed);
            world.bell.wait();
            assert!(doorbell::was_called(slot));
        }
        assert_eq!(left.get(), 1);
        assert!(!doorbell::was_called(slot));
        caller.join().unwrap();
    });
    assert_ne!(SLEPT.load(Ordering::Relaxed), 0);
}

#[test]
fn an_epoll_instance_hears_of_each_message() {
    static SLEPT: AtomicUsize = AtomicUsize::new(0);
    check(3, || {
        let world = World::new(1);
        doorbell::want(&world.ducts[0].b.want_ready, 0);
        let sender = World::send(&world, 0, 2);
        world.epoll(&mut [world.ducts[0].rx()], 0, 2, &SLEPT);
        sender.join().unwrap();
    });
    assert_ne!(SLEPT.load(Ordering::Relaxed), 0);
}

#[test]
fn an_epoll_instance_hears_of_each_connection() {
    static SLEPT: AtomicUsize = AtomicUsize::new(0);
    check(2, || {
        let world = World::new(2);
        for duct in &world.ducts {
            doorbell::want(&duct.b.want_ready, 0);
        }
        let senders = [World::send(&world, 0, 1), World::send(&world, 1, 1)];
        let mut halves = [world.ducts[0].rx(), world.ducts[1].rx()];
        world.epoll(&mut halves, 0, 2, &SLEPT);
        for sender in senders {
            sender.join().unwrap();
        }
    });
    assert_ne!(SLEPT.load(Ordering::Relaxed), 0);
}

#[test]
fn news_during_the_registration_are_found() {
    static SLEPT: AtomicUsize = AtomicUsize::new(0);
    check(3, || {
        let world = World::new(1);
        let sender = World::send(&world, 0, 1);
        let mut halves = [world.ducts[0].rx()];
        // As EPOLL_CTL_ADD does it: what came before the wish was seen is looked for once.
        doorbell::want(&world.ducts[0].b.want_ready, 0);
        let got = world.take(0, &mut halves[0]);
        world.epoll(&mut halves, got, 1, &SLEPT);
        sender.join().unwrap();
    });
    assert_ne!(SLEPT.load(Ordering::Relaxed), 0);
}
