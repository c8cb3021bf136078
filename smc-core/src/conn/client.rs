//! The connecting end: takes an ACCEPT out of the stream, and asks to attach when that pays.
use super::wait::poll_fds;
use super::Ctx;
use crate::arena::phase;
use crate::errno::Errno;
use crate::proto::{Answer, AttachPolicy, ClientSocket, Rest, Verdict};
use crate::reason::Reason;
use crate::shm::layout::state;
use crate::sync::Ordering;
use crate::sys::{raw, scm, tcp};
use crate::transport::loopback::{group_for, Geometry};
use crate::wire::clc::loopback::{LoopbackAccept, ACCEPT_LEN, CERTAIN_LEN};
use libc::c_int;

/// Looks, a pause before each, for the rest of what begins like an ACCEPT but need not be one.
const LOOKS: u32 = 10;
/// Such a pause.
const PAUSE_NS: u64 = 1_000_000;

/// What the first bytes came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    /// Nothing of ours is in front of the program's bytes, or no more.
    Program,
    /// It takes another look.
    Open,
}

impl Ctx<'_> {
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
        let mut rest = Rest::MayCome;
        let mut looks = 0;
        loop {
            let got = self.at_the_start(|| peek(&mut bytes, flags | libc::MSG_PEEK));
            let Ok(len) = usize::try_from(got) else { return Err(Ok(got)) };
            if self.judge(bytes.get(..len).unwrap_or(&[]), rest) == Head::Program {
                return Ok(());
            }
            rest = if self.is_tcp_ended() {
                // What came before the end may have come after the peek.
                Rest::Ended
            } else if len < CERTAIN_LEN && looks < LOOKS {
                // Nothing tells of the rest but another look: the socket is readable already.
                poll_fds(self.process, &mut [], Some(PAUSE_NS)).ok();
                looks += 1;
                Rest::MayCome
            } else if len < CERTAIN_LEN {
                Rest::GivenUp
            } else if dontwait || raw::is_nonblocking(self.fd()) {
                return Err(Err(Errno::AGAIN));
            } else {
                flags |= libc::MSG_WAITALL;
                Rest::MayCome
            };
        }
    }

    /// Client, where nothing may wait: takes an ACCEPT out that is there already.
    pub(crate) fn look_for_accept(&self) {
        let mut bytes = [0; ACCEPT_LEN];
        let mut rest = Rest::MayCome;
        // A look at an empty queue would take a pending error away from the program.
        while tcp::queued_in(self.fd()).is_ok_and(|queued| queued > 0) {
            let peeked = self.at_the_start(|| raw::recv(self.fd(), &mut bytes, libc::MSG_PEEK));
            let Ok(len) = peeked else { return };
            let head = self.judge(bytes.get(..len).unwrap_or(&[]), rest);
            if head == Head::Program || !self.is_tcp_ended() {
                return;
            }
            rest = Rest::Ended;
        }
    }

    /// Moves the handshake on by the first bytes, and takes out what is not the program's.
    fn judge(&self, seen: &[u8], rest: Rest) -> Head {
        let rest = if seen.is_empty() { Rest::Ended } else { rest };
        let socket = || {
            let read = tcp::read_so_far(self.fd(), tcp::BY_FIONREAD).ok()?;
            Some(ClientSocket { read, cookie: tcp::cookie(self.fd()).ok()? })
        };
        // Under the lock: of two threads that have seen an ACCEPT one takes it out.
        self.handshake(|setup| match setup.client.first_bytes(seen, rest, socket) {
            Verdict::NotYet => Head::Open,
            Verdict::Deliver => Head::Program,
            Verdict::Discard(count) => {
                self.take(count);
                Head::Open
            }
            Verdict::Remove(count, accept) => {
                if self.take(count) {
                    setup.client.removed(accept);
                } else {
                    setup.stop(Reason::BEHIND_BACK);
                }
                Head::Program
            }
        })
    }

    fn take(&self, count: usize) -> bool {
        let mut taken = [0; ACCEPT_LEN];
        taken.get_mut(..count).is_some_and(|taken| raw::recv(self.fd(), taken, 0) == Ok(count))
    }

    /// Counts bytes that went over TCP until it is decided whether the connection pays.
    pub(crate) fn traffic(&self, bytes: usize, receiving: bool) {
        let bytes = bytes as u64;
        match self.conn.phase() {
            phase::VIRGIN | phase::LATE | phase::ACCEPTED => {
                let asks = self.handshake(|setup| {
                    if receiving {
                        setup.client.received(bytes);
                    } else {
                        setup.client.sent(bytes);
                    }
                    setup.client.asks()
                });
                self.look_aside(asks);
            }
            phase::IDLE | phase::DEFERRED => self.handshake(|setup| {
                if receiving {
                    setup.server.received(bytes);
                } else {
                    setup.server.sent(bytes);
                }
            }),
            _ => {}
        }
    }

    /// Client without an ACCEPT in the stream: `asks` the server for one beside it, or takes the
    /// answer to a question.
    fn look_aside(&self, asks: bool) {
        let asides = &self.process.device.asides;
        let Some(question) = asides.of(self.index) else {
            if asks && asides.has_room() {
                if let Ok(Some(server)) = self.peer_socket() {
                    let _ = asides.ask(self.index, server.cookie, server.uid);
                }
            }
            return;
        };
        if !self.is_worth_a_look() {
            return;
        }
        let mut bytes = [0; ACCEPT_LEN];
        let accept = match scm::recv(question, &mut bytes) {
            Err(Errno::AGAIN) => return,
            Ok((ACCEPT_LEN, None)) => LoopbackAccept::parse(&bytes).ok(),
            _ => None,
        };
        asides.drop_of(self.index);
        self.handshake(|setup| match accept {
            Some(accept) if tcp::cookie(self.fd()) == Ok(accept.client_cookie) => {
                setup.client.removed(accept);
            }
            _ => {}
        });
    }

    fn policy(&self) -> AttachPolicy {
        AttachPolicy { after_bytes: self.process.config.attach_after, ..AttachPolicy::default() }
    }

    /// Client that has the server's ACCEPT: asks for a slot, if that pays.
    pub(super) fn request_if_it_pays(&self) {
        self.handshake(|setup| {
            let Some(accept) = setup.client.pays(&self.policy()) else { return };
            // A socket that several processes share stays on TCP until one is left.
            if self.is_shared() {
                return;
            }
            let [_, [user, _]] = raw::user_ids();
            if raw::owner(self.fd()) != Some(user) {
                // The server would turn away whoever is not the socket's user.
                setup.stop(Reason::PEER_UID);
                return;
            }
            let config = &self.process.config;
            let geometry = Geometry {
                c2s: accept.rx_code.max(config.sndbuf_code).min(6),
                s2c: accept.tx_code.max(config.rcvbuf_code).min(6),
            };
            let token = &accept.token;
            match group_for(&self.process.device, &accept.gid, token, geometry, self.index) {
                Ok((group, slot)) => {
                    let header = group.header(slot);
                    header.reset(token);
                    self.join(group.index(), slot);
                    setup.client.requested();
                    // Release: pairs with the Acquire of the server's scan.
                    header.state.store(state::REQUESTED, Ordering::Release);
                    let requests = &group.head().requests[slot / 64];
                    requests.fetch_or(1 << (slot % 64), Ordering::AcqRel);
                }
                Err(reason) => {
                    setup.stop(reason);
                }
            }
        });
    }

    /// Client that has asked: whether there is an answer.
    pub(super) fn see_answer(&self) {
        let Some(header) = self.header() else { return };
        // Acquire: pairs with the AcqRel of the server's answer.
        let answer = match header.state.load(Ordering::Acquire) {
            state::ATTACHED => Answer::Attached,
            state::DECLINED => Answer::Declined(Reason(header.reason.load(Ordering::Relaxed))),
            _ => {
                let lost = self.is_worth_a_look() && self.is_server_gone();
                let cancels =
                    lost || self.handshake(|setup| setup.client.waited(&self.policy()).is_some());
                if !cancels || !self.cancel_request() {
                    return;
                }
                if lost {
                    Answer::Lost
                } else {
                    Answer::Cancelled
                }
            }
        };
        // Of several threads that see it one hears it.
        if !self.handshake(|setup| setup.client.answered(answer)) {
            return;
        }
        match answer {
            Answer::Attached => self.count_attached(),
            Answer::Declined(_) | Answer::Cancelled | Answer::Lost => self.leave_slot(),
        }
    }

    /// Whether nobody is left to answer.
    fn is_server_gone(&self) -> bool {
        self.group().is_some_and(|group| {
            group.drain(&self.process.device);
            group.is_dead()
        })
    }

    /// Takes the request back; false: it does not stand any more.
    pub(super) fn cancel_request(&self) -> bool {
        self.header().is_some_and(|header| {
            // AcqRel: against the server's exchange; one of the two wins.
            let exchange = header.state.compare_exchange(
                state::REQUESTED,
                state::CANCELLED,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            exchange.is_ok()
        })
    }
}
