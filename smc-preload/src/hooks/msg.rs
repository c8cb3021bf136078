//! Messages, single and several.
use crate::dispatch::{born, errno, hook, ret, set_errno, tracked};
use crate::process::borrowed_memory;
use crate::symbols::real;
use libc::{c_int, c_uint, mmsghdr, msghdr, ssize_t, timespec};
use smc_core::engine;

/// The most messages that the kernel takes from one `sendmmsg`.
const MESSAGES_MAX: c_uint = 1024;

hook! {
    fn sendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t,
    if tracked(fd) || engine::carries_sockets(msg) => |real| {
        if tracked(fd) {
            return ret(engine::send_msg(fd, msg, flags, real));
        }
        engine::pass_on(msg);
        real()
    };

    fn sendmmsg(fd: c_int, msgs: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int,
    if tracked(fd) => |_real| {
        // SAFETY: the program's own pointers.
        unsafe { send_each(fd, msgs, count.min(MESSAGES_MAX), flags) }
    };
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn recvmsg(
    fd: c_int,
    msg: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    if tracked(fd) {
        // SAFETY: the program's own call.
        return unsafe { recv_one(fd, msg, flags) };
    }
    // SAFETY: as above.
    let got = unsafe { real::recvmsg(fd, msg, flags) };
    if got >= 0 {
        // SAFETY: the kernel has filled the message.
        unsafe { received(msg) };
    }
    got
}

/// One message from a socket of ours.
#[inline(never)]
unsafe fn recv_one(fd: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program's own message.
    let real = || unsafe { real::recvmsg(fd, msg, flags) };
    ret(engine::recv_msg(fd, msg, flags, real))
}

#[no_mangle]
pub(crate) unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    msgs: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    if tracked(fd) {
        // SAFETY: the program's own pointers.
        return unsafe { recv_each(fd, msgs, count, flags, timeout) };
    }
    // SAFETY: the program's own call.
    let got = unsafe { real::recvmmsg(fd, msgs, count, flags, timeout) };
    // SAFETY: the kernel has filled that many messages.
    unsafe { received_several(msgs, got) };
    got
}

/// Tells of descriptors that came with several messages.
///
/// # Safety
/// The kernel has filled `count` messages, or fewer than none.
pub(crate) unsafe fn received_several(msgs: *mut mmsghdr, count: c_int) {
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller's promise.
        unsafe { received(&raw mut (*msgs.add(index)).msg_hdr) };
    }
}

/// Tells of descriptors that came with a message.
///
/// # Safety
/// A message that the kernel has filled.
#[inline]
pub(crate) unsafe fn received(msg: *mut msghdr) {
    // SAFETY: the caller's promise.
    if unsafe { (*msg).msg_controllen } != 0 {
        // SAFETY: as above.
        unsafe { received_control(msg) };
    }
}

#[cold]
unsafe fn received_control(msg: *const msghdr) {
    // SAFETY: the macros of libc walk what the kernel wrote; descriptors are unaligned integers.
    unsafe {
        let mut part = libc::CMSG_FIRSTHDR(msg);
        while !part.is_null() {
            if ((*part).cmsg_level, (*part).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let bytes = ((*part).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                let fds = libc::CMSG_DATA(part).cast::<c_int>();
                for index in 0..bytes / size_of::<c_int>() {
                    arrived(fds.add(index).read_unaligned());
                }
            }
            part = libc::CMSG_NXTHDR(msg, part);
        }
    }
}

/// A descriptor from another process.
pub(crate) fn arrived(fd: c_int) {
    if borrowed_memory() {
        born(fd);
    } else {
        engine::fd_received(fd);
    }
}

/// `sendmmsg` on a socket of ours, as the kernel does it: an error after the first message, and a
/// message sent in part, end the loop.
unsafe fn send_each(fd: c_int, msgs: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    let before = errno();
    let mut done = 0;
    while done < count {
        // SAFETY: the program gives `count` messages.
        let entry = unsafe { &mut *msgs.add(done as usize) };
        let msg = &raw const entry.msg_hdr;
        // SAFETY: the program's own message.
        let real = || unsafe { real::sendmsg(fd, msg, flags) };
        let sent: ssize_t = ret(engine::send_msg(fd, msg, flags, real));
        if sent < 0 {
            break;
        }
        entry.msg_len = sent as c_uint;
        done += 1;
        // SAFETY: as above; the kernel or the engine has just read the vector.
        if (sent as usize) < unsafe { length(msg) } {
            break;
        }
    }
    finish(done, count, before)
}

/// Bytes that a message asks for.
unsafe fn length(msg: *const msghdr) -> usize {
    // SAFETY: the caller's promise.
    let (first, count) = unsafe { ((*msg).msg_iov, (*msg).msg_iovlen) };
    // SAFETY: as above.
    (0..count).map(|index| unsafe { (*first.add(index)).iov_len }).sum()
}

/// `recvmmsg` on a socket of ours, as the kernel does it: the time is looked at after each message.
unsafe fn recv_each(
    fd: c_int,
    msgs: *mut mmsghdr,
    count: c_uint,
    mut flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    let before = errno();
    // SAFETY: null, or the program's own.
    let clock = match unsafe { timeout.as_mut() } {
        None => None,
        Some(left) => match Deadline::new(left) {
            None => {
                set_errno(libc::EINVAL);
                return -1;
            }
            deadline => deadline,
        },
    };
    let mut done = 0;
    while done < count {
        // SAFETY: the program gives `count` messages.
        let entry = unsafe { &mut *msgs.add(done as usize) };
        let msg = &raw mut entry.msg_hdr;
        let once = flags & !libc::MSG_WAITFORONE;
        // SAFETY: the program's own message.
        let got = unsafe { recv_one(fd, msg, once) };
        if got < 0 {
            break;
        }
        entry.msg_len = got as c_uint;
        done += 1;
        if flags & libc::MSG_WAITFORONE != 0 {
            flags |= libc::MSG_DONTWAIT;
        }
        let over = clock.as_ref().is_some_and(|clock| {
            // SAFETY: there is a deadline, so the pointer was not null.
            unsafe { clock.store_left(timeout) }
        });
        if over || entry.msg_hdr.msg_flags & libc::MSG_OOB != 0 {
            break;
        }
    }
    finish(done, count, before)
}

/// The count, if there was any success; `errno` then stays as it was.
fn finish(done: c_uint, wanted: c_uint, before: c_int) -> c_int {
    if done == 0 && wanted > 0 {
        return -1;
    }
    set_errno(before);
    done as c_int
}

/// The moment at which `recvmmsg` stops.
struct Deadline(i128);

const SECOND: i128 = 1_000_000_000;

impl Deadline {
    /// `None` if the time left is malformed.
    fn new(left: &timespec) -> Option<Self> {
        let nanos = i128::from(left.tv_nsec);
        let valid = left.tv_sec >= 0 && (0..SECOND).contains(&nanos);
        valid.then(|| Self(now() + i128::from(left.tv_sec) * SECOND + nanos))
    }

    /// Stores the time left; whether there is none.
    unsafe fn store_left(&self, left: *mut timespec) -> bool {
        let nanos = (self.0 - now()).max(0);
        // SAFETY: the caller's promise.
        unsafe {
            (*left).tv_sec = (nanos / SECOND) as i64;
            (*left).tv_nsec = (nanos % SECOND) as i64;
        }
        nanos == 0
    }
}

/// The monotonic clock in nanoseconds.
fn now() -> i128 {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: stores the time; no cancellation point.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    i128::from(time.tv_sec) * SECOND + i128::from(time.tv_nsec)
}
