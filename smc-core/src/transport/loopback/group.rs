//! A link group: the shared region and the control channel of two processes.
use crate::arena::Conn;
use crate::errno::Errno;
use super::device::Device;
use super::geometry::Geometry;
use super::region::Region;
use crate::fdtable;
use crate::ring::{doorbell, RingMem};
use crate::shm::layout::{
    state, ConnHeader, Line, RegionHeader, WaitSlot, CONNS, CONN_WORDS, WAIT_SLOTS,
};
use crate::sync::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use crate::sys::lock::Lock;
use crate::sys::{clock, growth, mem, raw, scm};
use crate::wire::control::{Control as Message, CONTROL_MAX};
use libc::c_int;

/// A slot whose connection this side has released and the peer has not.
const ZOMBIE: u32 = u32::MAX;

/// Who is at the other end, and what this end is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// This end is the client.
    pub(crate) client: bool,
    /// GID of the server's process, or of the client's.
    pub(crate) gid: [u8; 16],
    /// The user at the other end.
    pub(crate) uid: u32,
    /// The socket to it.
    pub(crate) control: c_int,
}

/// One link group, as this process sees it.
#[derive(Debug)]
pub(crate) struct Group {
    index: usize,
    client: bool,
    /// GID of the server's process (client side) or of the client's.
    gid: [u8; 16],
    /// The user at the other end of the control channel.
    pub(crate) peer_uid: u32,
    region: Region,
    /// The region's, for an image that follows this one.
    pub(super) memfd: c_int,
    /// Memory must be allocated before it is touched.
    allocates: bool,
    control: AtomicI32,
    dead: AtomicBool,
    /// Process that made this object.
    pub(crate) maker: u32,
    /// As whom it made first contact: the server takes no connections of others by it.
    pub(crate) user: u32,
    /// Another process made it, and goes on with it beside the image that this one inherited it
    /// from: requests are for that one.
    pub(crate) guest: bool,
    /// One drains at a time.
    draining: Lock<()>,
    bells: [AtomicI32; WAIT_SLOTS],
    queues: [AtomicU32; WAIT_SLOTS],
    conns: [AtomicU32; CONNS],
    live: AtomicU32,
}

impl Group {
    /// An object for a mapped region.
    pub(crate) fn new(
        index: usize,
        Peer { client, gid, uid: peer_uid, control }: Peer,
        region: Region,
        memfd: c_int,
    ) -> Self {
        Self {
            index,
            client,
            gid,
            peer_uid,
            region,
            memfd,
            allocates: client && memfd >= 0 && mem::strict_overcommit(),
            control: AtomicI32::new(control),
            dead: AtomicBool::new(false),
            maker: raw::getpid(),
            user: raw::user_ids()[1][0],
            guest: false,
            draining: Lock::new(()),
            bells: [const { AtomicI32::new(-1) }; WAIT_SLOTS],
            queues: [const { AtomicU32::new(0) }; WAIT_SLOTS],
            conns: [const { AtomicU32::new(0) }; CONNS],
            live: AtomicU32::new(0),
        }
    }

    /// A group that the image before this one had.
    pub(super) fn made_by(mut self, maker: u32, dead: bool) -> Self {
        self.guest = maker != self.maker;
        self.maker = maker;
        self.dead = AtomicBool::new(dead);
        self
    }

    /// The bell of a wait slot of the peer, if it is known.
    pub(super) fn bell(&self, slot: usize) -> c_int {
        self.bells.get(slot).map_or(-1, |bell| bell.load(Ordering::Acquire))
    }
    /// Takes such a bell in.
    pub(super) fn learn_bell(&self, slot: usize, fd: c_int) {
        if let Some(bell) = self.bells.get(slot) {
            bell.store(fd, Ordering::Release);
        }
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }
    pub(crate) fn is_client(&self) -> bool {
        self.client
    }
    pub(crate) fn gid(&self) -> &[u8; 16] {
        &self.gid
    }
    pub(crate) fn geometry(&self) -> Geometry {
        self.region.geometry()
    }
    /// The control socket, or -1 once the peer is gone.
    pub(crate) fn control(&self) -> c_int {
        self.control.load(Ordering::Acquire)
    }
    /// Whether the peer's process has ended.
    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }
    pub(crate) fn live(&self) -> u32 {
        self.live.load(Ordering::Acquire)
    }

    pub(crate) fn head(&self) -> &RegionHeader {
        self.region.head()
    }

    /// This side has forked, or shares the group with another image: from now on what comes over the
    /// control channel may reach another process than it is for.
    pub(crate) fn note_fork(&self) {
        self.head().forked.fetch_or(if self.client { 1 } else { 2 }, Ordering::Relaxed);
    }

    /// Whether each side is several processes.
    pub(crate) fn is_forked(&self) -> bool {
        self.head().forked.load(Ordering::Relaxed) == 3
    }
    /// Wait slots of this side.
    #[inline]
    pub(crate) fn own_slots(&self) -> &[WaitSlot; WAIT_SLOTS] {
        self.region.wait_slots(self.client)
    }
    /// Wait slots of the peer.
    #[inline]
    pub(crate) fn peer_slots(&self) -> &[WaitSlot; WAIT_SLOTS] {
        self.region.wait_slots(!self.client)
    }

    /// Header of a connection slot.
    #[inline(always)]
    pub(crate) fn header(&self, slot: usize) -> &ConnHeader {
        self.region.header(slot)
    }

    /// What this side publishes of a connection, and what the peer does.
    #[inline(always)]
    pub(crate) fn lines(&self, conn: &Conn) -> (&Line, &Line) {
        self.lines_of(conn.slot.load(Ordering::Relaxed) as usize)
    }

    /// The same for a slot.
    #[inline(always)]
    pub(crate) fn lines_of(&self, slot: usize) -> (&Line, &Line) {
        let header = self.header(slot);
        if self.client {
            (&header.client, &header.server)
        } else {
            (&header.server, &header.client)
        }
    }

    /// The ring of a slot that this side fills (`tx`) or drains.
    #[inline(always)]
    pub(crate) fn ring(&self, slot: usize, tx: bool) -> RingMem {
        self.region.ring(slot, tx == self.client)
    }

    /// Bytes of a ring that this side fills (`tx`) or drains.
    pub(crate) fn ring_size(&self, tx: bool) -> usize {
        self.region.ring_size(tx == self.client)
    }

    /// Gives back the memory of the ring that this side drained, which nobody will read any more.
    pub(crate) fn forget_ring(&self, slot: usize) {
        if !self.allocates {
            self.region.forget_ring(slot, !self.client);
        }
    }

    /// Client: takes a free connection slot for a connection.
    pub(crate) fn take_conn(&self, conn: u32) -> Option<usize> {
        for (slot, cell) in self.conns.iter().enumerate() {
            let header = self.header(slot);
            let seen = cell.load(Ordering::Acquire);
            // A slot that the server has not let go of yet stays a zombie.
            let free = seen == 0 || (seen == ZOMBIE && header.released.load(Ordering::Acquire) == 3);
            let taken = free
                && cell
                    .compare_exchange(seen, conn + 1, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok();
            if !taken {
                continue;
            }
            if self.allocates {
                let range = self.geometry().slot(slot);
                if growth::fallocate(self.memfd, range.start, range.len()).is_err() {
                    cell.store(0, Ordering::Release);
                    return None;
                }
            }
            for side in [false, true] {
                self.left_word(side, slot).fetch_and(!left_bit(slot), Ordering::Relaxed);
            }
            self.live.fetch_add(1, Ordering::AcqRel);
            return Some(slot);
        }
        None
    }

    /// Server: notes which connection a slot is.
    pub(crate) fn put_conn(&self, slot: usize, conn: u32) {
        if let Some(cell) = self.conns.get(slot) {
            cell.store(conn + 1, Ordering::Release);
            self.live.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The connection of a slot.
    #[inline]
    pub(crate) fn conn_at(&self, slot: usize) -> Option<u32> {
        match self.conns.get(slot)?.load(Ordering::Acquire) {
            0 | ZOMBIE => None,
            conn => Some(conn - 1),
        }
    }

    /// This side is done with a slot.
    pub(crate) fn release_conn(&self, slot: usize) {
        let Some(cell) = self.conns.get(slot) else { return };
        let header = self.header(slot);
        let bit = if self.client { 1 } else { 2 };
        let alone = header.state.load(Ordering::Acquire) != state::ATTACHED;
        let before = header.released.fetch_or(bit, Ordering::AcqRel);
        let done = !self.client || alone || before & 2 != 0;
        cell.store(if done { 0 } else { ZOMBIE }, Ordering::Release);
        self.live.fetch_sub(1, Ordering::AcqRel);
    }

    /// A wait slot of this side for a queue; tells the peer its bell.
    pub(crate) fn take_slot(&self, queue: usize, bell: c_int) -> Option<usize> {
        for (index, slot) in self.own_slots().iter().enumerate() {
            // AcqRel: of two processes or threads one wins.
            let taken = slot.taken.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_err() {
                continue;
            }
            self.queues[index].store(queue as u32 + 1, Ordering::Release);
            // A thread may already sleep on the queue: the first news ring in any case.
            slot.armed.store(1, Ordering::Relaxed);
            // Nobody was called by it before.
            slot.called.store(1, Ordering::Relaxed);
            let mut bytes = [0; CONTROL_MAX];
            let message = Message::Bell { slot: index as u8 };
            if let Ok(len) = message.emit(&mut bytes) {
                let _ = scm::send(self.control(), &bytes[..len], Some(bell));
            }
            return Some(index);
        }
        None
    }

    /// Tells the peer that a connection has news.
    #[inline(always)]
    pub(crate) fn announce(&self, slot: usize, (own, peer): (&Line, &Line), device: &Device) {
        let note_time = || own.since.store(clock::short(clock::ticks()), Ordering::Relaxed);
        let ring_bell = |slot| self.ring_bell(slot, device);
        doorbell::announce(slot, peer, self.peer_slots(), note_time, ring_bell);
    }

    /// Notes for the peer's epoll instances that the end of a slot's connection is on its way; the
    /// kernel wakes them.
    #[cold]
    pub(crate) fn note_end(&self, conn: &Conn) {
        let (own, peer) = self.lines(conn);
        let slot = conn.slot.load(Ordering::Relaxed) as usize;
        let note_time = || own.since.store(clock::short(clock::ticks()), Ordering::Relaxed);
        doorbell::note(slot, peer, self.peer_slots(), note_time);
    }

    /// Tells sleepers of this side what the peer will not: there is room again.
    #[cold]
    pub(crate) fn announce_own(&self, conn: &Conn, device: &Device) {
        let (own, _) = self.lines(conn);
        let slot = conn.slot.load(Ordering::Relaxed) as usize;
        let is_mine = |slot| self.own_bell(slot, device).is_some();
        doorbell::announce_own(slot, own, self.own_slots(), is_mine, |slot| self.ring_own(slot, device));
    }

    /// Which of its connections a side has left, the client or the server: the word of a slot.
    fn left_word(&self, by_client: bool, slot: usize) -> &AtomicU64 {
        &self.head().left[usize::from(!by_client)][slot / 64 % CONN_WORDS]
    }

    /// This side has left the ring of a slot, and may have bytes to get: wakes who can send them, for
    /// whatever connection they wait.
    #[cold]
    pub(crate) fn note_left(&self, slot: usize, device: &Device) {
        // Release: pairs with the Acquire in `each_owed`.
        self.left_word(self.client, slot).fetch_or(left_bit(slot), Ordering::Release);
        doorbell::call_all(self.peer_slots(), |slot| self.ring_bell(slot, device));
    }

    /// Whether the peer has left a ring.
    pub(crate) fn owes(&self) -> bool {
        let words = &self.head().left[usize::from(self.client)];
        words.iter().any(|word| word.load(Ordering::Acquire) != 0)
    }

    /// The slots whose ring the peer has left.
    #[cold]
    pub(crate) fn each_owed(&self, mut with: impl FnMut(usize)) {
        for slot in 0..CONNS {
            if self.left_word(!self.client, slot).load(Ordering::Acquire) & left_bit(slot) != 0 {
                with(slot);
            }
        }
    }

    /// The peer has got what it was owed.
    pub(crate) fn has_paid(&self, slot: usize) {
        self.left_word(!self.client, slot).fetch_and(!left_bit(slot), Ordering::AcqRel);
    }

    /// Whether another process of this side sleeps for the connection: after a fork several share it,
    /// and each has its own bells.
    #[cold]
    pub(crate) fn others_sleep(&self, conn: &Conn, device: &Device) -> bool {
        let (own, _) = self.lines(conn);
        doorbell::is_awaited(own, self.own_slots(), |slot| self.own_bell(slot, device).is_none())
    }

    /// The bell of a wait slot, if this process has it.
    fn own_bell(&self, slot: usize, device: &Device) -> Option<c_int> {
        let index = self.queues.get(slot)?.load(Ordering::Acquire) as usize;
        let bell = device.queues.get(index.checked_sub(1)?)?.bell();
        (bell >= 0).then_some(bell)
    }

    /// Rings for a wait slot of this side.
    fn ring_own(&self, slot: usize, device: &Device) {
        if let Some(bell) = self.own_bell(slot, device) {
            raw::eventfd_ring(bell);
        }
    }

    #[cold]
    fn ring_bell(&self, slot: usize, device: &Device) {
        device.page().doorbells.fetch_add(1, Ordering::Relaxed);
        let Some(bell) = self.bells.get(slot) else { return };
        // A child in its parent's memory has descriptors of its own: what it takes is not there for
        // the parent.
        if bell.load(Ordering::Acquire) < 0 && !device.is_borrowed() {
            self.drain(device);
        }
        let fd = bell.load(Ordering::Acquire);
        if fd >= 0 {
            raw::eventfd_ring(fd);
            return;
        }
        let mut bytes = [0; CONTROL_MAX];
        if let Ok(len) = (Message::Kick { slot: slot as u8 }).emit(&mut bytes) {
            let _ = scm::send(self.control(), &bytes[..len], None);
        }
    }

    /// Takes what the peer has sent on the control channel.
    pub(crate) fn drain(&self, device: &Device) {
        let Some(_one) = self.draining.try_lock() else { return };
        let mut bytes = [0; CONTROL_MAX];
        loop {
            let control = self.control();
            if control < 0 {
                return;
            }
            match scm::recv(control, &mut bytes) {
                Ok((0, _)) | Err(Errno(libc::ECONNRESET)) => {
                    self.dead.store(true, Ordering::Release);
                    fdtable::drop_internal(self.control.swap(-1, Ordering::AcqRel));
                    return;
                }
                Ok((len, fd)) => self.message(bytes.get(..len).unwrap_or(&[]), fd, device),
                Err(Errno::MSGSIZE) => {}
                Err(_) => return,
            }
        }
    }

    fn message(&self, bytes: &[u8], fd: Option<c_int>, device: &Device) {
        match (Message::parse(bytes), fd) {
            (Ok(Message::Bell { slot }), Some(fd)) => {
                if let Some(bell) = self.bells.get(usize::from(slot)) {
                    fdtable::drop_internal(bell.swap(fdtable::raise(fd), Ordering::AcqRel));
                    // It may have armed and found no bell to be rung by.
                    return;
                }
                raw::close(fd);
            }
            (Ok(Message::Kick { slot }), None) => {
                self.ring_own(usize::from(slot), device);
            }
            (_, Some(fd)) => raw::close(fd),
            _ => {}
        }
    }

    /// In the child of a fork: a thread of the parent may have been draining it, and its queues are not
    /// the child's but for those to `keep`.
    pub(super) fn after_fork(&self, keep: impl Fn(usize) -> bool) {
        for queue in &self.queues {
            let index = queue.load(Ordering::Relaxed) as usize;
            if index.checked_sub(1).is_some_and(|index| !keep(index)) {
                queue.store(0, Ordering::Relaxed);
            }
        }
        // SAFETY: requires that nobody holds the lock: this is the only thread.
        unsafe { self.draining.let_go() };
        self.check_bells();
    }

    /// In the child of a fork: the kernel copies the table of descriptors before the memory, so that a
    /// bell which came in between is not there. Under its number may be a socket, which must not be
    /// written to.
    fn check_bells(&self) {
        for bell in &self.bells {
            let fd = bell.load(Ordering::Relaxed);
            // An eventfd is a file of no type.
            let is = raw::file_mode(fd).is_some_and(|mode| mode & libc::S_IFMT == 0);
            if fd >= 0 && !is {
                bell.store(-1, Ordering::Relaxed);
            }
        }
    }

    /// Closes what only a living group needs.
    pub(crate) fn close_fds(&self) {
        fdtable::drop_internal(self.control.swap(-1, Ordering::AcqRel));
        for bell in &self.bells {
            fdtable::drop_internal(bell.swap(-1, Ordering::AcqRel));
        }
        fdtable::drop_internal(self.memfd);
    }
}

const fn left_bit(slot: usize) -> u64 {
    1 << (slot % 64)
}
