//! What each descriptor number of this process is to us: one word each.
//!
//! The table is private memory, so a forked child goes on with a copy of its own. Numbers past its
//! end are never ours: such sockets are plain TCP.
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::sys::{limits, raw};
use libc::c_int;

/// Descriptors that can be ours.
pub(crate) const LIMIT: usize = 1 << 16;

const KIND_SHIFT: u32 = 28;
const INDEX_MASK: u32 = (1 << KIND_SHIFT) - 1;
const SOCKET: u32 = 1 << KIND_SHIFT;
const EPOLL: u32 = 2 << KIND_SHIFT;
const INTERNAL: u32 = 3 << KIND_SHIFT;

/// Numbers that are looked at together when all are looked for.
const BLOCK: usize = 64;
/// The blocks in which there has ever been an entry, a bit each.
static BLOCKS: [AtomicU64; LIMIT / BLOCK / 64] = [const { AtomicU64::new(0) }; LIMIT / BLOCK / 64];

static TABLE: [AtomicU32; LIMIT] = [const { AtomicU32::new(0) }; LIMIT];

/// What an fd is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: the real function is called at once.
    Foreign,
    /// A TCP socket of the program.
    Socket,
    /// An epoll instance of the program.
    Epoll,
    /// A descriptor of the engine, which the program must not see.
    Internal,
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(u32);

impl Entry {
    /// A socket of the program; the index is that of its record.
    pub(crate) fn socket(index: u32) -> Self {
        Self(SOCKET | (index & INDEX_MASK))
    }
    /// An epoll instance.
    pub(crate) fn epoll(index: u32) -> Self {
        Self(EPOLL | (index & INDEX_MASK))
    }
    /// A descriptor of the engine.
    pub(crate) const fn internal() -> Self {
        Self(INTERNAL)
    }
    /// What kind of thing it is.
    #[inline]
    pub(crate) fn kind(self) -> Kind {
        match self.0 & !INDEX_MASK {
            SOCKET => Kind::Socket,
            EPOLL => Kind::Epoll,
            INTERNAL => Kind::Internal,
            _ => Kind::Foreign,
        }
    }
    /// Index of the record, for a socket.
    #[inline(always)]
    pub(crate) fn as_socket(self) -> Option<u32> {
        (self.0 & !INDEX_MASK == SOCKET).then_some(self.0 & INDEX_MASK)
    }
    /// Index of the instance, for an epoll.
    #[inline(always)]
    pub(crate) fn as_epoll(self) -> Option<u32> {
        (self.0 & !INDEX_MASK == EPOLL).then_some(self.0 & INDEX_MASK)
    }
}

/// Whether the number means anything to us: one load.
#[inline(always)]
pub(crate) fn is_tracked(fd: c_int) -> bool {
    entry(fd).0 != 0
}

/// The entry of a number.
#[inline(always)]
pub(crate) fn entry(fd: c_int) -> Entry {
    match TABLE.get(fd as usize) {
        // Acquire: pairs with the Release in `set`; the record is complete before its entry.
        Some(word) => Entry(word.load(Ordering::Acquire)),
        None => Entry(0),
    }
}

/// Sets the entry; false where the number is past the table.
pub(crate) fn set(fd: c_int, entry: Entry) -> bool {
    match usize::try_from(fd).ok().and_then(|fd| TABLE.get(fd)) {
        Some(word) => {
            let block = fd.unsigned_abs() as usize / BLOCK;
            let (blocks, bit) = (&BLOCKS[block / 64], 1 << (block % 64));
            if blocks.load(Ordering::Relaxed) & bit == 0 {
                // Release: before the entry, for those who look for all.
                blocks.fetch_or(bit, Ordering::Release);
            }
            // Release: pairs with the Acquire in `entry`.
            word.store(entry.0, Ordering::Release);
            true
        }
        None => false,
    }
}

/// Clears the entry and tells what it was.
pub(crate) fn take(fd: c_int) -> Entry {
    match usize::try_from(fd).ok().and_then(|fd| TABLE.get(fd)) {
        // AcqRel: two threads that close the same number must not both get the record.
        Some(word) => Entry(word.swap(0, Ordering::AcqRel)),
        None => Entry(0),
    }
}

/// All numbers with an entry, in order.
pub(crate) fn all() -> impl Iterator<Item = (c_int, Entry)> {
    let used = BLOCKS.iter().zip(0..).flat_map(|(word, at)| {
        let word = word.load(Ordering::Acquire);
        (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| (at * 64 + bit) * BLOCK)
    });
    used.flat_map(|start| {
        TABLE[start..start + BLOCK].iter().zip(start as c_int..).filter_map(|(word, fd)| {
            let value = word.load(Ordering::Acquire);
            (value != 0).then_some((fd, Entry(value)))
        })
    })
}

/// Numbers from here on are out of the program's way.
fn high() -> usize {
    let top = limits::descriptors().min(LIMIT);
    top - (top / 4).min(4096)
}

/// A copy of the program's descriptor that is ours, at a high number.
pub(crate) fn copy(fd: c_int) -> Option<c_int> {
    let copy = raw::fcntl(fd, libc::F_DUPFD_CLOEXEC, high()).ok()? as c_int;
    set(copy, Entry::internal());
    Some(copy)
}

/// Moves a descriptor of ours to a high number, out of the program's way, and closes the low one.
/// It stays where it is if there is no room.
pub(crate) fn raise(fd: c_int) -> c_int {
    let fd = match raw::fcntl(fd, libc::F_DUPFD_CLOEXEC, high()) {
        Ok(high) => {
            raw::close(fd);
            high as c_int
        }
        Err(_) => fd,
    };
    set(fd, Entry::internal());
    fd
}

/// Closes a descriptor of ours.
pub(crate) fn drop_internal(fd: c_int) {
    if fd >= 0 {
        take(fd);
        raw::close(fd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_entries_are_found_in_order() {
        // Numbers that no other test of this process has.
        let mine = [40_000, 40_063, 40_064, 65_535];
        for (fd, index) in mine.into_iter().zip(1..) {
            assert!(set(fd, Entry::socket(index)));
        }
        assert!(!set(65_536, Entry::internal()));
        let found: Vec<_> = all().filter(|(fd, _)| mine.contains(fd)).collect();
        let ordered: Vec<_> = mine.into_iter().zip(1..).map(|(fd, n)| (fd, Entry::socket(n))).collect();
        assert_eq!(found, ordered);
        for fd in mine {
            take(fd);
        }
        assert_eq!(all().filter(|(fd, _)| mine.contains(fd)).count(), 0);
    }
}
