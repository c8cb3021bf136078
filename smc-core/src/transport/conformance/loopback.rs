//! The loopback: two devices and the two ends of a link group, in one process.
use super::{conformance, Pair};
use crate::arena::{flag, Arena, Conn, Rx, Tx};
use crate::ring::{doorbell, Violation};
use crate::shm::layout::{flags, Line};
use crate::sync::Ordering;
use crate::sys::{mem, raw, scm};
use crate::transport::loopback::{Region, Device, Geometry, Group, Loopback, Queue, Remote};
use crate::transport::mock::halves;
use crate::transport::Peer;
use libc::c_int;

/// Side 0 is the client. Its direction has the smaller ring.
const GEOMETRY: Geometry = Geometry { c2s: 0, s2c: 1 };

struct LoopbackPair {
    devices: [Device; 2],
    groups: [Group; 2],
    conns: [u32; 2],
    queues: [usize; 2],
}

/// Both ends of a control channel.
fn sockets() -> [c_int; 2] {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let [listener, client] = [(); 2].map(|()| raw::socket(libc::AF_UNIX, kind, 0).unwrap());
    let mut name = [0; 16];
    assert!(raw::random(&mut name));
    let mut address = [0; 64];
    let len = scm::abstract_address(&name, &mut address);
    raw::bind(listener, &address[..len]).unwrap();
    raw::listen(listener, 1).unwrap();
    raw::connect(client, &address[..len]).unwrap();
    let server = raw::accept(listener).unwrap();
    raw::close(listener);
    [client, server]
}

impl LoopbackPair {
    fn new() -> Self {
        let devices = [(); 2].map(|()| Device::new(Arena::create(|fd| fd).unwrap(), None).unwrap());
        let memfd = mem::sealed_memfd(c"smc-test", GEOMETRY.region_len()).unwrap();
        let sockets = sockets();
        let groups = [0, 1].map(|side| {
            let region = Region::of(memfd, GEOMETRY).unwrap();
            region.publish();
            let remote = Remote { client: side == 0, gid: [0; 16], uid: 0, control: sockets[side] };
            Group::new(0, remote, region, -1)
        });
        raw::close(memfd);
        let conns = [0, 1].map(|side| devices[side].arena.allocate(raw::getpid()).unwrap().0);
        let slot = groups[0].take_conn(conns[0]).unwrap();
        groups[1].put_conn(slot, conns[1]);
        groups[0].header(slot).reset(&[0; 16]);
        let queues = [0, 1].map(|side| devices[side].queues.take().unwrap().index());
        let pair = Self { devices, groups, conns, queues };
        pair.conn(0).raise(flag::CLIENT);
        for side in [0, 1] {
            pair.conn(side).slot.store(slot as u32, Ordering::Relaxed);
        }
        pair
    }

    fn conn(&self, side: usize) -> &Conn {
        self.devices[side].arena.conn(self.conns[side]).unwrap()
    }

    fn lines(&self, side: usize) -> (&Line, &Line) {
        self.groups[side].lines(self.conn(side))
    }

    fn queue(&self, side: usize) -> &Queue {
        self.devices[side].queues.get(self.queues[side]).unwrap()
    }
}

impl Drop for LoopbackPair {
    fn drop(&mut self) {
        for side in [0, 1] {
            self.groups[side].close_fds();
            self.devices[side].queues.after_fork(|_| false);
            raw::close(self.devices[side].arena.fd);
        }
    }
}

impl Pair for LoopbackPair {
    type Link<'p> = Loopback<'p>;

    fn link(&self, side: usize) -> Loopback<'_> {
        Loopback::new(self.conn(side), &self.devices[side], &self.groups[side])
    }

    fn halves(&self, _: usize) -> (Tx, Rx) {
        halves()
    }

    fn size(&self, side: usize) -> usize {
        self.groups[side].ring_size(true)
    }

    /// Memory is never late; messages wait until somebody reads them, as a sleeper does.
    fn settle(&self) {
        for side in [0, 1] {
            self.groups[side].drain(&self.devices[side]);
        }
    }

    fn arm(&self, side: usize) {
        let slot = self.queue(side).slot_in(&self.groups[side]).unwrap();
        doorbell::want(&self.lines(side).0.want_bell, slot);
        doorbell::arm(&self.groups[side].own_slots()[slot]);
    }

    fn rung(&self, side: usize) -> bool {
        let bell = self.queue(side).bell();
        let rung = raw::poll_now(bell, libc::POLLIN) != 0;
        if rung {
            raw::eventfd_clear(bell);
        }
        rung
    }

    fn corrupt(&self, side: usize, violation: Violation) {
        let (own, peer) = self.lines(side);
        match violation {
            Violation::Prod => peer.prod.fetch_add(1 << 20, Ordering::Relaxed),
            Violation::Cons => {
                peer.cons.swap(own.prod.load(Ordering::Relaxed) + 1, Ordering::Relaxed)
            }
        };
    }

    fn say(&self, side: usize, Peer { closed, done_writing, .. }: Peer) {
        let closed = if closed { flags::CLOSED } else { 0 };
        let done = if done_writing { flags::DONE_WRITING } else { 0 };
        self.lines(side).0.flags.fetch_or(closed | done, Ordering::Release);
    }

    fn kill(&self, side: usize) {
        raw::shutdown(self.groups[side].control(), libc::SHUT_RDWR).unwrap();
    }
}

conformance!(LoopbackPair::new());
