//! The two halves of a connection over a ring.
use super::device::Device;
use super::group::Group;
use crate::arena::{Conn, Rx, Tx};
use crate::ring::{Consumer, Producer, RingError, RingMem, Violation};
use crate::shm::layout::Line;
use crate::sync::Ordering;
use crate::sys::copy::{InBuf, OutBuf};
use crate::transport::{Receiver, Sender};

/// The sending half.
#[derive(Debug)]
pub(crate) struct Loopback<'a> {
    producer: Producer<'a>,
    conn: &'a Conn,
    device: &'a Device,
    group: &'a Group,
    /// Bytes behind the last announcement.
    quiet: usize,
}

impl<'a> Loopback<'a> {
    /// The half of a connection whose `tx` is locked.
    #[inline(always)]
    pub(crate) fn sender(
        (device, group): (&'a Device, &'a Group),
        conn: &'a Conn,
        own: &'a Line,
        peer: &'a Line,
        tx: &'a mut Tx,
    ) -> Self {
        let size = group.ring(conn.slot.load(Ordering::Relaxed) as usize, true).1;
        // SAFETY: requires a mapped range that nobody has references to: the ring of a slot of a
        // group that stays mapped while it has connections, touched by copies only.
        let ring = unsafe { RingMem::new(tx.ring as *mut u8, size) };
        let producer = Producer::new(own, peer, &mut tx.half, ring);
        Self { producer, conn, device, group, quiet: 0 }
    }

    /// The producer, for a system call that fills the ring.
    pub(crate) fn producer(&mut self) -> &mut Producer<'a> {
        &mut self.producer
    }

    /// After a write: the wish for room is taken back where there is enough.
    #[inline(always)]
    pub(crate) fn unblock(&mut self) {
        if self.producer.clear_blocked() {
            self.group.announce_own(self.conn, self.device);
        }
    }

    /// Tells the peer of what was published.
    pub(crate) fn announce(&mut self) {
        self.quiet = 0;
        self.group.announce(self.conn, self.device);
    }
}

impl Sender for Loopback<'_> {
    #[inline(always)]
    fn put(&mut self, data: InBuf<'_>, segment: usize) -> Result<usize, RingError> {
        if data.len() <= segment {
            // Published by `flush`, together with the next buffers.
            let n = self.producer.stage(data)?;
            self.quiet += n;
            if self.quiet >= segment {
                self.flush();
            }
            return Ok(n);
        }
        self.flush();
        let (group, conn, device) = (self.group, self.conn, self.device);
        let put = self.producer.write(data, segment, || group.announce(conn, device));
        self.unblock();
        put
    }

    #[inline(always)]
    fn flush(&mut self) {
        if self.quiet > 0 {
            self.producer.commit();
            self.announce();
            self.unblock();
        }
    }

    fn room(&mut self) -> Result<usize, Violation> {
        let enough = self.producer.low_water();
        self.producer.space(enough)
    }

    fn block(&mut self) -> Result<bool, Violation> {
        let enough = self.producer.low_water();
        // Relaxed: counts edges; who tells of them looks at the ring itself.
        self.conn.full.fetch_add(1, Ordering::Relaxed);
        self.producer.mark_blocked();
        Ok(self.producer.space(enough)? >= enough)
    }

    fn unread(&mut self) -> Result<usize, Violation> {
        self.producer.used()
    }
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct LoopbackRx<'a> {
    consumer: Consumer<'a>,
    conn: &'a Conn,
    device: &'a Device,
    group: &'a Group,
}

impl<'a> LoopbackRx<'a> {
    /// The half of a connection whose `rx` is locked.
    #[inline(always)]
    pub(crate) fn new(
        (device, group): (&'a Device, &'a Group),
        conn: &'a Conn,
        own: &'a Line,
        peer: &'a Line,
        rx: &'a mut Rx,
    ) -> Self {
        let size = group.ring(conn.slot.load(Ordering::Relaxed) as usize, false).1;
        // SAFETY: as in `Loopback::sender`.
        let ring = unsafe { RingMem::new(rx.ring as *mut u8, size) };
        Self { consumer: Consumer::new(own, peer, &mut rx.half, ring), conn, device, group }
    }


    /// All bytes there are, as the peer says now.
    pub(crate) fn queued(&mut self) -> Result<usize, Violation> {
        self.consumer.queued()
    }
}

impl Receiver for LoopbackRx<'_> {
    #[inline(always)]
    fn ready(&mut self) -> Result<usize, Violation> {
        self.consumer.available()
    }
    #[inline(always)]
    fn take(&mut self, into: OutBuf<'_>) -> Result<usize, RingError> {
        self.consumer.read(into)
    }
    fn peek(&mut self, into: OutBuf<'_>, skip: usize) -> Result<usize, RingError> {
        self.consumer.peek(into, skip)
    }
    fn discard(&mut self, n: usize) -> Result<usize, Violation> {
        self.consumer.discard(n)
    }
    #[inline(always)]
    fn done(&mut self) {
        if self.consumer.publish_cons() {
            self.group.announce(self.conn, self.device);
        }
    }
}
