//! The record of one connection.
mod setup;

pub use setup::Setup;

use super::proc::bump;
use crate::proto::{ConsentGate, RxSwitch, TxSwitch};
use crate::ring::{RxHalf, TxHalf};
use crate::sync::{AtomicU32, AtomicU64, LockGuard, Ordering, RawLock};
use crate::sys::raw;
use crate::sys::thread::tid;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

/// Where a connection stands; values of [`Conn::phase`]. They mirror the states of the handshake's
/// machines ([`Setup`]) for fast tests without a lock.
pub mod phase {
    /// A socket that is not connected.
    pub const FRESH: u32 = 0;
    /// A listener.
    pub const LISTENER: u32 = 1;
    /// A client that may still find an ACCEPT at offset 0.
    pub const VIRGIN: u32 = 2;
    /// A client whose first bytes were the program's; an ACCEPT may come beside the stream.
    pub const LATE: u32 = 9;
    /// A client that has the server's ACCEPT and has not asked to attach.
    pub const ACCEPTED: u32 = 3;
    /// A client that has asked (CONFIRM).
    pub const REQUESTED: u32 = 4;
    /// A server that has sent nothing yet.
    pub const IDLE: u32 = 5;
    /// A server that has sent something, without an ACCEPT; one may go beside the stream.
    pub const DEFERRED: u32 = 10;
    /// A server that has sent ACCEPT.
    pub const OFFERED: u32 = 6;
    /// Both ends share a ring; each direction switches when it may.
    pub const ATTACHED: u32 = 7;
    /// Plain TCP for good.
    pub const PLAIN: u32 = 8;
}

/// Bits of [`Conn::flags`].
pub mod flag {
    /// The program waits for this nonblocking socket in a way that we see.
    pub const SEEN_WAIT: u32 = 1;
    /// The mark is set on the socket.
    pub const MARKED: u32 = 2;
    /// This side has shut its sending direction down.
    pub const TX_SHUT: u32 = 4;
    /// This side has shut its receiving direction down.
    pub const RX_SHUT: u32 = 8;
    /// The kernel had news of the TCP socket: look at it before the next would-block.
    pub const TCP_NEWS: u32 = 16;
    /// The peer's FIN was seen.
    pub const FIN: u32 = 32;
    /// The peer is gone: what is sent goes to TCP, which answers as it does bare.
    pub const PEER_GONE: u32 = 64;
    /// Registered in an epoll instance of this process.
    pub const IN_EPOLL: u32 = 128;
    /// Every wait for data of this side looks at the ring, or shall (`ConsentGate::raised`).
    pub const CONSENTED: u32 = 256;
    /// This end has connected; it is the client of its link group.
    pub const CLIENT: u32 = 512;
    /// The statistics of a process have counted what became of it.
    pub const COUNTED: u32 = 1024;
    /// The socket came from another program: who connected is not known.
    pub const ADOPTED: u32 = 2048;
    /// What the peer copied to TCP has been passed over.
    pub const COPIES_PASSED: u32 = 1 << 12;
    /// This side took the connection back to TCP in mid-stream.
    pub const WENT_BACK: u32 = 1 << 13;
    /// This side's sending has gone back to TCP, or shall not leave it.
    pub const TX_TCP: u32 = 1 << 14;
    /// This side's receiving has gone back to TCP, or shall not leave it.
    pub const RX_TCP: u32 = 1 << 15;
    /// The program has set an option of the mark before the mark was there.
    pub const OWN_OPTIONS: u32 = 1 << 16;
    /// The peer took the connection back to TCP in mid-stream.
    pub const PEER_WENT_BACK: u32 = 1 << 17;
    /// A child that is to be spawned may get it under another number, also where the descriptor itself
    /// is closed by an `exec`.
    pub const GIVEN: u32 = 1 << 18;
    /// This process has ended, and what was unread in the ring is on TCP: what it still sends goes
    /// there as well.
    pub const LATE: u32 = 1 << 19;
    /// The last call that might wait was allowed to, and no call that we see has changed that since.
    pub const BLOCKS: u32 = 1 << 20;
    /// TCP_CORK is kept here; the kernel's is not set.
    pub const CORK_KEPT: u32 = 1 << 21;
    /// What is kept.
    pub const CORKED: u32 = 1 << 22;
    /// The program's own view of the four options of the mark: bits 24 to 27.
    pub const VIEW_SHIFT: u32 = 24;
}

/// [`Conn::tx_mode`] and [`Conn::rx_mode`]: the kernel's. Beyond it they mirror [`Tx::switch`] and
/// [`Rx::switch`] for fast tests without a lock.
pub const MODE_TCP: u32 = 0;
/// Receiving: TCP still, but every wait looks at the ring as well.
pub const MODE_HYBRID: u32 = 1;
/// Receiving: the peer has switched, TCP still holds bytes from before.
pub const MODE_DRAIN: u32 = 2;
/// The ring's.
pub const MODE_RING: u32 = 3;

/// [`Conn::group`] of a connection that has no slot.
pub const NO_GROUP: u32 = u32::MAX;

/// State of the sending direction.
#[derive(Debug)]
#[repr(C)]
pub struct Tx {
    /// Whether this side has switched.
    pub switch: TxSwitch,
    /// The producer's half of the ring.
    pub half: TxHalf,
    /// When the TCP socket was last looked at, in ticks.
    pub looked: u64,
    /// Bytes of the ring that went over TCP for a peer that has left.
    pub recalled: usize,
    /// What goes over TCP once more, from when it began.
    pub again: Option<Again>,
}

/// Bytes of the ring that go over TCP as well. How many have gone the kernel knows: whoever sends them
/// may be killed before it can note it, and another process of this side goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// Where they begin in TCP's stream.
    pub offset: u64,
    /// Where they begin in the ring.
    pub start: u64,
    /// They are copies, and not owed to a peer that has left.
    pub copies: bool,
}

/// State of the receiving direction.
#[derive(Debug)]
#[repr(C)]
pub struct Rx {
    /// Whether the peer has switched, and what TCP holds from before.
    pub switch: RxSwitch,
    /// The consumer's half of the ring.
    pub half: RxHalf,
    /// When the TCP socket was last looked at, in ticks.
    pub looked: u64,
    /// An error of the TCP socket that was met while the ring still held data.
    pub error: i32,
}

/// One connection.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Conn {
    pub(super) used: AtomicU32,
    pub(super) owner: AtomicU32,
    /// Processes that hold the socket, as far as we know.
    pub procs: AtomicU32,
    /// The descriptor under which it was first known.
    pub fd: AtomicU32,
    /// [`flag`].
    pub flags: AtomicU32,
    pub(super) phase: AtomicU32,
    /// Why it is plain TCP.
    pub reason: AtomicU32,
    /// Threads inside a kernel wait for data of this socket.
    pub inside: AtomicU32,
    /// Threads inside a kernel send on this socket.
    pub tx_inside: AtomicU32,
    /// Index of the link group in the processes that hold the socket, or [`NO_GROUP`].
    pub group: AtomicU32,
    /// Slot in the link group.
    pub slot: AtomicU32,
    /// How often this side has found the ring full.
    pub full: AtomicU32,
    /// SO_RCVLOWAT.
    pub low_water: AtomicU32,
    /// The kernel's name of the socket.
    pub cookie: AtomicU64,
    /// Number of the socket's inode, once the socket was there while its process forked: then the
    /// descriptor alone does not tell which process holds it. Until then 0.
    pub inode: AtomicU64,
    setup_lock: RawLock,
    setup: UnsafeCell<Setup>,

    tx_lock: RawLock,
    /// `MODE_…`.
    pub tx_mode: AtomicU32,
    /// Bytes of the ring that this side fills, once joined.
    pub tx_size: AtomicU32,
    /// Bytes sent through the ring.
    pub tx_ring_bytes: AtomicU64,
    /// Bytes sent over TCP.
    pub tx_tcp_bytes: AtomicU64,
    tx: UnsafeCell<Tx>,

    rx_lock: RawLock,
    /// `MODE_…`.
    pub rx_mode: AtomicU32,
    /// Bytes of the ring that this side drains, once joined.
    pub rx_size: AtomicU32,
    /// Bytes received from the ring.
    pub rx_ring_bytes: AtomicU64,
    /// Bytes received over TCP.
    pub rx_tcp_bytes: AtomicU64,
    rx: UnsafeCell<Rx>,
}

// SAFETY: requires that shared access is sound: the cells are reached through the guards below
// only, each of which holds the lock of its cell; all else is atomic.
unsafe impl Sync for Conn {}

macro_rules! guard {
    ($name:ident, $target:ty, $cell:ident, $lock:ident, $take:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Debug)]
        pub struct $name<'a> {
            conn: &'a Conn,
            _lock: LockGuard<'a>,
        }
        impl Deref for $name<'_> {
            type Target = $target;
            #[inline(always)]
            fn deref(&self) -> &$target {
                // SAFETY: requires that nobody writes the cell meanwhile: the lock is held.
                unsafe { &*self.conn.$cell.get() }
            }
        }
        impl DerefMut for $name<'_> {
            #[inline(always)]
            fn deref_mut(&mut self) -> &mut $target {
                // SAFETY: requires exclusive access to the cell: the lock is held, and this
                // borrow is of the only guard.
                unsafe { &mut *self.conn.$cell.get() }
            }
        }
        impl Conn {
            #[doc = $doc]
            #[inline(always)]
            pub fn $take(&self) -> $name<'_> {
                let lock = self.$lock.lock(tid(), raw::yield_now, raw::exists);
                $name { conn: self, _lock: lock }
            }
        }
    };
}
guard!(TxGuard, Tx, tx, tx_lock, lock_tx, "The sending direction, locked.");
guard!(RxGuard, Rx, rx, rx_lock, lock_rx, "The receiving direction, locked.");
guard!(SetupGuard, Setup, setup, setup_lock, lock_setup, "The handshake's state, locked.");

impl Conn {
    /// The process that made the record.
    pub fn owner(&self) -> u32 {
        self.owner.load(Ordering::Relaxed)
    }

    /// Whether the record is in use.
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Acquire) != 0
    }

    /// Takes the record if it is free.
    pub fn claim(&self, pid: u32) -> bool {
        // AcqRel: pairs with the Release in `free`; whoever wins owns the record.
        if self.used.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        self.reset(pid);
        true
    }

    /// Takes the record of a dead process.
    pub fn reclaim(&self, pid: u32) -> bool {
        let owner = self.owner();
        // AcqRel: of several processes one wins.
        if self.owner.compare_exchange(owner, pid, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        self.reset(pid);
        true
    }

    fn reset(&self, pid: u32) {
        let zeroed = [
            &self.flags,
            &self.phase,
            &self.reason,
            &self.inside,
            &self.tx_inside,
            &self.slot,
            &self.tx_mode,
            &self.tx_size,
            &self.rx_mode,
            &self.full,
            &self.rx_size,
        ];
        for word in zeroed {
            word.store(0, Ordering::Relaxed);
        }
        let sent = [&self.tx_ring_bytes, &self.tx_tcp_bytes];
        let received = [&self.rx_ring_bytes, &self.rx_tcp_bytes];
        for word in sent.into_iter().chain(received).chain([&self.inode, &self.cookie]) {
            word.store(0, Ordering::Relaxed);
        }
        self.owner.store(pid, Ordering::Relaxed);
        self.procs.store(1, Ordering::Relaxed);
        self.low_water.store(1, Ordering::Relaxed);
        self.group.store(NO_GROUP, Ordering::Relaxed);
        *self.lock_setup() = Setup::new();
        let mut tx = self.lock_tx();
        *tx = Tx { switch: TxSwitch::Tcp, half: TxHalf::at(0), looked: 0, recalled: 0, again: None };
        drop(tx);
        let mut rx = self.lock_rx();
        *rx = Rx { switch: RxSwitch::Tcp, half: RxHalf::at(0), looked: 0, error: 0 };
    }

    /// Takes all locks and keeps them, so that no other thread is in the middle of anything.
    pub fn hold(&self) {
        core::mem::forget(self.lock_setup());
        core::mem::forget(self.lock_tx());
        core::mem::forget(self.lock_rx());
    }

    /// Ends [`Self::hold`] of a thread, which need not exist any more.
    pub fn let_go(&self, holder: u32) {
        for lock in [&self.rx_lock, &self.tx_lock, &self.setup_lock] {
            lock.release(holder);
        }
    }

    /// Counts bytes that were put into the ring.
    #[inline(always)]
    pub fn count_tx(&self, _locked: &TxGuard<'_>, bytes: usize) {
        bump(&self.tx_ring_bytes, bytes as u64);
    }

    /// Counts bytes that were taken from the ring.
    #[inline(always)]
    pub fn count_rx(&self, _locked: &RxGuard<'_>, bytes: usize) {
        bump(&self.rx_ring_bytes, bytes as u64);
    }

    /// Gives the record back.
    pub fn free(&self) {
        self.owner.store(0, Ordering::Relaxed);
        // Release: pairs with the AcqRel in `claim`.
        self.used.store(0, Ordering::Release);
    }

    /// Whether a flag is set.
    #[inline(always)]
    pub fn has(&self, flag: u32) -> bool {
        // Acquire: pairs with the AcqRel of `raise`.
        self.flags.load(Ordering::Acquire) & flag != 0
    }

    /// Sets flags; tells whether all of them were set before.
    pub fn raise(&self, flag: u32) -> bool {
        self.flags.fetch_or(flag, Ordering::AcqRel) & flag == flag
    }

    /// What the words of the consent say now.
    pub fn gate(&self) -> ConsentGate {
        ConsentGate {
            inside: self.inside.load(Ordering::Acquire),
            raised: self.has(flag::CONSENTED),
        }
    }

    /// Clears flags.
    pub fn lower(&self, flag: u32) {
        self.flags.fetch_and(!flag, Ordering::AcqRel);
    }

    /// Lets every thread see how this side sends; what [`Tx::switch`] says, or a change of it that
    /// is being tried.
    pub fn publish_tx(&self, switch: TxSwitch) {
        // SeqCst: in one order with the counts of threads inside a kernel send.
        self.tx_mode.store(setup::tx_mode(switch), Ordering::SeqCst);
    }

    /// Lets every thread see how this side reads, now that it has consented: what [`Rx::switch`]
    /// says.
    pub fn publish_rx(&self, switch: RxSwitch) {
        self.rx_mode.store(setup::rx_mode(switch), Ordering::Release);
    }
}
