//! A link group over an `exec`: what of it travels, and how the next image makes it again.
use super::device::Device;
use super::geometry::Geometry;
use super::group::{Group, Peer};
use super::region::Region;
use crate::arena::{GroupRow, Handover};
use crate::shm::layout::WAIT_SLOTS;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::mem;
use libc::c_int;

/// A region, a control socket, and the bells.
const FDS: usize = 2 + WAIT_SLOTS;

impl Group {
    /// Puts the group into the handover, if it is not there yet; false: there is no room.
    pub(crate) fn pack(&self, handover: &mut Handover) -> bool {
        let manifest = handover.manifest();
        let index = self.index() as u32;
        if manifest.groups().any(|row| row.index.load(Ordering::Relaxed) == index) {
            return true;
        }
        let at = manifest.groups.load(Ordering::Relaxed) as usize;
        let (fds, count, alive, bells) = self.travelling();
        if at >= manifest.group.len() || fds[0] < 0 {
            return false;
        }
        let Some(first) = handover.add(fds.get(..count).unwrap_or(&[])) else { return false };
        let row = &handover.manifest().group[at];
        row.index.store(index, Ordering::Relaxed);
        row.client.store(u32::from(self.is_client()), Ordering::Relaxed);
        for (word, half) in row.gid.iter().zip(self.gid().chunks_exact(8)) {
            word.store(u64::from_ne_bytes(half.try_into().unwrap_or([0; 8])), Ordering::Relaxed);
        }
        row.peer_uid.store(self.peer_uid, Ordering::Relaxed);
        let Geometry { c2s, s2c } = self.geometry();
        for (word, code) in row.codes.iter().zip([c2s, s2c]) {
            word.store(u32::from(code), Ordering::Relaxed);
        }
        row.maker.store(self.maker, Ordering::Relaxed);
        row.first.store(first as u32, Ordering::Relaxed);
        row.alive.store(u32::from(alive), Ordering::Relaxed);
        row.bells.store(bells, Ordering::Relaxed);
        handover.manifest().groups.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Whether the descriptors that were packed still are the group's: other threads may have
    /// closed some and taken new ones.
    pub(crate) fn is_as_packed(&self, handover: &Handover) -> bool {
        let index = self.index() as u32;
        let mut rows = handover.manifest().groups();
        let Some(row) = rows.find(|row| row.index.load(Ordering::Relaxed) == index) else {
            return true;
        };
        let first = row.first.load(Ordering::Relaxed) as usize;
        let (fds, count, alive, bells) = self.travelling();
        let same = fds.iter().take(count).zip(first..).all(|(fd, at)| handover.fd(at) == Some(*fd));
        same && alive == (row.alive.load(Ordering::Relaxed) != 0)
            && bells == row.bells.load(Ordering::Relaxed)
    }

    /// What has to travel, how many that are, whether a control socket is among them, and which
    /// bells.
    fn travelling(&self) -> ([c_int; FDS], usize, bool, u64) {
        let mut fds = [-1; FDS];
        fds[0] = self.memfd;
        let mut count = 1;
        let control = self.control();
        if control >= 0 {
            fds[1] = control;
            count = 2;
        }
        let mut bells = 0;
        for slot in 0..WAIT_SLOTS {
            let bell = self.bell(slot);
            if bell >= 0 {
                fds[count] = bell;
                count += 1;
                bells |= 1 << slot;
            }
        }
        (fds, count, control >= 0, bells)
    }

    /// In the next image: makes the group of a row, at the index that it had.
    pub(crate) fn unpack<'p>(
        device: &'p Device,
        handover: &Handover,
        row: &GroupRow,
    ) -> Option<&'p Self> {
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed).to_ne_bytes();
        let mut gid = [0; 16];
        for (half, value) in gid.chunks_exact_mut(8).zip(&row.gid) {
            half.copy_from_slice(&word(value));
        }
        let code = |at: usize| row.codes[at].load(Ordering::Relaxed).min(6) as u8;
        let geometry = Geometry { c2s: code(0), s2c: code(1) };
        let first = row.first.load(Ordering::Relaxed) as usize;
        let memfd = handover.fd(first)?;
        let sealed = mem::is_sealed(memfd, geometry.region_len());
        let region = Region::of(memfd, geometry).ok().filter(|_| sealed)?;
        let mut at = first + 1;
        let mut next = || {
            let fd = handover.fd(at).unwrap_or(-1);
            at += 1;
            fd
        };
        let alive = row.alive.load(Ordering::Relaxed) != 0;
        let peer = Peer {
            client: row.client.load(Ordering::Relaxed) != 0,
            gid,
            uid: row.peer_uid.load(Ordering::Relaxed),
            control: if alive { next() } else { -1 },
        };
        let index = row.index.load(Ordering::Relaxed) as usize;
        let group = Group::new(index, peer, region, memfd);
        let bells = row.bells.load(Ordering::Relaxed);
        for slot in (0..WAIT_SLOTS).filter(|slot| bells >> slot & 1 != 0) {
            group.learn_bell(slot, next());
        }
        let _changing = device.groups.changing.lock();
        device.groups.add(group.made_by(row.maker.load(Ordering::Relaxed), !alive))
    }
}
