//! A thin epoll, level-triggered.
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// An epoll instance and room for what it reports.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

/// What one file descriptor is ready for.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// The number under which it was added.
    pub key: u64,
    /// It can be written to.
    pub writable: bool,
}

impl Epoll {
    /// A new instance.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; 256] })
    }

    /// Waits for `fd` to become readable, reported as `key`.
    pub fn add(&self, fd: &impl AsRawFd, key: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd.as_raw_fd(), key, libc::EPOLLIN)
    }

    /// From now on waits also for `fd` to become writable, or no longer.
    pub fn watch_writable(&self, fd: &impl AsRawFd, key: u64, on: bool) -> io::Result<()> {
        let events = if on { libc::EPOLLIN | libc::EPOLLOUT } else { libc::EPOLLIN };
        self.control(libc::EPOLL_CTL_MOD, fd.as_raw_fd(), key, events)
    }

    /// Waits for events, at most for `limit`.
    pub fn wait(
        &mut self,
        limit: Option<Duration>,
    ) -> io::Result<impl Iterator<Item = Ready> + '_> {
        let timeout =
            limit.map_or(-1, |limit| i32::try_from(limit.as_millis()).unwrap_or(i32::MAX));
        let room = i32::try_from(self.events.len()).unwrap_or(i32::MAX);
        // SAFETY: the buffer holds `room` events and outlives the call.
        let count = check(unsafe {
            libc::epoll_wait(self.fd.as_raw_fd(), self.events.as_mut_ptr(), room, timeout)
        })?;
        let count = usize::try_from(count).unwrap_or(0);
        Ok(self.events[..count].iter().map(|event| Ready {
            key: event.u64,
            writable: event.events & libc::EPOLLOUT.cast_unsigned() != 0,
        }))
    }

    fn control(&self, operation: i32, fd: RawFd, key: u64, events: i32) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: key };
        // SAFETY: `event` is valid for the call; the kernel copies it.
        check(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, fd, &mut event) })?;
        Ok(())
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
