//! The handshake, as the calls of a program drive it.
//!
//! Server: the first bytes out carry an ACCEPT in front if the client's socket bears the mark.
//! Client: the first bytes in are looked at and an ACCEPT is taken out; when the connection has
//! shown that it pays, the client asks for a slot (CONFIRM), and the server attaches it at its next
//! call. Until then every call is the kernel's own.
use super::Ctx;
use crate::arena::{flag, phase, Conn};
use crate::config::Mode;
use crate::errno::Errno;
use crate::fdtable;
use crate::process::Process;
use crate::reason::Reason;
use crate::shm::layout::{state, VERSION};
use crate::sync::Ordering;
use crate::sys::diag::{self, Endpoint};
use crate::sys::iov::Bufs;
use crate::sys::thread::outside;
use crate::sys::{raw, tcp};
use crate::transport::loopback::{group_for, Geometry};
use crate::wire::clc::loopback::{prefix_for, LoopbackAccept, Prefix, ACCEPT_LEN};
use libc::{c_int, iovec, msghdr};

/// Requests after the first reply that make a connection worth a ring.
const TURNS: u32 = 2;
/// Bytes that do.
const BYTES: u64 = 16 << 10;
/// Calls after which a request without an answer is taken back.
const PATIENCE: u32 = 4096;
/// Bytes that a server reads before it sends an ACCEPT that no reply carries.
const ALONE: u64 = 64 << 10;
/// Buffers of the program that go out in one call with an ACCEPT in front.
const PREFIXED: usize = 15;

/// Values of the four options, in the order of the `VIEW` bits: level IPPROTO_IP; name, value of
/// the mark, the kernel's default.
pub(crate) const MARK: [(c_int, c_int, c_int); 4] = [
    (libc::IP_MULTICAST_LOOP, 0, 1),
    (IP_MULTICAST_ALL, 0, 1),
    (libc::IP_BIND_ADDRESS_NO_PORT, 1, 0),
    (IP_RECVERR_RFC4884, 1, 0),
];
const IP_MULTICAST_ALL: c_int = 49;
const IP_RECVERR_RFC4884: c_int = 26;

impl Ctx<'_> {
    /// Client, before the real `connect`: sets the mark.
    pub(crate) fn mark(&self) {
        let mode = self.process.config.mode;
        if matches!(mode, Mode::Off | Mode::Rdma) || self.conn.has(flag::MARKED) {
            return;
        }
        let mut view = 0;
        for (bit, (name, value, default)) in MARK.into_iter().enumerate() {
            let mut now = default;
            let _ = raw::getsockopt(self.fd, libc::IPPROTO_IP, name, &mut now);
            view |= u32::from(now != default) << bit;
            if raw::setsockopt(self.fd, libc::IPPROTO_IP, name, &value).is_err() {
                self.unmark(view);
                return;
            }
        }
        self.conn.raise(flag::MARKED | view << flag::VIEW_SHIFT);
    }

    /// Gives the program's own values back to the socket.
    fn unmark(&self, view: u32) {
        for (bit, (name, _, default)) in MARK.into_iter().enumerate() {
            let own = default ^ c_int::from(view >> bit & 1 != 0);
            let _ = raw::setsockopt(self.fd, libc::IPPROTO_IP, name, &own);
        }
        self.conn.lower(flag::MARKED);
    }

    /// Client, before a receiving call: takes an ACCEPT at offset 0 out. `Err` answers the call.
    ///
    /// `peek` waits as the program's call would and peeks at the first bytes; it returns what
    /// `recv` does.
    pub(crate) fn first_bytes(
        &self,
        dontwait: bool,
        mut peek: impl FnMut(&mut [u8; ACCEPT_LEN], c_int) -> isize,
    ) -> Result<(), Result<isize, Errno>> {
        let mut bytes = [0; ACCEPT_LEN];
        let mut flags = if dontwait { libc::MSG_DONTWAIT } else { 0 };
        let mut last = 0;
        loop {
            let got = peek(&mut bytes, flags | libc::MSG_PEEK);
            let Ok(len) = usize::try_from(got) else { return Err(Ok(got)) };
            let seen = bytes.get(..len).unwrap_or(&[]);
            match self.judge(seen) {
                // The end of the stream, or a part that will not grow.
                Prefix::Partial if len == 0 || self.is_ended() && len == last => {
                    self.fall_back(Reason::PEERNOSMC);
                    return Ok(());
                }
                Prefix::No => {
                    self.fall_back(Reason::PEERNOSMC);
                    return Ok(());
                }
                Prefix::Partial if dontwait || raw::is_nonblocking(self.fd) => {
                    if self.is_ended() {
                        last = len;
                        continue;
                    }
                    return Err(Err(Errno::AGAIN));
                }
                Prefix::Partial => {
                    last = len;
                    flags |= libc::MSG_WAITALL;
                }
                Prefix::Whole => {
                    self.remove_accept(&bytes);
                    return Ok(());
                }
            }
        }
    }

    /// Client, where nothing may wait: takes an ACCEPT out that is there already. False: the
    /// connection may still get one.
    pub(crate) fn look_for_accept(&self) -> bool {
        let mut bytes = [0; ACCEPT_LEN];
        let Ok(len) = raw::recv(self.fd, &mut bytes, libc::MSG_PEEK) else { return false };
        match self.judge(bytes.get(..len).unwrap_or(&[])) {
            Prefix::Whole => self.remove_accept(&bytes),
            Prefix::No => self.fall_back(Reason::PEERNOSMC),
            Prefix::Partial if len == 0 => self.fall_back(Reason::PEERNOSMC),
            Prefix::Partial if self.is_ended() => self.fall_back(Reason::PEERNOSMC),
            Prefix::Partial => return false,
        }
        true
    }

    /// Whether the first bytes are an ACCEPT for this very socket, at the stream's very start.
    fn judge(&self, seen: &[u8]) -> Prefix {
        match crate::wire::clc::loopback::prefix(seen) {
            Prefix::No => Prefix::No,
            _ if tcp::read_so_far(self.fd) != Ok(0) => Prefix::No,
            _ => match tcp::cookie(self.fd) {
                Ok(cookie) => prefix_for(seen, cookie),
                Err(_) => Prefix::No,
            },
        }
    }

    fn is_ended(&self) -> bool {
        let gone = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR;
        raw::poll_now(self.fd, libc::POLLRDHUP) & gone != 0
    }

    fn remove_accept(&self, bytes: &[u8; ACCEPT_LEN]) {
        let mut setup = self.conn.lock_setup();
        if self.conn.phase() != phase::VIRGIN {
            return;
        }
        let mut taken = [0; ACCEPT_LEN];
        if raw::recv(self.fd, &mut taken, 0) != Ok(ACCEPT_LEN) {
            drop(setup);
            self.fall_back(Reason::BEHIND_BACK);
            return;
        }
        match LoopbackAccept::parse(bytes) {
            Ok(accept) if accept.layout_version == VERSION => {
                setup.gid = accept.gid;
                setup.token = accept.token;
                setup.codes = [accept.rx_code, accept.tx_code];
                self.conn.reason.store(Reason::NOT_PAID.0, Ordering::Relaxed);
                self.conn.set_phase(phase::ACCEPTED);
            }
            Ok(_) => {
                drop(setup);
                self.fall_back(Reason::PEER_VERSION);
            }
            Err(_) => {
                drop(setup);
                self.fall_back(Reason::PROTOCOL);
            }
        }
    }

    /// Server, before the first bytes go out. `Some(message)`: put it in front of them.
    pub(crate) fn accept_message(&self) -> Option<[u8; ACCEPT_LEN]> {
        match self.offer() {
            Ok(accept) => Some(accept.emit()),
            Err(reason) => {
                self.fall_back(reason);
                None
            }
        }
    }

    fn offer(&self) -> Result<LoopbackAccept, Reason> {
        let process = self.process;
        if matches!(process.config.mode, Mode::Off | Mode::Rdma) {
            return Err(Reason::MODE_OFF);
        }
        let found = self.peer_socket()?.ok_or(Reason::REMOTE)?;
        if !found.marked {
            return Err(Reason::PEERNOSMC);
        }
        if tcp::written(self.fd, false) != Ok(0) {
            return Err(Reason::OFFSET);
        }
        let gid = process.device.control.gid().map_err(|_| Reason::FD_LIMIT)?;
        let mut token = [0; 16];
        if !raw::random(&mut token[..12]) {
            return Err(Reason::INTERR);
        }
        token[12..].copy_from_slice(&self.index.to_ne_bytes());
        let mut setup = self.conn.lock_setup();
        setup.token = token;
        setup.peer_uid = found.uid;
        Ok(LoopbackAccept {
            gid,
            token,
            server_cookie: tcp::cookie(self.fd).map_err(|_| Reason::INTERR)?,
            client_cookie: found.cookie,
            rx_code: process.config.rcvbuf_code,
            tx_code: process.config.sndbuf_code,
            layout_version: VERSION,
            uid: raw::getuid(),
        })
    }

    /// The client's socket, if it is on this host and in this network namespace.
    fn peer_socket(&self) -> Result<Option<diag::Found>, Reason> {
        let mut own = [0; 128];
        let mut peer = [0; 128];
        let ends = raw::getsockname(self.fd, &mut own)
            .and_then(|own_len| Ok((own_len, raw::getpeername(self.fd, &mut peer)?)));
        let Ok((own_len, peer_len)) = ends else { return Err(Reason::PEER_GONE) };
        let own = own.get(..own_len).and_then(Endpoint::from_sockaddr);
        let peer = peer.get(..peer_len).and_then(Endpoint::from_sockaddr);
        let (Some(own), Some(peer)) = (own, peer) else { return Err(Reason::INTERR) };
        let mut netlink = self.process.netlink.lock();
        if *netlink < 0 {
            *netlink = fdtable::raise(diag::open().map_err(|_| Reason::NO_DIAG)?);
        }
        match diag::query(*netlink, peer, own) {
            Ok(found) => Ok(found),
            Err(_) => {
                // Whatever is still in the queue must not answer the next question.
                fdtable::drop_internal(core::mem::replace(&mut *netlink, -1));
                Err(Reason::NO_DIAG)
            }
        }
    }

    /// Server: sends the ACCEPT and the program's bytes in one call. `None`: only the ACCEPT went
    /// out, and the program's call is still to be made.
    pub(crate) fn send_with_accept(
        &self,
        accept: &[u8; ACCEPT_LEN],
        bufs: &Bufs,
        flags: c_int,
    ) -> Option<isize> {
        let mut parts = [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PREFIXED + 1];
        parts[0] = iovec { iov_base: accept.as_ptr().cast_mut().cast(), iov_len: ACCEPT_LEN };
        let count = bufs.count();
        let mut filled = 1;
        if count <= PREFIXED {
            for at in 0..count {
                let Ok((base, len)) = bufs.get(at) else { break };
                parts[filled] = iovec { iov_base: base.cast(), iov_len: len };
                filled += 1;
            }
        }
        // More buffers than that: the ACCEPT goes first, the program's call follows.
        let alone = filled <= count;
        // SAFETY: requires an all-zero bit pattern to be a valid `msghdr`.
        let mut header: msghdr = unsafe { core::mem::zeroed() };
        header.msg_iov = parts.as_mut_ptr();
        header.msg_iovlen = if alone { 1 } else { filled } as _;
        let flags = if alone { flags | libc::MSG_MORE } else { flags };
        // SAFETY: requires a valid message; buffers of the program may be bad: EFAULT.
        let sent =
            outside(|| unsafe { (self.process.real.sendmsg)(self.fd, &raw const header, flags) });
        let Ok(sent) = usize::try_from(sent) else { return Some(sent) };
        self.finish_accept(accept, sent);
        self.offered();
        if sent > ACCEPT_LEN {
            Some(isize::try_from(sent - ACCEPT_LEN).unwrap_or(isize::MAX))
        } else {
            None
        }
    }

    fn offered(&self) {
        self.conn.reason.store(Reason::NOT_PAID.0, Ordering::Relaxed);
        self.conn.set_phase(phase::OFFERED);
    }

    /// The rest of an ACCEPT that the kernel took in part: nothing may come in between.
    fn finish_accept(&self, accept: &[u8; ACCEPT_LEN], sent: usize) {
        let mut sent = sent.min(ACCEPT_LEN);
        while sent < ACCEPT_LEN {
            match raw::send_user(self.fd, accept[sent..].as_ptr(), ACCEPT_LEN - sent, 0) {
                Ok(more) => sent += more,
                Err(Errno::AGAIN) => {
                    let mut entry = libc::pollfd { fd: self.fd, events: libc::POLLOUT, revents: 0 };
                    let second = libc::timespec { tv_sec: 1, tv_nsec: 0 };
                    // SAFETY: requires valid pointers: both are to locals.
                    unsafe {
                        (self.process.real.ppoll)(
                            &raw mut entry,
                            1,
                            &raw const second,
                            core::ptr::null(),
                        )
                    };
                }
                Err(_) => return,
            }
        }
    }

    /// Server that reads much and sends nothing (an upload): the ACCEPT goes out alone.
    pub(crate) fn offer_alone(&self) {
        if self.conn.phase() != phase::IDLE
            || self.conn.rx_tcp_bytes.load(Ordering::Relaxed) < ALONE
        {
            return;
        }
        let Some(accept) = self.accept_message() else { return };
        match raw::send_user(self.fd, accept.as_ptr(), ACCEPT_LEN, 0) {
            Ok(sent) => {
                self.finish_accept(&accept, sent);
                self.offered();
            }
            Err(_) => self.fall_back(Reason::PEER_GONE),
        }
    }

    /// Counts bytes that went over TCP while the handshake is under way.
    pub(crate) fn traffic(&self, bytes: usize, receiving: bool) {
        let mut setup = self.conn.lock_setup();
        setup.bytes = setup.bytes.saturating_add(bytes as u64);
        if !receiving && setup.received_last {
            setup.turns += 1;
        }
        setup.received_last = receiving;
    }

    /// What the handshake can do at this call, of either kind.
    pub(crate) fn progress(&self) {
        match self.conn.phase() {
            phase::ACCEPTED => self.request_if_it_pays(),
            phase::REQUESTED => self.see_answer(),
            phase::OFFERED => {
                let looks = {
                    let mut setup = self.conn.lock_setup();
                    setup.looks += 1;
                    setup.looks
                };
                // A look costs a system call: often at first, then seldom.
                if looks < 64 || looks % 64 == 0 {
                    look(self.process);
                }
            }
            _ => {}
        }
        if self.conn.phase() == phase::ATTACHED && !self.conn.has(flag::CONSENTED) {
            self.consent();
        }
    }

    fn request_if_it_pays(&self) {
        let mut setup = self.conn.lock_setup();
        let pays = match self.process.config.attach_after {
            Some(bytes) => setup.bytes >= bytes,
            None => setup.bytes >= BYTES || setup.turns >= TURNS,
        };
        // A socket that several processes share stays on TCP until one is left.
        if !pays
            || self.conn.phase() != phase::ACCEPTED
            || self.conn.procs.load(Ordering::Relaxed) > 1
        {
            return;
        }
        let config = &self.process.config;
        let geometry = Geometry {
            c2s: setup.codes[0].max(config.sndbuf_code).min(6),
            s2c: setup.codes[1].max(config.rcvbuf_code).min(6),
        };
        let (gid, token) = (setup.gid, setup.token);
        match group_for(&self.process.device, &gid, &token, geometry, self.index) {
            Ok((group, slot)) => {
                let Some(header) = group.header(slot) else { return };
                header.reset(&token);
                self.join(group.index(), slot);
                setup.waited = 0;
                self.conn.set_phase(phase::REQUESTED);
                // Release: pairs with the Acquire of the server's scan.
                header.state.store(state::REQUESTED, Ordering::Release);
                if let Some(head) = group.head() {
                    head.requests[slot / 64].fetch_or(1 << (slot % 64), Ordering::AcqRel);
                }
            }
            Err(reason) => {
                drop(setup);
                self.fall_back(reason);
            }
        }
    }

    /// Joins the record to a slot: rings, cursors, header.
    fn join(&self, group_index: usize, slot: usize) {
        let Some(group) = self.process.device.groups.get(group_index) else { return };
        let Some(header) = group.header(slot) else { return };
        self.conn.group.store(group_index as u32, Ordering::Relaxed);
        self.conn.slot.store(slot as u32, Ordering::Relaxed);
        let (tx, tx_size) = group.ring(slot, true);
        let (rx, rx_size) = group.ring(slot, false);
        self.conn.lock_tx().ring = tx;
        self.conn.lock_rx().ring = rx;
        // For the tools.
        self.conn.tx_size.store(tx_size as u32, Ordering::Relaxed);
        self.conn.rx_size.store(rx_size as u32, Ordering::Relaxed);
        // SAFETY: requires a header that stays mapped while the record is in use: a group is
        // retired only when none of its connections is left.
        unsafe { self.conn.join(header) };
    }

    fn see_answer(&self) {
        let Some(header) = self.conn.header() else { return };
        // Acquire: pairs with the AcqRel of the server's answer.
        match header.state.load(Ordering::Acquire) {
            state::ATTACHED => self.attached(),
            state::DECLINED => {
                let reason = Reason(header.reason.load(Ordering::Relaxed));
                self.leave_slot();
                self.fall_back(reason);
            }
            _ => {
                let mut setup = self.conn.lock_setup();
                setup.waited += 1;
                if setup.waited < PATIENCE {
                    return;
                }
                drop(setup);
                // AcqRel: against the server's exchange; one of the two wins.
                let taken_back = header.state.compare_exchange(
                    state::REQUESTED,
                    state::CANCELLED,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                );
                if taken_back.is_ok() {
                    self.leave_slot();
                    self.fall_back(Reason::CANCELLED);
                }
            }
        }
    }

    fn attached(&self) {
        self.conn.reason.store(0, Ordering::Relaxed);
        self.conn.set_phase(phase::ATTACHED);
        if !self.conn.raise(flag::COUNTED) {
            if let Some(page) = self.process.page() {
                page.smcd.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Gives the slot back.
    pub(crate) fn leave_slot(&self) {
        if let Some(group) = self.group() {
            group.release_conn(self.conn.slot.load(Ordering::Relaxed) as usize);
        }
    }
}

/// Server: takes first contacts and requests, and attaches what it may.
pub(crate) fn look(process: &Process) {
    process.device.control.drain(&process.device, |token| {
        let (_, conn) = by_token(process, token)?;
        let setup = conn.lock_setup();
        Some(setup.peer_uid)
    });
    for group in process.device.groups.iter().filter(|group| !group.is_client()) {
        let Some(head) = group.head() else { continue };
        for (word, requests) in head.requests.iter().enumerate() {
            if requests.load(Ordering::Relaxed) == 0 {
                continue;
            }
            // Acquire: pairs with the AcqRel of the client's request.
            let mut bits = requests.swap(0, Ordering::AcqRel);
            while bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if !answer(process, group.index(), slot) {
                    requests.fetch_or(1 << (slot % 64), Ordering::AcqRel);
                }
            }
        }
    }
}

/// Answers one request; false: not yet.
fn answer(process: &Process, group_index: usize, slot: usize) -> bool {
    let Some(group) = process.device.groups.get(group_index) else { return true };
    let Some(header) = group.header(slot) else { return true };
    if header.state.load(Ordering::Acquire) != state::REQUESTED {
        return true;
    }
    let decline = |reason: Reason| {
        header.reason.store(reason.0, Ordering::Relaxed);
        let _ = header.state.compare_exchange(
            state::REQUESTED,
            state::DECLINED,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        true
    };
    let token = header.token_bytes();
    let Some((index, conn)) = by_token(process, &token) else {
        return decline(Reason::BAD_TOKEN);
    };
    if conn.procs.load(Ordering::Relaxed) > 1 {
        return false;
    }
    {
        let setup = conn.lock_setup();
        if setup.token != token || setup.peer_uid != group.peer_uid {
            return decline(Reason::BAD_TOKEN);
        }
    }
    let fd = conn.fd.load(Ordering::Relaxed).cast_signed();
    let ctx = Ctx { process, index, conn, fd };
    group.put_conn(slot, index);
    ctx.join(group_index, slot);
    // AcqRel: against the client's cancellation; one of the two wins.
    let won = header.state.compare_exchange(
        state::REQUESTED,
        state::ATTACHED,
        Ordering::AcqRel,
        Ordering::Relaxed,
    );
    if won.is_err() {
        ctx.leave_slot();
        ctx.fall_back(Reason::CANCELLED);
        return true;
    }
    ctx.attached();
    ctx.consent();
    true
}

/// The connection whose ACCEPT carried a token.
fn by_token<'p>(process: &'p Process, token: &[u8; 16]) -> Option<(u32, &'p Conn)> {
    let index = u32::from_ne_bytes([token[12], token[13], token[14], token[15]]);
    let conn = process.device.arena.conn(index)?;
    let mine = conn.is_used()
        && conn.phase() == phase::OFFERED
        && conn.lock_setup().token == *token;
    mine.then_some((index, conn))
}
