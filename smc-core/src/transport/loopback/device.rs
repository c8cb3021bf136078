//! The loopback device of this process: its link groups, wait queues and control socket.
use super::aside::Asides;
use super::{Control, Groups, Queues};
use crate::arena::{Arena, ProcPage, PROCS, UNBORN};
use crate::sync::{AtomicU32, Ordering};
use crate::sys::raw;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) arena: Arena,
    pub(crate) groups: Groups,
    pub(crate) queues: Queues,
    pub(crate) control: Control,
    /// Listeners of servers, and questions of clients, beside their streams.
    pub(crate) asides: Asides,
    page: AtomicU32,
    pid: AtomicU32,
    /// The page that the next child will have.
    cradle: AtomicU32,
}

/// Children of one process that have not begun, each with a page that waits for it.
const UNBORN_MAX: usize = 32;

impl Device {
    /// A device for this process; `None`: the arena has no page left. `born`: the page that waits
    /// for it, if it was started by a process of the family, whose child it need not be any more.
    pub(crate) fn new(arena: Arena, born: Option<u32>) -> Option<Self> {
        let pid = raw::getpid();
        let born = born.map(|page| page as usize).filter(|page| {
            arena.proc_page(*page).is_some_and(|page| {
                let waits = page.pid();
                waits & UNBORN != 0 && page.claim(waits, pid)
            })
        });
        let page = born.or_else(|| arena.enter_process(pid))?;
        Some(Self {
            arena,
            groups: Groups::new(),
            queues: Queues::new(),
            control: Control::new(),
            asides: Asides::new(),
            page: AtomicU32::new(page as u32),
            pid: AtomicU32::new(pid),
            cradle: AtomicU32::new(u32::MAX),
        })
    }

    /// The statistics page of this process.
    #[inline(always)]
    pub(crate) fn page(&self) -> &ProcPage {
        self.arena.page_at(self.page.load(Ordering::Relaxed) as usize)
    }

    /// The pid as of the start or the last fork.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// Whether the caller is a child that shares the memory of its parent (vfork).
    pub(crate) fn is_borrowed(&self) -> bool {
        raw::getpid() != self.pid()
    }

    /// Whether no other process of the fork family lives.
    pub(crate) fn is_alone(&self) -> bool {
        let own = self.pid();
        let pages = (0..PROCS).filter_map(|index| self.arena.proc_page(index));
        let mut others = pages.map(ProcPage::pid).filter(|pid| *pid != 0 && *pid != own);
        // A child that has not begun yet lives, also if its parent has ended meanwhile.
        !others.any(|pid| match pid & UNBORN {
            0 => raw::exists(pid),
            _ => pid != own | UNBORN || self.is_borrowed() || raw::has_children(),
        })
    }

    /// Before a fork: the child is one of the family from now on. It has a page of its own, since the
    /// child of the last fork may not have begun either. After a fork that failed the page waits for
    /// the next, unless there are children; then it is one of a few.
    pub(crate) fn expect_child(&self) {
        let unborn = self.pid() | UNBORN;
        let cradle = self.arena.proc_page(self.cradle.load(Ordering::Relaxed) as usize);
        if cradle.is_some_and(|page| page.pid() == unborn) {
            let pages = (0..PROCS).filter_map(|index| self.arena.proc_page(index));
            let waiting = pages.filter(|page| page.pid() == unborn).count();
            if waiting >= UNBORN_MAX || !raw::has_children() {
                return;
            }
        }
        self.cradle.store(self.expect_another(), Ordering::Relaxed);
    }

    /// Before a child is started that will be another program: a page that waits for it and no other,
    /// or none. A fork meanwhile has its own.
    pub(crate) fn expect_another(&self) -> u32 {
        let free = self.arena.enter_anew(self.pid() | UNBORN);
        free.map_or(u32::MAX, |index| index as u32)
    }

    /// That child does not come.
    pub(crate) fn expect_no_more(&self, page: u32) {
        if let Some(page) = self.arena.proc_page(page as usize) {
            page.leave(self.pid() | UNBORN);
        }
    }

    /// In the child, after a fork. `keep`: wait queues that it shares with the parent.
    pub(crate) fn after_fork(&self, keep: impl Fn(usize) -> bool) {
        let pid = raw::getpid();
        let unborn = self.pid() | UNBORN;
        self.pid.store(pid, Ordering::Relaxed);
        let cradle = self.cradle.swap(u32::MAX, Ordering::Relaxed);
        let born = self.arena.proc_page(cradle as usize).is_some_and(|page| page.claim(unborn, pid));
        let page = if born { Some(cradle as usize) } else { self.arena.enter_process(pid) };
        if let Some(page) = page {
            self.page.store(page as u32, Ordering::Relaxed);
        }
        self.groups.after_fork(&keep);
        self.asides.after_fork();
        self.control.after_fork();
        self.queues.after_fork(&keep);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn children_that_have_not_begun_are_alive_each_by_itself() {
        let device = Device::new(Arena::create(|fd| fd).unwrap(), None).unwrap();
        assert!(device.is_alone());
        // While there is one, it may be it that has not begun.
        let mut child = std::process::Command::new("sleep").arg("9").spawn().unwrap();
        let page = |index: u32| device.arena.proc_page(index as usize).unwrap();
        let unborn = device.pid() | UNBORN;
        device.expect_child();
        let first = device.cradle.load(Ordering::Relaxed);
        device.expect_child();
        let second = device.cradle.load(Ordering::Relaxed);
        assert_ne!(first, second);
        // One has begun, and ended.
        page(second).leave(unborn);
        assert!(!device.is_alone());
        page(first).leave(unborn);
        assert!(device.is_alone());
        // Forks that fail do not use all pages up.
        for _ in 0..2 * UNBORN_MAX {
            device.expect_child();
        }
        let waits = |index: &u32| page(*index).pid() == unborn;
        assert_eq!((0..PROCS as u32).filter(waits).count(), UNBORN_MAX);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
