//! The accepting end: puts an ACCEPT in front of the first bytes if the client's socket bears the
//! mark, and attaches the clients that ask.
use super::{holders, Ctx};
use crate::arena::Conn;
use crate::config::Mode;
use crate::errno::Errno;
use crate::fdtable;
use crate::process::Process;
use crate::proto::{Confirmed, FirstSend, PeerMark, ServerState};
use crate::reason::Reason;
use crate::shm::layout::{state, VERSION};
use crate::sync::Ordering;
use crate::sys::diag::{self, Endpoint};
use crate::sys::{raw, tcp};
use crate::wire::clc::loopback::{LoopbackAccept, ACCEPT_LEN};
use libc::c_int;

/// Waits for memory in the kernel, for the rest of an ACCEPT.
const YIELDS: u32 = 100_000;

impl Ctx<'_> {
    /// Server, before the first bytes go out: the ACCEPT goes ahead of them if it may. `flags` are
    /// those of its `send`: MSG_MORE if the program's bytes follow, which then share its packet.
    ///
    /// It is sent under the lock, so that no thread's bytes come first; the program's own call may
    /// wait for long, and so is not.
    pub(crate) fn offer(&self, flags: c_int) {
        let (config, forecast) = (&self.process.config, &self.process.forecast);
        self.handshake(|setup| {
            let server = &mut setup.server;
            if config.attach_after.is_none() && forecast.is_short() {
                server.defer();
            }
            let first = server.first_send(|| self.peer_mark(), || tcp::written(self.fd(), false).ok());
            let FirstSend::SendAccept { client_cookie, uid } = first else { return };
            let sent = self.accept_message(client_cookie).and_then(|accept| {
                let message = accept.emit();
                match raw::send_user(self.fd(), message.as_ptr(), ACCEPT_LEN, flags) {
                    Ok(sent) => Ok((accept, message, sent)),
                    Err(_) => Err(Reason::PEER_GONE),
                }
            });
            match sent {
                Ok((accept, message, sent)) => {
                    server.accept_sent(accept.token, uid);
                    self.finish_accept(&message, sent, flags);
                }
                Err(reason) => {
                    server.stop(reason);
                }
            }
        });
    }

    /// Server whose ACCEPT is not in the stream, on a connection that lives long: hands it to the
    /// client beside the stream, once that asks.
    pub(crate) fn offer_aside(&self) {
        let asides = &self.process.device.asides;
        self.handshake(|setup| {
            let server = &mut setup.server;
            if server.lives_long() {
                server.beside(self.peer_mark());
            }
            if !server.looks() {
                if !matches!(server.state(), ServerState::Beside { .. }) {
                    asides.drop_of(self.index);
                }
                return;
            }
            let ServerState::Beside { client_cookie, uid } = server.state() else { return };
            let Some(listener) = asides.of(self.index) else {
                if let (true, Ok(cookie)) = (asides.has_room(), tcp::cookie(self.fd())) {
                    let _ = asides.listen(self.index, cookie);
                }
                return;
            };
            let Ok(accept) = self.accept_message(client_cookie) else { return };
            if asides.hand_over(listener, uid, &accept.emit()) {
                server.accept_sent(accept.token, uid);
                asides.drop_of(self.index);
            }
        });
    }

    fn accept_message(&self, client_cookie: u64) -> Result<LoopbackAccept, Reason> {
        let process = self.process;
        let gid = process.device.control.gid().map_err(|_| Reason::FD_LIMIT)?;
        let mut token = [0; 16];
        if !raw::random(&mut token[..12]) {
            return Err(Reason::INTERR);
        }
        token[12..].copy_from_slice(&self.index.to_ne_bytes());
        Ok(LoopbackAccept {
            gid,
            token,
            server_cookie: tcp::cookie(self.fd()).map_err(|_| Reason::INTERR)?,
            client_cookie,
            rx_code: process.config.rcvbuf_code,
            tx_code: process.config.sndbuf_code,
            layout_version: VERSION,
            uid: raw::getuid(),
        })
    }

    /// The rest of an ACCEPT that the kernel took in part: nothing may come in between.
    fn finish_accept(&self, message: &[u8; ACCEPT_LEN], mut sent: usize, flags: c_int) {
        let mut yields = 0;
        while let Some(rest) = message.get(sent..).filter(|rest| !rest.is_empty()) {
            match raw::send_user(self.fd(), rest.as_ptr(), rest.len(), flags) {
                Ok(more) => sent += more,
                // A shortage of memory, since nothing else is queued. No sleep that lets signal handlers
                // run: they would wait for the lock that is held here.
                Err(Errno::AGAIN) if yields < YIELDS => {
                    yields += 1;
                    raw::yield_now();
                }
                Err(Errno::AGAIN) => {
                    // Part of it is in the stream, and nothing may follow a part.
                    self.fault(Reason::MEM);
                    return;
                }
                Err(_) => return,
            }
        }
    }

    /// What is known of the client's socket.
    fn peer_mark(&self) -> PeerMark {
        if matches!(self.process.config.mode, Mode::Off | Mode::Rdma) {
            return PeerMark::Unknown(Reason::MODE_OFF);
        }
        match self.peer_socket() {
            Ok(Some(found)) if found.marked => {
                PeerMark::Marked { cookie: found.cookie, uid: found.uid }
            }
            Ok(Some(_)) => PeerMark::Unmarked,
            Ok(None) => PeerMark::Unknown(Reason::REMOTE),
            Err(reason) => PeerMark::Unknown(reason),
        }
    }

    /// The peer's socket, if it is on this host and in this network namespace.
    pub(super) fn peer_socket(&self) -> Result<Option<diag::Found>, Reason> {
        let (own, peer) = self.ends()?;
        self.look_up(peer, own)
    }

    /// What sock_diag says of the own socket.
    pub(super) fn own_socket(&self) -> Result<Option<diag::Found>, Reason> {
        let (own, peer) = self.ends()?;
        self.look_up(own, peer)
    }

    /// This end and the peer's.
    fn ends(&self) -> Result<(Endpoint, Endpoint), Reason> {
        let mut own = [0; 128];
        let mut peer = [0; 128];
        let ends = raw::getsockname(self.fd(), &mut own)
            .and_then(|own_len| Ok((own_len, raw::getpeername(self.fd(), &mut peer)?)));
        let Ok((own_len, peer_len)) = ends else { return Err(Reason::PEER_GONE) };
        let own = own.get(..own_len).and_then(Endpoint::from_sockaddr);
        let peer = peer.get(..peer_len).and_then(Endpoint::from_sockaddr);
        own.zip(peer).ok_or(Reason::INTERR)
    }

    fn look_up(&self, local: Endpoint, remote: Endpoint) -> Result<Option<diag::Found>, Reason> {
        let mut netlink = self.process.netlink.lock();
        if *netlink < 0 {
            *netlink = fdtable::raise(diag::open().map_err(|_| Reason::NO_DIAG)?);
        }
        match diag::query(*netlink, local, remote) {
            Ok(found) => Ok(found),
            Err(_) => {
                // Whatever is still in the queue must not answer the next question.
                fdtable::drop_internal(core::mem::replace(&mut *netlink, -1));
                Err(Reason::NO_DIAG)
            }
        }
    }

    /// Server that has sent its ACCEPT: looks for a request.
    pub(super) fn look_for_request(&self) {
        if self.is_worth_a_look() {
            look(self.process);
        }
    }
}

/// Takes first contacts and requests, and attaches what it may.
fn look(process: &Process) {
    process.device.control.drain(&process.device, |token| {
        by_token(process, token)?.1.lock_setup().server.awaits(token)
    });
    for group in process.device.groups.iter().filter(|group| !group.is_client() && !group.guest) {
        for (word, requests) in group.head().requests.iter().enumerate() {
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
    let header = group.header(slot);
    if header.state.load(Ordering::Acquire) != state::REQUESTED {
        return true;
    }
    // AcqRel: against the client's cancellation; one of the two wins.
    let settle = |to| {
        let exchange = header.state.compare_exchange(
            state::REQUESTED,
            to,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        exchange.is_ok()
    };
    let decline = |reason: Reason| {
        header.reason.store(reason.0, Ordering::Relaxed);
        settle(state::DECLINED);
    };
    let token = header.token_bytes();
    let Some((index, conn)) = by_token(process, &token) else {
        decline(Reason::BAD_TOKEN);
        return true;
    };
    let Some(fd) = holders::descriptor(index, conn) else {
        // Another process of the family holds it, and may have the group as well.
        return false;
    };
    let ctx = Ctx { process, index, conn, fd };
    let attached = ctx.handshake(|setup| {
        match setup.server.confirm(&token, group.peer_uid, ctx.is_shared()) {
            Confirmed::NotYet => return None,
            Confirmed::Decline(reason) => {
                decline(reason);
                return Some(false);
            }
            Confirmed::Attach => {}
        }
        group.put_conn(slot, index);
        ctx.join(group_index, slot);
        let attached = settle(state::ATTACHED);
        if attached {
            setup.server.attached_now();
        } else {
            ctx.leave_slot();
            setup.stop(Reason::CANCELLED);
        }
        Some(attached)
    });
    if attached == Some(true) {
        ctx.count_attached();
        ctx.consent();
    }
    attached.is_some()
}

/// The connection that a token names, if it can have sent it.
fn by_token<'p>(process: &'p Process, token: &[u8; 16]) -> Option<(u32, &'p Conn)> {
    let index = u32::from_ne_bytes([token[12], token[13], token[14], token[15]]);
    let conn = process.device.arena.conn(index)?;
    // Its phase is looked at under its lock: the client may be faster than the thread that has just
    // sent the ACCEPT.
    conn.is_used().then_some((index, conn))
}
