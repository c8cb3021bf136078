//! The statistics page of one process.
use crate::reason::Reason;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Different reason codes that are counted apart.
pub const REASONS: usize = 24;

/// What is counted for one transport and direction.
#[derive(Debug)]
#[repr(C)]
pub struct Counters {
    /// Bytes.
    pub bytes: AtomicU64,
    /// Calls that moved any.
    pub calls: AtomicU64,
}

/// Counts of one process since it started; written by it alone, read by the tools.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct ProcPage {
    pub(super) pid: AtomicU32,
    /// Spare.
    pub reserved: AtomicU32,
    /// TCP connections that were seen.
    pub connections: AtomicU64,
    /// Those that a shared-memory ring carried.
    pub smcd: AtomicU64,
    /// Those that RDMA carried.
    pub smcr: AtomicU64,
    /// Those that ended, or stayed, on TCP.
    pub tcp: AtomicU64,
    /// Sent through rings.
    pub smc_tx: Counters,
    /// Received from rings.
    pub smc_rx: Counters,
    /// Sent over TCP.
    pub tcp_tx: Counters,
    /// Received over TCP.
    pub tcp_rx: Counters,
    /// Bells rung for a sleeping peer.
    pub doorbells: AtomicU64,
    /// Sleeps of this process while it waited for a ring.
    pub sleeps: AtomicU64,
    /// Waits that spinning ended.
    pub spins: AtomicU64,
    /// Looks at the kernel's events while rings were busy.
    pub kernel_checks: AtomicU64,
    /// Connections that this process took back to TCP in mid-stream.
    pub back: AtomicU64,
    /// Those that the peer took back.
    pub peer_back: AtomicU64,
    pub(super) reasons: [[AtomicU32; 2]; REASONS],
}

impl ProcPage {
    /// The process, or 0.
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Acquire)
    }

    /// Takes the page if it still is `from`'s, and clears it.
    pub fn claim(&self, from: u32, pid: u32) -> bool {
        // AcqRel: whoever wins owns the page.
        if self.pid.compare_exchange(from, pid, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        let words = [&self.connections, &self.smcd, &self.smcr, &self.tcp];
        let more = [&self.doorbells, &self.sleeps, &self.spins, &self.kernel_checks];
        let more = more.into_iter().chain([&self.back, &self.peer_back]);
        for word in words.into_iter().chain(more) {
            word.store(0, Ordering::Relaxed);
        }
        for counters in [&self.smc_tx, &self.smc_rx, &self.tcp_tx, &self.tcp_rx] {
            counters.bytes.store(0, Ordering::Relaxed);
            counters.calls.store(0, Ordering::Relaxed);
        }
        for pair in &self.reasons {
            pair[0].store(0, Ordering::Relaxed);
            pair[1].store(0, Ordering::Relaxed);
        }
        true
    }

    /// Gives the page back, if it still is this process's.
    pub fn leave(&self, pid: u32) {
        let _ = self.pid.compare_exchange(pid, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Counts a connection that stays on TCP.
    pub fn count_fallback(&self, reason: Reason) {
        self.tcp.fetch_add(1, Ordering::Relaxed);
        for pair in &self.reasons {
            // Relaxed: counters; a slot belongs to one code for good.
            let code = pair[0].load(Ordering::Relaxed);
            let mine = code == reason.0
                || (code == 0
                    && match pair[0].compare_exchange(
                        0,
                        reason.0,
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    ) {
                        Ok(_) => true,
                        Err(now) => now == reason.0,
                    });
            if mine {
                pair[1].fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }

    /// Reason codes with their counts.
    pub fn fallbacks(&self) -> impl Iterator<Item = (Reason, u32)> + '_ {
        self.reasons.iter().filter_map(|pair| {
            let code = pair[0].load(Ordering::Relaxed);
            (code != 0).then(|| (Reason(code), pair[1].load(Ordering::Relaxed)))
        })
    }
}

/// Adds to a counter that one thread at a time writes, since a lock is held: a plain load and store.
#[inline(always)]
pub(super) fn bump(counter: &AtomicU64, by: u64) {
    // Relaxed: nothing is ordered by statistics.
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

impl Counters {
    /// Counts one call that moved some bytes.
    #[inline(always)]
    pub fn add(&self, bytes: u64) {
        // Relaxed: nothing is ordered by statistics. Threads count at once, and none is lost.
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}
