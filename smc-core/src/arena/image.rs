//! The arena as a tool reads it: copied out of the memfd.
//!
//! A tool maps nothing. So it cannot disturb the family, it does not fill the holes of the memfd
//! with pages as touching them would, and a file that is cut short under its hands is an error and
//! not a SIGBUS. Each word is copied as a whole; words of one record may be some moments apart.
#![forbid(unsafe_code)]
use super::conn::Conn;
use super::proc::{Counters, ProcPage};
use super::{Head, CONNS, CONN_OFFSET, MAGIC, PROCS, PROC_OFFSET, REASONS, VERSION};
use crate::reason::Reason;
use core::mem::{offset_of, size_of};
use std::io;

/// Records that are fetched at a time.
const BATCH: usize = 256;

/// A copy of an arena.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// The processes that have a page.
    pub processes: Vec<ProcessImage>,
    /// The records in use.
    pub conns: Vec<ConnImage>,
}

/// Copy of a connection's record; see [`Conn`] for what the fields mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ConnImage {
    pub owner: u32,
    pub procs: u32,
    pub fd: i32,
    pub inode: u64,
    pub flags: u32,
    pub phase: u32,
    pub reason: Reason,
    pub tx_mode: u32,
    pub tx_size: u32,
    pub tx_ring_bytes: u64,
    pub tx_tcp_bytes: u64,
    pub rx_mode: u32,
    pub rx_size: u32,
    pub rx_ring_bytes: u64,
    pub rx_tcp_bytes: u64,
}

/// Copy of [`Counters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes.
    pub bytes: u64,
    /// Calls that moved any.
    pub calls: u64,
}

/// Copy of a process's page; see [`ProcPage`] for what the fields mean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ProcessImage {
    pub pid: u32,
    pub connections: u64,
    pub smcd: u64,
    pub smcr: u64,
    pub tcp: u64,
    pub smc_tx: Moved,
    pub smc_rx: Moved,
    pub tcp_tx: Moved,
    pub tcp_rx: Moved,
    pub doorbells: u64,
    pub sleeps: u64,
    pub spins: u64,
    pub kernel_checks: u64,
    pub back: u64,
    pub peer_back: u64,
    pub fallbacks: Vec<(Reason, u32)>,
}

impl Image {
    /// Reads an arena by `read_at`, which fills a buffer from an offset of the memfd. A file that
    /// is no arena of this version is an error of kind `InvalidData`.
    pub fn read(mut read_at: impl FnMut(&mut [u8], u64) -> io::Result<()>) -> io::Result<Self> {
        let mut front = vec![0; CONN_OFFSET];
        read_at(&mut front, 0)?;
        let front = Words(&front);
        if front.u64(offset_of!(Head, magic)) != MAGIC
            || front.u32(offset_of!(Head, version)) != VERSION
        {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let pages = (0..PROCS).map(|n| front.from(PROC_OFFSET + n * size_of::<ProcPage>()));
        let processes = pages.filter_map(ProcessImage::parse).collect();
        let high = (front.u32(offset_of!(Head, high)) as usize).min(CONNS);
        let mut conns = Vec::new();
        let mut batch = vec![0; BATCH.min(high) * size_of::<Conn>()];
        for first in (0..high).step_by(BATCH) {
            batch.truncate((high - first).min(BATCH) * size_of::<Conn>());
            read_at(&mut batch, (CONN_OFFSET + first * size_of::<Conn>()) as u64)?;
            let records = batch.chunks_exact(size_of::<Conn>());
            conns.extend(records.filter_map(|record| ConnImage::parse(Words(record))));
        }
        Ok(Self { processes, conns })
    }

    /// The page of a process.
    pub fn process(&self, pid: u32) -> Option<&ProcessImage> {
        self.processes.iter().find(|process| process.pid == pid)
    }
}

impl ConnImage {
    fn parse(record: Words<'_>) -> Option<Self> {
        if record.u32(offset_of!(Conn, used)) == 0 {
            return None;
        }
        Some(Self {
            owner: record.u32(offset_of!(Conn, owner)),
            procs: record.u32(offset_of!(Conn, procs)),
            fd: record.u32(offset_of!(Conn, fd)).cast_signed(),
            inode: record.u64(offset_of!(Conn, inode)),
            flags: record.u32(offset_of!(Conn, flags)),
            phase: record.u32(offset_of!(Conn, phase)),
            reason: Reason(record.u32(offset_of!(Conn, reason))),
            tx_mode: record.u32(offset_of!(Conn, tx_mode)),
            tx_size: record.u32(offset_of!(Conn, tx_size)),
            tx_ring_bytes: record.u64(offset_of!(Conn, tx_ring_bytes)),
            tx_tcp_bytes: record.u64(offset_of!(Conn, tx_tcp_bytes)),
            rx_mode: record.u32(offset_of!(Conn, rx_mode)),
            rx_size: record.u32(offset_of!(Conn, rx_size)),
            rx_ring_bytes: record.u64(offset_of!(Conn, rx_ring_bytes)),
            rx_tcp_bytes: record.u64(offset_of!(Conn, rx_tcp_bytes)),
        })
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

impl ProcessImage {
    fn parse(page: Words<'_>) -> Option<Self> {
        let pid = page.u32(offset_of!(ProcPage, pid));
        if pid == 0 {
            return None;
        }
        let moved = |at| Moved {
            bytes: page.u64(at + offset_of!(Counters, bytes)),
            calls: page.u64(at + offset_of!(Counters, calls)),
        };
        let reasons = (0..REASONS).map(|n| offset_of!(ProcPage, reasons) + n * 8);
        let fallbacks = reasons
            .map(|at| (Reason(page.u32(at)), page.u32(at + 4)))
            .filter(|(reason, _)| reason.0 != 0)
            .collect();
        Some(Self {
            pid,
            connections: page.u64(offset_of!(ProcPage, connections)),
            smcd: page.u64(offset_of!(ProcPage, smcd)),
            smcr: page.u64(offset_of!(ProcPage, smcr)),
            tcp: page.u64(offset_of!(ProcPage, tcp)),
            smc_tx: moved(offset_of!(ProcPage, smc_tx)),
            smc_rx: moved(offset_of!(ProcPage, smc_rx)),
            tcp_tx: moved(offset_of!(ProcPage, tcp_tx)),
            tcp_rx: moved(offset_of!(ProcPage, tcp_rx)),
            doorbells: page.u64(offset_of!(ProcPage, doorbells)),
            sleeps: page.u64(offset_of!(ProcPage, sleeps)),
            spins: page.u64(offset_of!(ProcPage, spins)),
            kernel_checks: page.u64(offset_of!(ProcPage, kernel_checks)),
            back: page.u64(offset_of!(ProcPage, back)),
            peer_back: page.u64(offset_of!(ProcPage, peer_back)),
            fallbacks,
        })
    }
}

/// Bytes as words; what lies outside is 0.
#[derive(Clone, Copy)]
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn from(self, at: usize) -> Self {
        Words(self.0.get(at..).unwrap_or_default())
    }
    fn array<const N: usize>(self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(|rest| rest.first_chunk().copied()).unwrap_or([0; N])
    }
    fn u32(self, at: usize) -> u32 {
        u32::from_ne_bytes(self.array(at))
    }
    fn u64(self, at: usize) -> u64 {
        u64::from_ne_bytes(self.array(at))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::arena::{flag, phase, Arena, MODE_RING};
    use crate::sync::Ordering;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    fn read(fd: i32) -> io::Result<Image> {
        let file = File::open(format!("/proc/self/fd/{fd}"))?;
        Image::read(|bytes, at| file.read_exact_at(bytes, at))
    }

    #[test]
    fn an_image_shows_what_the_engine_wrote() {
        let arena = Arena::create(|fd| fd).unwrap();
        let page = arena.enter_process(4711).unwrap();
        let page = arena.proc_page(page).unwrap();
        page.count_fallback(Reason::PEERNOSMC);
        page.smc_rx.add(7);
        page.kernel_checks.store(3, Ordering::Relaxed);
        // More than a batch, and some of them gone again.
        for n in 0..300_u64 {
            let (_, conn) = arena.allocate(4711).unwrap();
            conn.fd.store(n as u32, Ordering::Relaxed);
            conn.tx_ring_bytes.store(n, Ordering::Relaxed);
        }
        let last = arena.conn(299).unwrap();
        last.phase.store(phase::ATTACHED, Ordering::Relaxed);
        last.raise(flag::CLIENT);
        last.rx_mode.store(MODE_RING, Ordering::Relaxed);
        last.rx_size.store(1 << 17, Ordering::Relaxed);
        last.inode.store(99, Ordering::Relaxed);
        arena.release(5);

        let image = read(arena.fd).unwrap();
        assert_eq!(image.conns.len(), 299);
        assert!(image.conns.iter().all(|conn| conn.fd != 5 && conn.owner == 4711));
        let copy = *image.conns.last().unwrap();
        let expected = ConnImage {
            owner: 4711,
            procs: 1,
            fd: 299,
            inode: 99,
            flags: flag::CLIENT,
            phase: phase::ATTACHED,
            tx_ring_bytes: 299,
            rx_mode: MODE_RING,
            rx_size: 1 << 17,
            ..ConnImage::default()
        };
        assert_eq!(copy, expected);
        let process = ProcessImage {
            pid: 4711,
            tcp: 1,
            smc_rx: Moved { bytes: 7, calls: 1 },
            kernel_checks: 3,
            back: 0,
            peer_back: 0,
            fallbacks: vec![(Reason::PEERNOSMC, 1)],
            ..ProcessImage::default()
        };
        assert_eq!(image.processes, [process]);
        assert!(image.process(4711).is_some());
        assert!(image.process(1).is_none());
    }

    #[test]
    fn what_is_no_arena_is_an_error() {
        let kind = |result: io::Result<Image>| result.map(|_| ()).unwrap_err().kind();
        assert_eq!(kind(Image::read(|_, _| Ok(()))), io::ErrorKind::InvalidData);
        let short = File::open("/proc/self/exe").unwrap();
        let at = short.metadata().unwrap().len() - 1;
        let result = Image::read(|bytes, offset| short.read_exact_at(bytes, at + offset));
        assert_eq!(kind(result), io::ErrorKind::UnexpectedEof);
        // A count of records that cannot be.
        let arena = Arena::create(|fd| fd).unwrap();
        arena.head().unwrap().high.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(read(arena.fd).unwrap().conns, []);
    }
}
