//! What an image hands to the next one over an `exec`: which descriptors are which connections.
//!
//! It lies in a memfd of its own, and travels with the arena and what the link groups need as
//! messages do that carry descriptors: in the queue of a Unix socket, the **carrier**, the one
//! descriptor that stays open over the `exec`. The next image knows the carrier by its name, finds
//! it in the list of its open descriptors, takes all out and closes it before the program starts.
use crate::errno::Errno;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::sys::mem::Mapping;
use crate::sys::{growth, inherit, limits, raw, scm};
use libc::c_int;

/// Link groups that one image can hand over.
const GROUPS: usize = 64;
/// Rows for connections: one for each descriptor, or for each that ends.
const ROWS: usize = 1 << 16;
/// "SMCEXEC1"
const MAGIC: u64 = u64::from_le_bytes(*b"SMCEXEC1");
/// What a carrier's name begins with: an abstract one.
const PREFIX: &[u8; 10] = b"\0smc-exec-";
/// Marks a record that is on TCP again among those that end.
const LEFT: u32 = 1 << 31;
/// Carriers that an image looks at.
const CARRIERS: usize = 8;

/// Which process the next image runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heir {
    /// This one.
    Same,
    /// This one, a child that until now has used its parent's memory.
    Borrower,
    /// A child that does not exist yet (`posix_spawn`).
    Child,
}

/// One link group.
#[derive(Debug)]
#[repr(C)]
pub struct GroupRow {
    /// Its index in this process's list, and in the next image's.
    pub index: AtomicU32,
    /// Whether this side is the client.
    pub client: AtomicU32,
    /// As in the group.
    pub gid: [AtomicU64; 2],
    /// The peer's user.
    pub peer_uid: AtomicU32,
    /// Size codes of the rings.
    pub codes: [AtomicU32; 2],
    /// The process that made it.
    pub maker: AtomicU32,
    /// Which of the descriptors that travel is its region's; its control socket, if the peer lives,
    /// and its bells follow.
    pub first: AtomicU32,
    /// Not 0: there is a control socket.
    pub alive: AtomicU32,
    /// The peer's wait slots whose bells are known.
    pub bells: AtomicU64,
}

/// See the module's text.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Manifest {
    magic: AtomicU64,
    /// The library's file: another one may have another layout.
    build: [AtomicU64; 4],
    /// Page of the next image's process in the arena, or none.
    pub page: AtomicU32,
    /// Thread that holds the locks of all connections in it, or 0.
    pub holder: AtomicU32,
    /// Not 0: an image has taken it.
    pub taken: AtomicU32,
    /// Not 0: the process goes on in the next image, so what it alone held is the next image's.
    pub same: AtomicU32,
    /// The signals that the program blocks.
    pub signals: AtomicU64,
    /// Rows in use.
    pub groups: AtomicU32,
    /// As above.
    pub conns: AtomicU32,
    /// As above.
    pub ended: AtomicU32,
    /// The link groups.
    pub group: [GroupRow; GROUPS],
    /// Descriptor and index of the record.
    pub conn: [[AtomicU32; 2]; ROWS],
    /// Records of which the `exec` closes the last descriptor.
    pub end: [AtomicU32; ROWS],
}

/// A manifest, and the descriptors that travel with it: first its own, then the arena's.
#[derive(Debug)]
pub struct Handover {
    map: Mapping,
    fds: [c_int; scm::MANY],
    count: usize,
}

/// What stays of it in this process while the `exec` is under way: no memory, since a child that
/// uses its parent's would leave it there.
#[derive(Clone, Copy, Debug)]
pub struct Packed {
    memfd: c_int,
    /// The one descriptor that is inherited.
    pub carrier: c_int,
}

const LEN: usize = size_of::<Manifest>();

impl Handover {
    /// An empty one.
    pub fn new(arena: c_int, build: [u64; 4]) -> Result<Self, Errno> {
        let memfd = high(raw::memfd(c"smc-exec")?);
        let map = growth::ftruncate(memfd, LEN).and_then(|_| Mapping::of(memfd, LEN));
        let map = map.inspect_err(|_| raw::close(memfd))?;
        let mut fds = [-1; scm::MANY];
        (fds[0], fds[1]) = (memfd, arena);
        let handover = Self { map, fds, count: 2 };
        let manifest = handover.manifest();
        for (word, value) in manifest.build.iter().zip(build) {
            word.store(value, Ordering::Relaxed);
        }
        manifest.page.store(u32::MAX, Ordering::Relaxed);
        manifest.magic.store(MAGIC, Ordering::Relaxed);
        Ok(handover)
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        // SAFETY: requires a structure of atomics inside the mapping; `Manifest` is one, and the
        // mapping has its length and starts at a page.
        unsafe { &*self.map.base().cast::<Manifest>() }
    }

    /// Lets some descriptors travel; where the first of them stands. `None`: there is no room.
    pub fn add(&mut self, fds: &[c_int]) -> Option<usize> {
        let first = self.count;
        self.fds.get_mut(first..first + fds.len())?.copy_from_slice(fds);
        self.count += fds.len();
        Some(first)
    }

    /// Takes descriptors back that were added last.
    pub fn shorten(&mut self, count: usize) {
        self.count = count;
    }

    /// The n-th of the descriptors that came.
    pub fn fd(&self, at: usize) -> Option<c_int> {
        self.fds.get(..self.count)?.get(at).copied()
    }

    /// Moves the descriptors that came out of the program's way.
    pub fn move_all(&mut self, raise: impl Fn(c_int) -> c_int) {
        for fd in self.fds.iter_mut().take(self.count) {
            *fd = raise(*fd);
        }
    }

    /// Packs everything into a carrier, which from then on is inherited; one for a child that does not
    /// exist yet is as soon as [`Packed::let_inherit`] says so.
    pub fn pack(&self, heir: Heir) -> Result<Packed, Errno> {
        let [carrier, sender] = raw::socket_pair()?;
        let carrier = high(carrier);
        let mut address = [0; 64];
        let len = name(heir, raw::getpid(), &mut address);
        let packed = raw::bind(carrier, &address[..len])
            .and_then(|_| scm::send_rights(sender, &self.fds[..self.count]).map(|()| 0))
            .map(|_| Packed { memfd: self.fds[0], carrier })
            .inspect(|packed| packed.let_inherit(heir != Heir::Child));
        raw::close(sender);
        packed.inspect_err(|_| raw::close(carrier))
    }

    /// Gives it up, unpacked.
    pub fn discard(self) {
        raw::close(self.fds[0]);
    }

    /// In the next image: what the last one has left for it. The descriptors are new.
    pub fn find() -> Option<Self> {
        let mut found = [-1; CARRIERS];
        let mut count = 0;
        inherit::each_open(|fd| {
            if let Some(free) = found.get_mut(count).filter(|_| is_carrier(fd)) {
                *free = fd;
                count += 1;
            }
        });
        let mut handover = None;
        for carrier in found.into_iter().filter(|fd| *fd >= 0) {
            if handover.is_none() && is_for_me(carrier) {
                handover = Self::unpack(carrier);
            }
            raw::close(carrier);
        }
        handover
    }

    fn unpack(carrier: c_int) -> Option<Self> {
        let (fds, count) = scm::peek_rights(carrier).ok()?;
        let complete = count >= 2 && raw::file_size(fds[0]) == Ok(LEN as u64);
        let map = if complete { Mapping::of(fds[0], LEN).ok() } else { None };
        let Some(map) = map else {
            fds[..count].iter().for_each(|fd| raw::close(*fd));
            return None;
        };
        Some(Self { map, fds, count })
    }

    /// Whether the last image ran the same library, so that its records can be read.
    pub fn is_of(&self, build: [u64; 4]) -> bool {
        let manifest = self.manifest();
        let known = manifest.build.iter().zip(build);
        manifest.magic.load(Ordering::Relaxed) == MAGIC
            && known.into_iter().all(|(word, value)| word.load(Ordering::Relaxed) == value)
    }
}

impl Packed {
    /// A child that is started from now on gets the carrier, or none does.
    pub fn let_inherit(&self, inherits: bool) {
        let flags = if inherits { 0 } else { libc::FD_CLOEXEC as usize };
        let _ = raw::fcntl(self.carrier, libc::F_SETFD, flags);
    }

    /// Whether an image has taken what is inside.
    pub fn is_taken(&self) -> bool {
        let mut word = [0; 4];
        let at = core::mem::offset_of!(Manifest, taken) as u64;
        let got = raw::pread(self.memfd, word.as_mut_ptr(), word.len(), at);
        got == Ok(word.len()) && word != [0; 4]
    }

    /// Looks into it once more.
    pub fn open(&self) -> Option<Handover> {
        let map = Mapping::of(self.memfd, LEN).ok()?;
        let mut fds = [-1; scm::MANY];
        fds[0] = self.memfd;
        Some(Handover { map, fds, count: 1 })
    }

    /// Closes what the `exec` did not take, in this process.
    pub fn close(self) {
        raw::close(self.carrier);
        raw::close(self.memfd);
    }
}

impl Manifest {
    /// The rows for descriptors: each with the index of its record.
    pub fn conns(&self) -> impl Iterator<Item = (c_int, u32)> + '_ {
        let count = self.conns.load(Ordering::Relaxed) as usize;
        self.conn.iter().take(count).map(|[fd, index]| {
            (fd.load(Ordering::Relaxed).cast_signed(), index.load(Ordering::Relaxed))
        })
    }

    /// Adds such a row; false: there is no room.
    pub fn add_conn(&self, fd: c_int, index: u32) -> bool {
        let Some(row) = self.conn.get(self.conns.load(Ordering::Relaxed) as usize) else {
            return false;
        };
        row[0].store(fd.cast_unsigned(), Ordering::Relaxed);
        row[1].store(index, Ordering::Relaxed);
        self.conns.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Notes a record of which the `exec` closes the last descriptor, or that is no use to the next
    /// image since the connection has `left` for TCP.
    pub fn add_end(&self, index: u32, left: bool) {
        let index = if left { index | LEFT } else { index };
        if let Some(row) = self.end.get(self.ended.load(Ordering::Relaxed) as usize) {
            row.store(index, Ordering::Relaxed);
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Those records.
    pub fn ends(&self) -> impl Iterator<Item = (u32, bool)> + '_ {
        let count = self.ended.load(Ordering::Relaxed) as usize;
        let rows = self.end.iter().take(count).map(|row| row.load(Ordering::Relaxed));
        rows.map(|row| (row & !LEFT, row & LEFT != 0))
    }

    /// The rows for link groups.
    pub fn groups(&self) -> impl Iterator<Item = &GroupRow> {
        self.group.iter().take(self.groups.load(Ordering::Relaxed) as usize)
    }
}

/// A descriptor at a high number, out of the program's way: close-on-exec, and in no table, since
/// the process may be one that borrows its parent's.
fn high(fd: c_int) -> c_int {
    let top = limits::descriptors().min(1 << 16);
    match raw::fcntl(fd, libc::F_DUPFD_CLOEXEC, top - (top / 4).min(4096)) {
        Ok(high) => {
            raw::close(fd);
            high as c_int
        }
        Err(_) => fd,
    }
}

/// The name: who may take what is inside (`s`: the process that made it, `c`: a child), that process,
/// and 64 random bits.
fn name(heir: Heir, pid: u32, address: &mut [u8; 64]) -> usize {
    let mut random = [0; 8];
    raw::random(&mut random);
    let family = (libc::AF_UNIX as u16).to_ne_bytes();
    let who = [if heir == Heir::Child { b'c' } else { b's' }];
    let parts: [&[u8]; 5] = [&family, PREFIX, &who, &pid.to_ne_bytes(), &random];
    let mut len = 0;
    for part in parts {
        address[len..len + part.len()].copy_from_slice(part);
        len += part.len();
    }
    len
}

/// The name of a carrier behind the prefix.
fn carrier_name(fd: c_int) -> Option<[u8; 5]> {
    let mut address = [0; 128];
    let len = raw::getsockname(fd, &mut address).ok()?;
    let family = (libc::AF_UNIX as u16).to_ne_bytes();
    let name = address.get(..len)?.strip_prefix(&family)?.strip_prefix(PREFIX)?;
    name.first_chunk().copied()
}

/// Whether a descriptor is one that was left for some next image.
pub fn is_carrier(fd: c_int) -> bool {
    fd > libc::STDERR_FILENO && carrier_name(fd).is_some()
}

fn is_for_me(carrier: c_int) -> bool {
    let Some([who, pid @ ..]) = carrier_name(carrier) else { return false };
    // Whose child this is does not tell: its parent may have ended.
    (u32::from_ne_bytes(pid) == raw::getpid()) == (who == b's')
}

/// Held by a test that has carriers.
#[cfg(test)]
pub(super) static HAS_CARRIERS: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The carriers of two tests that run side by side would be in one list.
    #[test]
    fn what_is_packed_is_found_once_and_by_whom_it_is_meant_for() {
        let _alone = HAS_CARRIERS.lock();
        let travels = raw::eventfd().unwrap();
        let arena = raw::eventfd().unwrap();
        let mut made = Handover::new(arena, [1, 2, 3, 4]).unwrap();
        assert_eq!(made.add(&[travels]), Some(2));
        assert!(made.manifest().add_conn(7, 4711));
        made.manifest().add_end(5, true);
        let packed = made.pack(Heir::Same).unwrap();
        drop(made);
        assert!(inherit::is_inherited(packed.carrier));
        let again = packed.open().unwrap();
        assert_eq!(again.manifest().conns().collect::<Vec<_>>(), [(7, 4711)]);

        let found = Handover::find().unwrap();
        assert!(found.is_of([1, 2, 3, 4]));
        assert!(!found.is_of([1, 2, 3, 5]));
        assert_eq!(found.manifest().conns().collect::<Vec<_>>(), [(7, 4711)]);
        assert_eq!(found.manifest().ends().collect::<Vec<_>>(), [(5, true)]);
        let copy = found.fd(2).unwrap();
        assert_ne!(copy, travels);
        raw::eventfd_ring(copy);
        assert_ne!(raw::poll_now(travels, libc::POLLIN), 0);
        assert_eq!(found.fd(3), None);
        // The carrier is closed, so there is no second.
        assert!(Handover::find().is_none());

        // For a child of this process: not for itself, and nothing to leave lying about.
        let child = Handover::new(arena, [0; 4]).unwrap().pack(Heir::Child).unwrap();
        assert!(is_carrier(child.carrier));
        assert!(Handover::find().is_none());
        assert!(!is_carrier(child.carrier));
        for fd in [0, 1, 2].map(|at| found.fd(at).unwrap()).into_iter().chain([travels, arena]) {
            raw::close(fd);
        }
    }
}
