//! All structures of the region that a link group shares.
//!
//! ```text
//! 0            RegionHeader            one page; magic is stored last
//! WAIT_OFFSET  [WaitSlot; 64] client   where threads of the client's process sleep
//!              [WaitSlot; 64] server
//! CONN_OFFSET  [ConnHeader; 256]
//! DMB_OFFSET   [{ client-to-server ring, server-to-client ring }; 256]
//! ```
//!
//! Native byte order: both ends are on one machine.
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// "SMCLGRP1": a region that is complete.
pub const MAGIC: u64 = u64::from_le_bytes(*b"SMCLGRP1");
/// The version of this layout; both ends must have the same.
pub const VERSION: u32 = 3;
/// Connections of one link group, as many as the kernel's (`SMC_RMBS_PER_LGR_MAX`).
pub const CONNS: usize = 256;
/// 64-bit words of a bitmap of connections.
pub const CONN_WORDS: usize = CONNS / 64;
/// Wait slots of each side; a bit of [`Line::want_ready`] each.
pub const WAIT_SLOTS: usize = 64;

/// The first page of the region.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct RegionHeader {
    /// [`MAGIC`], stored last.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// Size code of the client-to-server ring: 16 KiB << code.
    pub c2s_code: AtomicU32,
    /// Size code of the server-to-client ring.
    pub s2c_code: AtomicU32,
    /// Set by a side that has forked: several processes of it may use this group.
    pub forked: AtomicU32,
    /// Connections that the client asks the server to attach; set by the client, taken by the server.
    pub requests: [AtomicU64; CONN_WORDS],
    /// Connections whose ring the client has left, and may have bytes to get over TCP from it, and those
    /// that the server has; set by the one who leaves, taken back by the other one when it has paid.
    pub left: [[AtomicU64; CONN_WORDS]; 2],
}

/// Where threads of one side sleep: one for each epoll instance or sleeping thread.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct WaitSlot {
    /// Not 0: a thread sleeps, or is about to, and wants its bell rung. Set by the owner, cleared
    /// by whoever rings.
    pub armed: AtomicU32,
    /// Not 0: the slot is taken.
    pub taken: AtomicU32,
    /// Connections with news; set by the other side, taken by the owner.
    pub ready: [AtomicU64; CONN_WORDS],
    /// Not 0: the other side has left a ring, and may be owed bytes; taken by the owner.
    pub called: AtomicU32,
}

/// What one side publishes of a connection: its share of a CDC message. Only that side writes it.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Line {
    /// Position up to which the ring that this side fills holds data.
    pub prod: AtomicU64,
    /// Position from which it does: the producer skips the rest of a lap when the ring is empty.
    pub base: AtomicU64,
    /// Position up to which this side has consumed the ring that it drains.
    pub cons: AtomicU64,
    /// [`flags`].
    pub flags: AtomicU32,
    /// When this side last set a ready bit of the connection, see [`crate::ring::doorbell`].
    pub since: AtomicU32,
    /// Wait slots of this side whose ready bit is wanted (epoll instances).
    pub want_ready: AtomicU64,
    /// Wait slots of this side where a thread sleeps for this connection alone.
    pub want_bell: AtomicU64,
    /// Bytes that this side wrote to TCP before it switched; valid with [`flags::SWITCHED`].
    pub switch_offset: AtomicU64,
    /// Bytes that this side wrote to TCP before the copy; valid with [`flags::COPIED`], as are
    /// the next two.
    pub copy_offset: AtomicU64,
    /// Position in the ring that this side fills of the first byte that was copied.
    pub copy_start: AtomicU64,
    /// How many bytes were copied.
    pub copy_len: AtomicU64,
}

/// Bits of [`Line::flags`].
pub mod flags {
    /// Every wait of this side for data looks at the ring: the peer may switch.
    pub const RX_CONSENT: u32 = 1;
    /// This side sends through the ring from [`super::Line::switch_offset`] on.
    pub const SWITCHED: u32 = 2;
    /// The producer of this side found the ring full and waits for space.
    pub const WRITE_BLOCKED: u32 = 4;
    /// This side has closed the connection.
    pub const CLOSED: u32 = 8;
    /// This side has shut its sending direction down.
    pub const DONE_WRITING: u32 = 16;
    /// What this side sends goes over TCP again, from where its ring ends.
    pub const BACK_ON_TCP: u32 = 32;
    /// This side reads the ring no more; its consumer position is final.
    pub const LEFT: u32 = 64;
    /// This side wants what comes next over TCP; what its ring holds it reads from there.
    pub const ASKS_FOR_TCP: u32 = 128;
    /// This side is about to say what of the ring it copies to TCP.
    pub const COPYING: u32 = 256;
    /// This side has copied what the peer had not read to TCP; it puts nothing more into the ring,
    /// or what it puts is not copied.
    pub const COPIED: u32 = 512;
    /// This side is about to close and reads nothing more: nothing is to be copied for it.
    pub const ENDING: u32 = 1024;
    /// This side has sent urgent data.
    pub const URGENT: u32 = 2048;
}

/// One connection of the group.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct ConnHeader {
    /// [`state`].
    pub state: AtomicU32,
    /// Why it was declined; valid with [`state::DECLINED`].
    pub reason: AtomicU32,
    /// The token of the ACCEPT that this answers.
    pub token: [AtomicU64; 2],
    /// Bit 0: the client is done with it; bit 1: the server is.
    pub released: AtomicU32,
    /// Published by the client.
    pub client: Line,
    /// Published by the server.
    pub server: Line,
}

impl ConnHeader {
    /// Client: makes a slot that both sides have released ready for a new connection.
    pub fn reset(&self, token: &[u8; 16]) {
        for line in [&self.client, &self.server] {
            for word in [&line.prod, &line.base, &line.cons, &line.want_ready, &line.want_bell] {
                word.store(0, Ordering::Relaxed);
            }
            for word in [&line.switch_offset, &line.copy_offset, &line.copy_start, &line.copy_len] {
                word.store(0, Ordering::Relaxed);
            }
            line.flags.store(0, Ordering::Relaxed);
        }
        self.reason.store(0, Ordering::Relaxed);
        self.released.store(0, Ordering::Relaxed);
        let (low, high) = token.split_at(8);
        for (word, half) in self.token.iter().zip([low, high]) {
            let bytes = half.try_into().unwrap_or([0; 8]);
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
    }

    /// The token; valid once the state says that there is a request.
    pub fn token_bytes(&self) -> [u8; 16] {
        let mut token = [0; 16];
        for (half, word) in token.chunks_exact_mut(8).zip(&self.token) {
            half.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        token
    }
}

/// Values of [`ConnHeader::state`].
pub mod state {
    /// Unused.
    pub const FREE: u32 = 0;
    /// The client asks (CONFIRM).
    pub const REQUESTED: u32 = 1;
    /// The server has attached it.
    pub const ATTACHED: u32 = 2;
    /// The server will not.
    pub const DECLINED: u32 = 3;
    /// The client no longer asks.
    pub const CANCELLED: u32 = 4;
}

/// Offset of the wait slots of the client, then those of the server.
pub const WAIT_OFFSET: usize = 4096;
/// Offset of the connection headers.
pub const CONN_OFFSET: usize = WAIT_OFFSET + 2 * WAIT_SLOTS * 128;
/// Offset of the rings.
pub const DMB_OFFSET: usize = CONN_OFFSET + CONNS * 384;

#[cfg(not(loom))]
const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<RegionHeader>() == 4096);
    assert!(offset_of!(RegionHeader, requests) == 24);
    assert!(size_of::<WaitSlot>() == 128);
    assert!(offset_of!(WaitSlot, ready) == 8);
    assert!(size_of::<Line>() == 128);
    assert!(offset_of!(Line, flags) == 24);
    assert!(offset_of!(Line, want_ready) == 32);
    assert!(offset_of!(Line, switch_offset) == 48);
    assert!(offset_of!(Line, copy_len) == 72);
    assert!(size_of::<ConnHeader>() == 384);
    assert!(offset_of!(ConnHeader, client) == 128);
    assert!(offset_of!(ConnHeader, server) == 256);
    assert!(DMB_OFFSET.is_multiple_of(4096));
};
