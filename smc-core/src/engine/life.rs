//! Birth and death of descriptors: which numbers are connections.
use super::processes::each_descriptor;
use super::{confined, streams, Kind, Ret};
use crate::arena::{flag, Setup};
use crate::conn::numbers;
use crate::conn::{holders, Ctx};
use crate::errno::Errno;
use crate::fdtable::{self, Entry};
use crate::process::{self, Process};
use crate::sync::Ordering;
use crate::sys::thread::Critical;
use crate::sys::{inherit, limits, raw, tcp};
use libc::c_int;

/// Descriptors below this number are looked at when the process starts and the kernel does not tell
/// which there are.
const INHERITED: c_int = 64;

/// Sockets that came over an exec: inetd, LISTEN_FDS, a server upgraded in place.
pub(super) fn adopt_inherited() {
    let Some(process) = process::get() else { return };
    let look = |fd| {
        if !fdtable::is_tracked(fd) && tcp::is_tcp(fd) {
            adopt(process, fd);
        }
    };
    if !inherit::each_open(look) {
        (0..INHERITED).for_each(look);
    }
}

/// Takes a descriptor in of a connection whose record the image before this one has left.
pub(super) fn go_on_with(process: &Process, fd: c_int, index: u32) {
    forget(process, fd);
    if fdtable::set(fd, Entry::socket(index)) {
        numbers::one_more(index);
    }
}

/// Takes a TCP socket in that somebody else made. Under another number it may be known already: under
/// inetd 0 to 2 are one.
fn adopt(process: &Process, fd: c_int) {
    if let Some(known) = known_socket(process, fd) {
        go_on_with(process, fd, known.index);
        // Where the kernel alone tells of its events, it is the kernel's.
        if !known.conn.has(flag::IN_EPOLL | flag::RX_TCP) {
            known.handshake(Setup::arrives);
        }
        streams::has_number(&Ctx { fd, ..known });
        return;
    }
    if tcp::is_listening(fd) {
        if let Some(ctx) = track(process, fd) {
            ctx.handshake(Setup::listens);
            ctx.ask_what_it_needs();
        }
    } else if tcp::is_connected(fd) {
        if let Some(ctx) = track(process, fd) {
            count_connection(process);
            ctx.conn.raise(flag::ADOPTED);
            ctx.handshake(Setup::is_accepted);
            ctx.ask_what_it_needs();
            streams::has_number(&ctx);
        }
    }
}

/// The record that this process has of the socket.
fn known_socket(process: &Process, fd: c_int) -> Option<Ctx<'_>> {
    let cookie = tcp::cookie(fd).ok()?;
    let mut known = None;
    each_descriptor(process, |ctx| {
        if ctx.fd != fd && ctx.conn.cookie.load(Ordering::Relaxed) == cookie {
            known = Some(ctx);
        }
    });
    known
}

/// Makes a record for a socket.
fn track(process: &Process, fd: c_int) -> Option<Ctx<'_>> {
    if fd < 0 || fd as usize >= fdtable::LIMIT || confined() {
        return None;
    }
    let _opening = process.births.opening();
    forget(process, fd);
    let (index, conn) = process.device.arena.allocate(process.device.pid())?;
    conn.fd.store(fd.unsigned_abs(), Ordering::Relaxed);
    conn.cookie.store(tcp::cookie(fd).unwrap_or(0), Ordering::Relaxed);
    numbers::is_new(index);
    holders::is_new(index);
    fdtable::set(fd, Entry::socket(index));
    Some(Ctx { process, index, conn, fd })
}

/// A number that we know is closed, or taken by something new: lets go of what it was.
fn forget(process: &Process, fd: c_int) {
    let _critical = Critical::enter();
    let entry = fdtable::take(fd);
    match entry.kind() {
        Kind::Socket => {
            let Some(index) = entry.as_socket() else { return };
            let Some(conn) = process.device.arena.conn(index) else { return };
            let ctx = Ctx { process, index, conn, fd };
            let left = ctx.loses_a_number();
            if conn.has(flag::IN_EPOLL) {
                process.epolls.socket_closed(&ctx, left.numbers == 0);
            }
            if left.is_nothing() && ctx.gives_up() {
                ctx.last_close();
            } else if conn.fd.load(Ordering::Relaxed) == fd.unsigned_abs() {
                let other = fdtable::all().find(|(_, other)| *other == entry);
                if let Some((other, _)) = other {
                    conn.fd.store(other.unsigned_abs(), Ordering::Relaxed);
                }
            }
        }
        Kind::Epoll => process.epolls.closed(process, entry, fd),
        // Ours, or nothing.
        Kind::Internal | Kind::Foreign => {}
    }
}

pub(super) fn count_connection(process: &Process) {
    process.page().connections.fetch_add(1, Ordering::Relaxed);
}

/// `socket` returned `fd`.
pub fn socket_opened(fd: c_int, domain: c_int, kind: c_int, protocol: c_int) {
    let Some(process) = process::get() else { return };
    let stream = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) == libc::SOCK_STREAM;
    let ip = domain == libc::AF_INET || domain == libc::AF_INET6;
    let tcp = protocol == 0 || protocol == libc::IPPROTO_TCP;
    if stream && ip && tcp {
        if let Some(ctx) = track(process, fd) {
            streams::has_number(&ctx);
        }
    } else {
        fd_born(fd);
    }
}
/// `accept` or `accept4` on `listener` returned `fd`.
pub fn accepted(listener: c_int, fd: c_int) {
    let Some(process) = process::get() else { return };
    let ours = Ctx::of(process, listener).is_some() || tcp::is_tcp(fd);
    if !ours {
        fd_born(fd);
        return;
    }
    if let Some(ctx) = track(process, fd) {
        count_connection(process);
        ctx.handshake(Setup::is_accepted);
        if let Some(listener) = Ctx::of(process, listener) {
            ctx.inherits(listener);
        }
        streams::has_number(&ctx);
    }
}
/// An epoll instance was made.
pub fn epoll_opened(fd: c_int) {
    let Some(process) = process::get().filter(|_| !confined()) else { return };
    fd_born(fd);
    process.epolls.opened(fd);
}
/// Some other call made this descriptor (open, pipe, eventfd, …): forgets what we knew of the number.
#[inline]
pub fn fd_born(fd: c_int) {
    if fdtable::is_tracked(fd) {
        stale(fd);
    }
}

#[cold]
fn stale(fd: c_int) {
    if let Some(process) = process::get() {
        forget(process, fd);
    }
}

/// A descriptor came from another process (SCM_RIGHTS, `pidfd_getfd`): it may be a socket, also a
/// connected one.
pub fn fd_received(fd: c_int) {
    fd_born(fd);
    let Some(process) = process::get().filter(|_| !confined()) else { return };
    if tcp::is_tcp(fd) {
        adopt(process, fd);
    }
}
/// `dup`, `fcntl(F_DUPFD)` and the like made `new` from `old`.
pub fn duplicated(old: c_int, new: c_int) {
    let Some(process) = process::get() else { return };
    if old == new {
        return;
    }
    fd_born(new);
    let entry = fdtable::entry(old);
    match entry.kind() {
        Kind::Socket => {
            if let Some(index) = entry.as_socket() {
                if fdtable::set(new, entry) {
                    numbers::one_more(index);
                }
                if let Some(ctx) = Ctx::of(process, new) {
                    streams::has_number(&ctx);
                }
            }
        }
        Kind::Epoll => process.epolls.duplicated(entry, new),
        Kind::Internal | Kind::Foreign => {}
    }
}
/// `dup2`/`dup3` of `old` onto `new`; the real call is made inside.
///
/// What the kernel refuses must leave the new number alone: it is asked first for all that it could
/// find wrong.
pub fn dup_onto(old: c_int, new: c_int, flags: c_int, real: impl FnOnce() -> isize) -> Ret {
    let Some(process) = process::get().filter(|_| !confined()) else { return Ok(real()) };
    let refused = flags & !libc::O_CLOEXEC != 0
        || usize::try_from(new).map_or(true, |new| new >= limits::descriptors());
    if old == new || refused {
        return Ok(real());
    }
    if [old, new].iter().any(|fd| fdtable::entry(*fd) == Entry::internal()) {
        return Err(Errno::BADF);
    }
    // The old number must be open, or nothing happens to the new one.
    raw::fcntl(old, libc::F_GETFD, 0)?;
    let _closing = process.births.closing();
    forget(process, new);
    if !streams::is_seen(new) {
        // Before a stream finds it there.
        streams::before_unseen(old);
    }
    let result = real();
    if result >= 0 {
        duplicated(old, new);
    }
    Ok(result)
}
/// `close`; an internal descriptor answers EBADF.
pub fn close(fd: c_int, real: impl FnOnce() -> isize) -> Ret {
    let Some(process) = process::get() else { return Ok(real()) };
    if fdtable::entry(fd) == Entry::internal() {
        return Err(Errno::BADF);
    }
    let _closing = process.births.closing();
    forget(process, fd);
    Ok(real())
}
/// The flags that `close_range` knows.
const RANGE_FLAGS: u32 = libc::CLOSE_RANGE_CLOEXEC | libc::CLOSE_RANGE_UNSHARE;

/// `close_range` and `closefrom`: everything in the range but our own descriptors. `real` closes
/// (or marks close-on-exec) one range. `borrowed`: in a child in its parent's memory.
pub fn close_range(
    first: u32,
    last: u32,
    flags: c_int,
    borrowed: bool,
    real: impl Fn(u32, u32) -> isize,
) -> Ret {
    let Some(process) = process::get() else { return Ok(real(first, last)) };
    if first > last || flags.cast_unsigned() & !RANGE_FLAGS != 0 {
        // Refused.
        return Ok(real(first, last));
    }
    let ends = flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0 && !borrowed;
    let _closing = ends.then(|| process.births.closing());
    let mut from = first;
    for (fd, entry) in fdtable::all() {
        let number = fd.unsigned_abs();
        if number < first || number > last {
            continue;
        }
        if entry == Entry::internal() {
            if number > from {
                let result = real(from, number - 1);
                if result != 0 {
                    return Ok(result);
                }
            }
            from = number + 1;
        } else if ends {
            forget(process, fd);
        }
    }
    if from > last && from > first {
        return Ok(0);
    }
    Ok(real(from, last))
}
