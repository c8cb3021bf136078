//! poll and epoll for case programs, with events by name.

use super::net::{check_fd, Errno, Fd};
use crate::libc_call as call;

/// The names of a set of poll or epoll events (their values are the same).
pub fn names(events: u32) -> String {
    const NAMES: [(u32, &str); 10] = [
        (0x001, "IN"),
        (0x002, "PRI"),
        (0x004, "OUT"),
        (0x008, "ERR"),
        (0x010, "HUP"),
        (0x020, "NVAL"),
        (0x040, "RDNORM"),
        (0x080, "RDBAND"),
        (0x100, "WRNORM"),
        (0x2000, "RDHUP"),
    ];
    let set: Vec<&str> = NAMES.iter().filter(|(bit, _)| events & bit != 0).map(|n| n.1).collect();
    if set.is_empty() {
        "none".to_owned()
    } else {
        set.join("|")
    }
}

/// poll(2).
pub fn poll(fds: &mut [libc::pollfd], millis: i32) -> Result<usize, Errno> {
    call!(libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, millis))
}

/// poll(2) of one descriptor: its events, 0 at a timeout.
pub fn poll_one(fd: Fd, events: i16, millis: i32) -> Result<u32, Errno> {
    let mut set = [libc::pollfd { fd, events, revents: 0 }];
    poll(&mut set, millis)?;
    Ok(u32::from(set[0].revents.cast_unsigned()))
}

/// epoll_create1(2).
pub fn epoll() -> Fd {
    // SAFETY: no pointers.
    check_fd(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).unwrap()
}

/// epoll_ctl(2); `data` comes back with each event.
pub fn control(epoll: Fd, op: i32, fd: Fd, events: u32, data: u64) -> Result<usize, Errno> {
    let mut event = libc::epoll_event { events, u64: data };
    call!(libc::epoll_ctl(epoll, op, fd, &mut event))
}

/// epoll_ctl(2) ADD.
pub fn add(epoll: Fd, fd: Fd, events: i32, data: u64) -> Result<usize, Errno> {
    control(epoll, libc::EPOLL_CTL_ADD, fd, events.cast_unsigned(), data)
}

/// epoll_ctl(2) MOD.
pub fn modify(epoll: Fd, fd: Fd, events: i32, data: u64) -> Result<usize, Errno> {
    control(epoll, libc::EPOLL_CTL_MOD, fd, events.cast_unsigned(), data)
}

/// epoll_ctl(2) DEL.
pub fn remove(epoll: Fd, fd: Fd) -> Result<usize, Errno> {
    control(epoll, libc::EPOLL_CTL_DEL, fd, 0, 0)
}

/// epoll_wait(2) for up to `max` events, as pairs of data and events in order of data.
pub fn wait(epoll: Fd, max: usize, millis: i32) -> Result<Vec<(u64, u32)>, Errno> {
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; max];
    let room = i32::try_from(max).unwrap();
    let n = call!(libc::epoll_wait(epoll, events.as_mut_ptr(), room, millis))?;
    let mut out: Vec<(u64, u32)> = events[..n].iter().map(|e| (e.u64, e.events)).collect();
    out.sort_unstable();
    Ok(out)
}

/// What `wait` gave, in transcript form: `data:EVENTS` each.
pub fn show(got: &Result<Vec<(u64, u32)>, Errno>) -> String {
    match got {
        Ok(events) if events.is_empty() => "timeout".to_owned(),
        Ok(events) => {
            let each = events.iter().map(|(data, set)| format!("{data}:{}", names(*set)));
            each.collect::<Vec<_>>().join(" ")
        }
        Err(e) => e.to_string(),
    }
}
