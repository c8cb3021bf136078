//! The list of the link groups of this process.
use super::group::Group;
use super::queue::GROUPS;
use crate::sync::{AtomicPtr, AtomicU32, Ordering};
use crate::sys::lock::Lock;
use crate::sys::raw;

/// The link groups of this process.
#[derive(Debug)]
pub(crate) struct Groups {
    all: Box<[AtomicPtr<Group>]>,
    high: AtomicU32,
    /// Held while groups come and go.
    pub(crate) changing: Lock<Retired>,
}

/// Groups that ended, with the time at which they did.
#[derive(Debug, Default)]
pub(crate) struct Retired(Vec<(u64, *mut Group)>);

// SAFETY: requires that the pointers may be used by any thread: each is owned by the list alone.
unsafe impl Send for Retired {}

/// How long a group that ended stays mapped: a thread may still be inside a call on it.
const GRACE_NS: u64 = 5_000_000_000;

impl Groups {
    pub(crate) fn new() -> Self {
        Self {
            all: (0..GROUPS).map(|_| AtomicPtr::new(core::ptr::null_mut())).collect(),
            high: AtomicU32::new(0),
            changing: Lock::new(Retired::default()),
        }
    }

    /// The n-th, if there is one.
    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> Option<&Group> {
        let group = self.all.get(index)?.load(Ordering::Acquire);
        // SAFETY: requires null or a valid group: only `add` stores one, from a Box, and `retire`
        // frees it some seconds after it was taken out.
        unsafe { group.as_ref() }
    }

    /// In the child of a fork: a thread of the parent may have been draining one, and its queues are not
    /// the child's but for those to `keep`.
    pub(crate) fn after_fork(&self, keep: impl Fn(usize) -> bool) {
        self.iter().for_each(|group| group.after_fork(&keep));
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Group> {
        let high = self.high.load(Ordering::Acquire) as usize;
        (0..high).filter_map(|index| self.get(index))
    }

    /// An index for a new group; `changing` is held.
    pub(crate) fn vacancy(&self) -> Option<usize> {
        self.all.iter().position(|group| group.load(Ordering::Acquire).is_null())
    }

    /// Adds a group at its index; `changing` is held.
    pub(crate) fn add(&self, group: Group) -> Option<&Group> {
        let index = group.index();
        self.all.get(index)?.store(Box::into_raw(Box::new(group)), Ordering::Release);
        self.high.fetch_max(index as u32 + 1, Ordering::AcqRel);
        self.get(index)
    }

    /// Takes groups out whose peer is gone and which have no connection left.
    pub(crate) fn retire(&self, retired: &mut Retired) {
        let now = raw::monotonic_ns();
        for cell in &self.all[..self.high.load(Ordering::Acquire) as usize] {
            let group = cell.load(Ordering::Acquire);
            // SAFETY: as in `get`.
            let Some(seen) = (unsafe { group.as_ref() }) else { continue };
            if seen.is_dead() && seen.live() == 0 {
                seen.close_fds();
                cell.store(core::ptr::null_mut(), Ordering::Release);
                retired.0.push((now, group));
            }
        }
        retired.0.retain(|(since, group)| {
            if now.wrapping_sub(*since) < GRACE_NS {
                return true;
            }
            // SAFETY: requires a Box that nobody else owns: `add` made it, and it left the table
            // so long ago that no call that found it there is still running.
            drop(unsafe { Box::from_raw(*group) });
            false
        });
    }
}
