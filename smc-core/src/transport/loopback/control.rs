//! First contact: how two processes come to share a link group.
//!
//! A server's process listens on an abstract SEQPACKET socket whose random name, its GID, only the
//! clients that it sent an ACCEPT know. A client connects and sends a memfd; that is all, nobody
//! waits for an answer. Later connections of the same pair take a slot in the region and set a bit.
use super::group::{Geometry, Group};
use crate::errno::Errno;
use crate::process::{self, Process};
use crate::reason::Reason;
use crate::shm::layout::VERSION;
use crate::sync::{AtomicI32, Ordering};
use crate::sys::{mem, raw, scm};
use crate::wire::control::{Control as Message, CONTROL_MAX};
use libc::c_int;
use parking_lot::Mutex;

/// Connections that were accepted and have not said anything yet.
const PENDING: usize = 32;

/// The control socket of this process.
#[derive(Debug)]
pub(crate) struct Control {
    listener: AtomicI32,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    gid: [u8; 16],
    pending: [c_int; PENDING],
}

impl Control {
    pub(crate) fn new() -> Self {
        let inner = Inner { gid: [0; 16], pending: [-1; PENDING] };
        Self { listener: AtomicI32::new(-1), inner: Mutex::new(inner) }
    }

    /// The listening socket, or -1.
    pub(crate) fn listener(&self) -> c_int {
        self.listener.load(Ordering::Acquire)
    }

    /// Name of this process; the first call opens the control socket.
    pub(crate) fn gid(&self) -> Result<[u8; 16], Errno> {
        let mut inner = self.inner.lock();
        if self.listener() >= 0 {
            return Ok(inner.gid);
        }
        let mut gid = [0; 16];
        if !raw::random(&mut gid) {
            return Err(Errno::AGAIN);
        }
        let fd = seqpacket()?;
        let mut address = [0; 64];
        let len = scm::abstract_address(&gid, &mut address);
        let opened = raw::bind(fd, &address[..len]).and_then(|_| raw::listen(fd, 4096));
        if let Err(errno) = opened {
            process::drop_fd(fd);
            return Err(errno);
        }
        inner.gid = gid;
        self.listener.store(fd, Ordering::Release);
        Ok(gid)
    }

    /// Server: takes what clients have sent, then makes their link groups. `known` tells the user
    /// of the client's socket for a token of ours.
    pub(crate) fn drain(&self, process: &Process, known: impl Fn(&[u8; 16]) -> Option<u32>) {
        let listener = self.listener();
        if listener < 0 {
            return;
        }
        let Some(mut inner) = self.inner.try_lock() else { return };
        while let Some(free) = inner.pending.iter_mut().find(|fd| **fd < 0) {
            match raw::accept(listener) {
                Ok(fd) => *free = process::raise(fd),
                Err(_) => break,
            }
        }
        for slot in inner.pending.iter_mut().filter(|fd| **fd >= 0) {
            match first_message(process, *slot, &known) {
                Err(Errno::AGAIN) => {}
                Ok(()) => *slot = -1,
                Err(_) => {
                    process::drop_fd(*slot);
                    *slot = -1;
                }
            }
        }
    }

    /// In the child of a fork: the socket is the parent's.
    pub(crate) fn after_fork(&self) {
        process::drop_fd(self.listener.swap(-1, Ordering::AcqRel));
        if let Some(mut inner) = self.inner.try_lock() {
            for fd in &mut inner.pending {
                process::drop_fd(core::mem::replace(fd, -1));
            }
        }
    }

    /// Held over a fork.
    pub(crate) fn lock_for_fork(&self) {
        core::mem::forget(self.inner.lock());
    }

    /// Ends [`Self::lock_for_fork`].
    pub(crate) fn unlock_after_fork(&self) {
        // SAFETY: requires that this thread holds the lock: `lock_for_fork` took it.
        unsafe { self.inner.force_unlock() };
    }
}

fn seqpacket() -> Result<c_int, Errno> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    raw::socket(libc::AF_UNIX, kind, 0).map(process::raise)
}

/// Server: one first message. `Ok`: the socket belongs to a group now.
fn first_message(
    process: &Process,
    socket: c_int,
    known: &impl Fn(&[u8; 16]) -> Option<u32>,
) -> Result<(), Errno> {
    let mut bytes = [0; CONTROL_MAX];
    let (len, fd) = scm::recv(socket, &mut bytes)?;
    let Some(memfd) = fd else { return Err(Errno::PROTO) };
    let outcome = adopt(process, socket, memfd, bytes.get(..len).unwrap_or(&[]), known);
    raw::close(memfd);
    outcome
}

fn adopt(
    process: &Process,
    socket: c_int,
    memfd: c_int,
    bytes: &[u8],
    known: &impl Fn(&[u8; 16]) -> Option<u32>,
) -> Result<(), Errno> {
    let Ok(Message::FirstContact { layout_version, client_gid, token, c2s_code, s2c_code, .. }) =
        Message::parse(bytes)
    else {
        return Err(Errno::PROTO);
    };
    let (uid, _) = scm::peer_uid(socket).ok_or(Errno::PROTO)?;
    // The token came over the TCP connection and the user is the socket's: it is the true peer.
    if layout_version != VERSION || known(&token) != Some(uid) || c2s_code.max(s2c_code) > 6 {
        return Err(Errno::PROTO);
    }
    let geometry = Geometry { c2s: c2s_code, s2c: s2c_code };
    if !mem::is_sealed(memfd, geometry.region_len()) {
        return Err(Errno::PROTO);
    }
    let map = mem::Mapping::of(memfd, geometry.region_len())?;
    if !Group::is_published(&map, geometry) {
        return Err(Errno::PROTO);
    }
    let mut changing = process.groups.changing.lock();
    process.groups.retire(&mut changing);
    let index = process.groups.vacancy().ok_or(Errno::NOMEM)?;
    process.queues.forget_group(index);
    let group = Group::new(index, false, client_gid, uid, geometry, map, -1, socket);
    process.groups.add(group);
    Ok(())
}

/// Client: a link group with the process of this GID that has a free slot, and the slot; makes
/// first contact where there is none.
pub(crate) fn group_for<'p>(
    process: &'p Process,
    gid: &[u8; 16],
    token: &[u8; 16],
    geometry: Geometry,
    conn: u32,
) -> Result<(&'p Group, usize), Reason> {
    let mut changing = process.groups.changing.lock();
    let fits = |group: &&Group| {
        group.is_client()
            && group.gid() == gid
            && group.geometry() == geometry
            && group.maker == process.pid()
            && !group.is_dead()
    };
    for group in process.groups.iter().filter(fits) {
        if let Some(slot) = group.take_conn(conn) {
            return Ok((group, slot));
        }
    }
    process.groups.retire(&mut changing);
    let index = process.groups.vacancy().ok_or(Reason::TOO_MANY)?;
    let group = first_contact(process, index, gid, token, geometry)?;
    process.queues.forget_group(index);
    let group = process.groups.add(group).ok_or(Reason::TOO_MANY)?;
    match group.take_conn(conn) {
        Some(slot) => Ok((group, slot)),
        None => Err(Reason::MEM),
    }
}

fn first_contact(
    process: &Process,
    index: usize,
    gid: &[u8; 16],
    token: &[u8; 16],
    geometry: Geometry,
) -> Result<Group, Reason> {
    let memory = |_| Reason::MEM;
    let len = geometry.region_len();
    let memfd = mem::sealed_memfd(c"smc-lgr", len).map(process::raise).map_err(memory)?;
    let made = mem::Mapping::of(memfd, len).map_err(memory).and_then(|map| {
        Group::publish(&map, geometry);
        let socket = introduce(process, memfd, gid, token, geometry)?;
        Ok((map, socket))
    });
    match made {
        Ok((map, socket)) => {
            let uid = scm::peer_uid(socket).map_or(u32::MAX, |(uid, _)| uid);
            // Strict overcommit: keep the memfd, memory is allocated slot by slot.
            let keep = if mem::strict_overcommit() { memfd } else { -1 };
            if keep < 0 {
                process::drop_fd(memfd);
            }
            Ok(Group::new(index, true, *gid, uid, geometry, map, keep, socket))
        }
        Err(reason) => {
            process::drop_fd(memfd);
            Err(reason)
        }
    }
}

fn introduce(
    process: &Process,
    memfd: c_int,
    gid: &[u8; 16],
    token: &[u8; 16],
    geometry: Geometry,
) -> Result<c_int, Reason> {
    let mut own = [0; 16];
    raw::random(&mut own);
    let socket = seqpacket().map_err(|_| Reason::FD_LIMIT)?;
    let mut address = [0; 64];
    let len = scm::abstract_address(gid, &mut address);
    let message = Message::FirstContact {
        layout_version: VERSION,
        client_gid: own,
        token: *token,
        c2s_code: geometry.c2s,
        s2c_code: geometry.s2c,
        pid: process.pid(),
    };
    let mut bytes = [0; CONTROL_MAX];
    let sent = raw::connect(socket, &address[..len]).and_then(|_| {
        let len = message.emit(&mut bytes).map_err(|_| Errno::PROTO)?;
        scm::send(socket, &bytes[..len], Some(memfd))
    });
    match sent {
        Ok(()) => Ok(socket),
        Err(_) => {
            process::drop_fd(socket);
            Err(Reason::NO_CONTROL)
        }
    }
}
