//! One end of a connection over a ring, and its two halves.
use super::device::Device;
use super::group::Group;
use crate::arena::{Conn, Rx, Tx};
use crate::ring::{Consumer, Piece, Producer, RingError, RingMem, TxHalf, Violation};
use crate::shm::layout::{flags, Line};
use crate::sync::{fence_after_rmw, Ordering};
use crate::sys::copy::{InBuf, OutBuf};
use crate::transport::{Copied, Link, Peer, Receiver, Sender};

/// This process's end of a connection whose slot is in a link group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loopback<'a> {
    conn: &'a Conn,
    device: &'a Device,
    group: &'a Group,
    own: &'a Line,
    peer: &'a Line,
}

impl<'a> Loopback<'a> {
    /// The group is that in which the connection has its slot.
    #[inline(always)]
    pub(crate) fn new(conn: &'a Conn, device: &'a Device, group: &'a Group) -> Self {
        let (own, peer) = group.lines(conn);
        Self { conn, device, group, own, peer }
    }

    /// The ring that this end fills (`tx`) or drains.
    #[inline(always)]
    fn ring(self, tx: bool) -> RingMem {
        self.group.ring(self.conn.slot.load(Ordering::Relaxed) as usize, tx)
    }

    /// Tells the peer of what was published.
    #[inline(always)]
    fn announce(self) {
        let slot = self.conn.slot.load(Ordering::Relaxed) as usize;
        self.group.announce(slot, (self.own, self.peer), self.device);
    }
}

impl Loopback<'_> {
    /// Publishes a long message piece by piece.
    #[inline(never)]
    fn put_long(
        self,
        half: &mut TxHalf,
        data: InBuf<'_>,
        segment: usize,
    ) -> Result<usize, RingError> {
        let mut producer = Producer::new(self.own, self.peer, half, self.ring(true));
        let put = producer.write(data, segment, || self.announce());
        self.unblock(&mut producer);
        put
    }

    /// After a put: takes the wish to be told of room back where there is enough, and tells this side of
    /// it. Sleepers of another process are the consumer's to wake: it goes on to tell. The producer is
    /// not handed on, so that it stays in registers.
    #[inline(always)]
    fn unblock(self, producer: &mut Producer<'_>) {
        let Self { group, conn, device, .. } = self;
        let blocked = producer.is_blocked();
        if blocked && !group.others_sleep(conn, device) && producer.clear_blocked() {
            group.announce_own(conn, device);
        }
    }
}

impl<'a> Link for Loopback<'a> {
    type Sender<'t>
        = LoopbackTx<'t>
    where
        Self: 't;
    type Receiver<'t>
        = LoopbackRx<'t>
    where
        Self: 't;

    #[inline(always)]
    fn sender<'t>(self, tx: &'t mut Tx) -> LoopbackTx<'t>
    where
        Self: 't,
    {
        let ring = self.ring(true);
        LoopbackTx {
            producer: Producer::new(self.own, self.peer, &mut tx.half, ring),
            link: self,
            quiet: 0,
        }
    }
    #[inline(always)]
    fn receiver<'t>(self, rx: &'t mut Rx) -> LoopbackRx<'t>
    where
        Self: 't,
    {
        let ring = self.ring(false);
        LoopbackRx { consumer: Consumer::new(self.own, self.peer, &mut rx.half, ring), link: self }
    }
    #[inline(always)]
    fn filled(self) -> u64 {
        self.peer.prod.load(Ordering::Acquire)
    }
    #[inline(always)]
    fn drained(self) -> u64 {
        self.peer.cons.load(Ordering::Acquire)
    }
    #[inline(always)]
    fn peer(self) -> Peer {
        // Acquire: pairs with the Release of the peer's close; what it sent before is seen.
        let flags = self.peer.flags.load(Ordering::Acquire);
        Peer {
            closed: flags & flags::CLOSED != 0,
            done_writing: flags & flags::DONE_WRITING != 0,
            back_on_tcp: flags & flags::BACK_ON_TCP != 0,
            left: flags & flags::LEFT != 0,
            asks_for_tcp: flags & flags::ASKS_FOR_TCP != 0,
            copying: flags & flags::COPYING != 0,
            copied: flags & flags::COPIED != 0,
            ending: flags & flags::ENDING != 0,
            urgent: flags & flags::URGENT != 0,
        }
    }
    fn is_gone(self) -> bool {
        self.group.is_dead()
    }
    fn say_back_on_tcp(self) {
        // Release: pairs with the Acquire in `peer`; all that was published is seen.
        self.own.flags.fetch_or(flags::BACK_ON_TCP, Ordering::Release);
        self.announce();
    }
    fn say_left(self) {
        // Release: pairs with the Acquire in `peer`; so is the consumer position.
        self.own.flags.fetch_or(flags::LEFT, Ordering::Release);
        // Pairs with the fence in `say_copying`.
        fence_after_rmw();
        self.announce();
        self.group.note_left(self.conn.slot.load(Ordering::Relaxed) as usize, self.device);
    }
    fn say_ask_for_tcp(self) {
        self.own.flags.fetch_or(flags::ASKS_FOR_TCP, Ordering::Release);
        self.announce();
    }
    fn say_copying(self) {
        self.own.flags.fetch_or(flags::COPYING, Ordering::Release);
        // Pairs with the fence in `say_left`: either we see that the peer has left, or it sees this.
        fence_after_rmw();
    }
    fn say_ending(self) {
        self.own.flags.fetch_or(flags::ENDING, Ordering::Release);
        // Pairs with the fence in `say_copying`.
        fence_after_rmw();
    }
    fn say_urgent(self) {
        // Release: before the kernel is told.
        self.own.flags.fetch_or(flags::URGENT, Ordering::Release);
    }
    fn say_copied(self, copied: Copied) {
        self.own.copy_offset.store(copied.offset, Ordering::Relaxed);
        self.own.copy_start.store(copied.start, Ordering::Relaxed);
        self.own.copy_len.store(copied.len as u64, Ordering::Relaxed);
        // Release: pairs with the Acquire in `peer`; the three words are there.
        self.own.flags.fetch_or(flags::COPIED, Ordering::Release);
    }
    fn said_copied(self) -> Option<Copied> {
        // Acquire: pairs with the Release in `say_copied`; another process of this side may have
        // said it.
        let said = self.own.flags.load(Ordering::Acquire) & flags::COPIED != 0;
        said.then(|| copied_in(self.own))
    }
    fn copied(self) -> Copied {
        copied_in(self.peer)
    }
    fn is_unread(self) -> bool {
        // Acquire: what the peer took is taken.
        self.own.prod.load(Ordering::Relaxed) != self.peer.cons.load(Ordering::Acquire)
    }
}

/// What a line says of copies, after COPIED was seen in it.
fn copied_in(line: &Line) -> Copied {
    Copied {
        offset: line.copy_offset.load(Ordering::Relaxed),
        start: line.copy_start.load(Ordering::Relaxed),
        len: line.copy_len.load(Ordering::Relaxed) as usize,
    }
}

/// The sending half.
#[derive(Debug)]
pub(crate) struct LoopbackTx<'a> {
    producer: Producer<'a>,
    link: Loopback<'a>,
    /// Bytes behind the last announcement.
    quiet: usize,
}

impl LoopbackTx<'_> {
    /// After a put.
    #[inline(always)]
    fn unblock(&mut self) {
        self.link.unblock(&mut self.producer);
    }
}

impl Sender for LoopbackTx<'_> {
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
        self.link.put_long(self.producer.half(), data, segment)
    }

    #[inline(always)]
    fn flush(&mut self) {
        if self.quiet > 0 {
            self.producer.commit();
            self.quiet = 0;
            self.link.announce();
            self.unblock();
        }
    }

    fn unput(&mut self) -> usize {
        self.producer.unstage();
        core::mem::take(&mut self.quiet)
    }

    #[inline]
    fn reserve(&mut self, n: usize) -> Result<[Piece; 2], Violation> {
        self.producer.reserve(n)
    }

    #[inline]
    fn filled(&mut self, n: usize) {
        self.producer.publish(n);
        self.quiet = 0;
        self.link.announce();
        self.unblock();
    }

    fn room(&mut self) -> Result<usize, Violation> {
        let enough = self.producer.low_water();
        self.producer.space(enough)
    }

    #[inline]
    fn enough(&self) -> usize {
        self.producer.low_water()
    }

    fn block(&mut self) -> Result<bool, Violation> {
        let enough = self.producer.low_water();
        // Relaxed: counts edges; who tells of them looks at the ring itself.
        self.link.conn.full.fetch_add(1, Ordering::Relaxed);
        self.producer.mark_blocked();
        Ok(self.producer.space(enough)? >= enough)
    }

    fn taken(&mut self) -> Result<u64, Violation> {
        self.producer.taken()
    }

    fn recall(&mut self, skip: usize, into: OutBuf<'_>) -> Result<usize, RingError> {
        self.producer.recall(skip, into)
    }
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct LoopbackRx<'a> {
    consumer: Consumer<'a>,
    link: Loopback<'a>,
}

impl Receiver for LoopbackRx<'_> {
    #[inline(always)]
    fn ready(&mut self) -> Result<usize, Violation> {
        self.consumer.available()
    }
    fn queued(&mut self) -> Result<usize, Violation> {
        self.consumer.queued()
    }
    #[inline(always)]
    fn pos(&self) -> u64 {
        self.consumer.pos()
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
            self.link.announce();
        }
    }
    fn since(&self, position: u64) -> usize {
        self.consumer.since(position)
    }
    fn leave(&mut self) {
        self.consumer.publish_exactly();
    }
}
