//! Readiness of many descriptors.
use super::{Ret, Timeout};
use crate::conn::wait::Deadline;
use crate::errno::Errno;
use crate::fdtable;
use crate::poll::set::{self, Sets};
use crate::process;
use crate::sys::iov::{fetch, store};
use crate::sys::raw;
use crate::sys::thread::{outside, Critical};
use libc::{c_int, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timeval};

/// Whether any descriptor of a poll set is tracked.
#[inline]
pub fn any_tracked(fds: *const pollfd, count: nfds_t) -> bool {
    // Without the engine a bad pointer is the kernel's to find.
    process::get().is_some() && (0..count as usize).any(|index| {
        fetch(fds.wrapping_add(index)).is_ok_and(|entry: pollfd| fdtable::is_tracked(entry.fd))
    })
}

impl Timeout {
    /// The end of the wait; `None`: none is wanted at all.
    fn deadline(self) -> Result<Option<Deadline>, Errno> {
        let ns = match self {
            Self::Millis(0) => return Ok(None),
            Self::Millis(millis) if millis < 0 => return Ok(Some(Deadline(None))),
            Self::Millis(millis) => u64::from(millis.unsigned_abs()) * 1_000_000,
            Self::Spec(spec) if spec.is_null() => return Ok(Some(Deadline(None))),
            Self::Spec(spec) => {
                let spec = fetch(spec)?;
                span(spec.tv_sec, spec.tv_nsec, 1_000_000_000)?
            }
            Self::Val(value) if value.is_null() => return Ok(Some(Deadline(None))),
            Self::Val(value) => {
                let value = fetch(value.cast_const())?;
                let carry = value.tv_usec / 1_000_000;
                span(value.tv_sec + carry, value.tv_usec % 1_000_000, 1_000_000)?
            }
        };
        if ns == 0 {
            return Ok(None);
        }
        Ok(Some(Deadline(Some(raw::monotonic_ns().saturating_add(ns)))))
    }
}

/// Nanoseconds of a time in seconds and parts.
fn span(seconds: i64, parts: i64, per_second: i64) -> Result<u64, Errno> {
    if seconds < 0 || !(0..per_second).contains(&parts) {
        return Err(Errno::INVAL);
    }
    let scale = 1_000_000_000 / per_second.unsigned_abs();
    Ok(seconds.unsigned_abs().saturating_mul(1_000_000_000).saturating_add(parts.unsigned_abs() * scale))
}

/// `poll` and `ppoll`.
pub fn poll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: Timeout,
    mask: *const sigset_t,
    real: impl FnOnce() -> isize,
) -> Ret {
    let Some(process) = process::get() else { return Ok(real()) };
    if count > fdtable::LIMIT as nfds_t {
        return Ok(real());
    }
    let _critical = Critical::enter();
    set::poll_user(process, fds, count as usize, timeout.deadline()?, mask)
}
/// `select` and `pselect`.
pub fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: Timeout,
    mask: *const sigset_t,
    real: impl FnOnce() -> isize,
) -> Ret {
    let Some(process) = process::get() else { return Ok(real()) };
    let Ok(count) = usize::try_from(count) else { return Ok(real()) };
    let sets = Sets { count: count.min(fdtable::LIMIT), read, write, except };
    if !sets.any_tracked() {
        return Ok(real());
    }
    let _critical = Critical::enter();
    let deadline = timeout.deadline()?;
    let result = set::select(process, sets, deadline, mask);
    if let (Timeout::Val(value), Some(deadline)) = (timeout, deadline) {
        if let Some(left) = deadline.left() {
            let left = timeval {
                tv_sec: (left / 1_000_000_000) as i64,
                tv_usec: (left % 1_000_000_000 / 1_000) as i64,
            };
            store(value, &left)?;
        }
    }
    result
}
/// `epoll_ctl`; called when either descriptor is tracked.
pub fn epoll_ctl(
    epfd: c_int,
    op: c_int,
    fd: c_int,
    event: *mut epoll_event,
    real: impl FnOnce() -> isize,
) -> Ret {
    match process::get() {
        Some(process) => {
            let _critical = Critical::enter();
            process.epolls.control(process, epfd, op, fd, event, real)
        }
        None => Ok(real()),
    }
}
/// `epoll_wait`, `epoll_pwait`, `epoll_pwait2` on a tracked instance.
pub fn epoll_wait(
    epfd: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: Timeout,
    mask: *const sigset_t,
    real: impl FnOnce() -> isize,
) -> Ret {
    let Some(process) = process::get() else { return Ok(real()) };
    let _critical = Critical::enter();
    match process.epolls.of(epfd) {
        Some(instance) => crate::poll::epoll_wait(
            process,
            instance,
            events,
            max,
            || timeout.deadline(),
            mask,
            || outside(real),
        ),
        None => Ok(outside(real)),
    }
}
