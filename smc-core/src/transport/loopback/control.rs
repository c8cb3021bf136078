//! First contact: how two processes come to share a link group.
//!
//! A server's process listens on an abstract SEQPACKET socket whose random name, its GID, only the
//! clients that it sent an ACCEPT know. A client connects and sends a memfd; that is all, nobody
//! waits for an answer. Later connections of the same pair take a slot in the region and set a bit.
use super::geometry::Geometry;
use super::region::Region;
use super::group::{Group, Peer};
use crate::errno::Errno;
use super::device::Device;
use crate::fdtable;
use crate::reason::Reason;
use crate::shm::layout::VERSION;
use crate::sync::{AtomicI32, AtomicU64, Ordering};
use crate::sys::lock::Lock;
use crate::sys::{mem, raw, scm};
use crate::wire::control::{Control as Message, CONTROL_MAX};
use libc::c_int;

/// Connections that were accepted and have not said anything yet.
const PENDING: usize = 32;

/// The control socket of this process.
#[derive(Debug)]
pub(crate) struct Control {
    listener: AtomicI32,
    /// The GID, once there is a listener: read without the lock, since whoever asks may hold a lock
    /// that a holder of this one waits for.
    name: [AtomicU64; 2],
    /// Held while the control socket is opened; nothing else is locked under it.
    opening: Lock<()>,
    inner: Lock<Inner>,
}

#[derive(Debug)]
struct Inner {
    pending: [c_int; PENDING],
}

impl Control {
    pub(crate) fn new() -> Self {
        let inner = Inner { pending: [-1; PENDING] };
        Self {
            listener: AtomicI32::new(-1),
            name: [const { AtomicU64::new(0) }; 2],
            opening: Lock::new(()),
            inner: Lock::new(inner),
        }
    }

    /// The listening socket, or -1.
    pub(crate) fn listener(&self) -> c_int {
        self.listener.load(Ordering::Acquire)
    }

    /// Name of this process; the first call opens the control socket.
    pub(crate) fn gid(&self) -> Result<[u8; 16], Errno> {
        // Acquire, inside: pairs with the Release below; the name is there.
        if self.listener() >= 0 {
            return Ok(self.known_gid());
        }
        let _one = self.opening.lock();
        if self.listener() >= 0 {
            return Ok(self.known_gid());
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
            fdtable::drop_internal(fd);
            return Err(errno);
        }
        for (word, half) in self.name.iter().zip(gid.chunks_exact(8)) {
            word.store(u64::from_ne_bytes(half.try_into().unwrap_or([0; 8])), Ordering::Relaxed);
        }
        // Release: pairs with the Acquire in `listener`.
        self.listener.store(fd, Ordering::Release);
        Ok(gid)
    }

    fn known_gid(&self) -> [u8; 16] {
        let mut gid = [0; 16];
        for (half, word) in gid.chunks_exact_mut(8).zip(&self.name) {
            half.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        gid
    }

    /// Server: takes what clients have sent, then makes their link groups. `known` tells the user
    /// of the client's socket for a token of ours.
    pub(crate) fn drain(&self, device: &Device, known: impl Fn(&[u8; 16]) -> Option<u32>) {
        let listener = self.listener();
        if listener < 0 {
            return;
        }
        let Some(mut inner) = self.inner.try_lock() else { return };
        while let Some(free) = inner.pending.iter_mut().find(|fd| **fd < 0) {
            match raw::accept(listener) {
                Ok(fd) => *free = fdtable::raise(fd),
                Err(_) => break,
            }
        }
        for slot in inner.pending.iter_mut().filter(|fd| **fd >= 0) {
            match first_message(device, *slot, &known) {
                Err(Errno::AGAIN) => {}
                Ok(()) => *slot = -1,
                Err(_) => {
                    fdtable::drop_internal(*slot);
                    *slot = -1;
                }
            }
        }
    }

    /// In the child of a fork: the socket is the parent's.
    pub(crate) fn after_fork(&self) {
        fdtable::drop_internal(self.listener.swap(-1, Ordering::AcqRel));
        if let Some(mut inner) = self.inner.try_lock() {
            for fd in &mut inner.pending {
                fdtable::drop_internal(core::mem::replace(fd, -1));
            }
        }
    }

    /// Held over a fork.
    pub(crate) fn lock_for_fork(&self) {
        self.inner.hold();
        self.opening.hold();
    }

    /// Ends [`Self::lock_for_fork`].
    pub(crate) fn unlock_after_fork(&self) {
        // SAFETY: requires that this thread holds the lock: `lock_for_fork` took it.
        unsafe { self.inner.let_go() };
        // SAFETY: as above.
        unsafe { self.opening.let_go() };
    }
}

fn seqpacket() -> Result<c_int, Errno> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    raw::socket(libc::AF_UNIX, kind, 0).map(fdtable::raise)
}

/// Server: one first message. `Ok`: the socket belongs to a group now.
fn first_message(
    device: &Device,
    socket: c_int,
    known: &impl Fn(&[u8; 16]) -> Option<u32>,
) -> Result<(), Errno> {
    let mut bytes = [0; CONTROL_MAX];
    let (len, fd) = scm::recv(socket, &mut bytes)?;
    let Some(memfd) = fd else { return Err(Errno::PROTO) };
    let memfd = fdtable::raise(memfd);
    let outcome = adopt(device, socket, memfd, bytes.get(..len).unwrap_or(&[]), known);
    if outcome.is_err() {
        fdtable::drop_internal(memfd);
    }
    outcome
}

fn adopt(
    device: &Device,
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
    let region = Region::of(memfd, geometry)?;
    if !region.is_published() {
        return Err(Errno::PROTO);
    }
    let mut changing = device.groups.changing.lock();
    device.groups.retire(&mut changing);
    let index = device.groups.vacancy().ok_or(Errno::NOMEM)?;
    device.queues.forget_group(index);
    let group = Group::new(
        index,
        Peer { client: false, gid: client_gid, uid, control: socket },
        region,
        memfd,
    );
    device.groups.add(group);
    Ok(())
}

/// Client: a link group with the process of this GID that has a free slot, and the slot; makes
/// first contact where there is none.
pub(crate) fn group_for<'p>(
    device: &'p Device,
    gid: &[u8; 16],
    token: &[u8; 16],
    geometry: Geometry,
    conn: u32,
) -> Result<(&'p Group, usize), Reason> {
    let mut changing = device.groups.changing.lock();
    let [_, [user, _]] = raw::user_ids();
    let fits = |group: &&Group| {
        group.is_client()
            && group.gid() == gid
            && group.geometry() == geometry
            && group.maker == device.pid()
            && group.user == user
    };
    for group in device.groups.iter().filter(fits) {
        // The server may have refused first contact, as when the connection that made it had ended
        // by then: nobody answers there.
        group.drain(device);
        if group.is_dead() {
            continue;
        }
        if let Some(slot) = group.take_conn(conn) {
            return Ok((group, slot));
        }
    }
    device.groups.retire(&mut changing);
    let index = device.groups.vacancy().ok_or(Reason::TOO_MANY)?;
    let group = first_contact(device, index, gid, token, geometry)?;
    device.queues.forget_group(index);
    let group = device.groups.add(group).ok_or(Reason::TOO_MANY)?;
    match group.take_conn(conn) {
        Some(slot) => Ok((group, slot)),
        None => Err(Reason::MEM),
    }
}

fn first_contact(
    device: &Device,
    index: usize,
    gid: &[u8; 16],
    token: &[u8; 16],
    geometry: Geometry,
) -> Result<Group, Reason> {
    let memory = |_| Reason::MEM;
    let len = geometry.region_len();
    let memfd = mem::sealed_memfd(c"smc-lgr", len).map(fdtable::raise).map_err(memory)?;
    let made = Region::of(memfd, geometry).map_err(memory).and_then(|region| {
        region.publish();
        let socket = introduce(device, memfd, gid, token, geometry)?;
        Ok((region, socket))
    });
    match made {
        Ok((region, socket)) => {
            let uid = scm::peer_uid(socket).map_or(u32::MAX, |(uid, _)| uid);
            let peer = Peer { client: true, gid: *gid, uid, control: socket };
            Ok(Group::new(index, peer, region, memfd))
        }
        Err(reason) => {
            fdtable::drop_internal(memfd);
            Err(reason)
        }
    }
}

fn introduce(
    device: &Device,
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
        pid: device.pid(),
    };
    let mut bytes = [0; CONTROL_MAX];
    let sent = raw::connect(socket, &address[..len]).and_then(|_| {
        let len = message.emit(&mut bytes).map_err(|_| Errno::PROTO)?;
        scm::send(socket, &bytes[..len], Some(memfd))
    });
    match sent {
        Ok(()) => Ok(socket),
        Err(_) => {
            fdtable::drop_internal(socket);
            Err(Reason::NO_CONTROL)
        }
    }
}
