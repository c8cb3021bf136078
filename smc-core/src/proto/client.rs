//! The connecting end.
use super::traffic::Traffic;
use super::{BESIDE_AFTER_BYTES, BESIDE_AFTER_TURNS};
use crate::reason::Reason;
use crate::wire::clc::loopback::{
    prefix, prefix_for, LoopbackAccept, Prefix, ACCEPT_LEN, CERTAIN_LEN,
};

/// When a connection that could attach does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttachPolicy {
    /// After so many bytes, both directions together; `Some(0)`: at once. `None`: by `turns`, or
    /// after [`AttachPolicy::DEFAULT_BYTES`].
    pub after_bytes: Option<u64>,
    /// Requests after the first reply that must have been sent when `after_bytes` does not decide
    /// alone.
    pub turns: u32,
    /// Calls on the connection that may pass before a request without an answer is cancelled.
    pub patience: u32,
}

impl AttachPolicy {
    /// Bytes that show a bulk transfer.
    pub const DEFAULT_BYTES: u64 = 16 * 1024;
}

impl Default for AttachPolicy {
    /// A second request after the first reply shows that the connection is not a short one.
    fn default() -> Self {
        Self { after_bytes: None, turns: 2, patience: 4096 }
    }
}

/// Requests that may be lost before the connection stays on TCP.
const RETRIES: u32 = 3;
/// Questions for an ACCEPT beside the stream of a server that put none in there.
const QUESTIONS: u32 = 8;
/// Bytes between two such questions.
const MOST_BETWEEN_QUESTIONS: u64 = 4 << 20;

/// Where a client stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientState {
    /// Nothing has been read: the first bytes may be an ACCEPT.
    Virgin,
    /// The first bytes were the program's. A server that did not offer its ACCEPT in the stream may
    /// hand it over beside.
    Late,
    /// The server's ACCEPT was removed, or came beside the stream; the connection has not yet shown that it pays.
    Accepted(LoopbackAccept),
    /// The server was asked to attach.
    Requested(LoopbackAccept),
    /// The ring is there.
    Attached,
    /// TCP for good.
    Plain(Reason),
}

/// What the kernel says of a client's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSocket {
    /// Bytes of the stream that were read.
    pub read: u64,
    /// Its cookie.
    pub cookie: u64,
}

/// What may follow the first bytes of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// More bytes.
    MayCome,
    /// More bytes, but none came for so long that they are not those of one write. This ends the
    /// wait for a program whose peer's data begins like an ACCEPT.
    GivenUp,
    /// Nothing: the stream has ended.
    Ended,
}

/// What to do with the first bytes of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Deliver nothing and consume nothing: more bytes are needed.
    NotYet,
    /// Consume so many bytes, which are not the program's, then call
    /// [`ClientHandshake::removed`].
    Remove(usize, LoopbackAccept),
    /// Consume so many bytes of an ACCEPT whose sender did not live to send the rest.
    Discard(usize),
    /// They are the program's.
    Deliver,
}

/// The server's answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The ring is there.
    Attached,
    /// It will not be.
    Declined(Reason),
    /// The client was faster in cancelling.
    Cancelled,
    /// Nobody is left who could answer, and the client has cancelled.
    Lost,
}

/// Try to cancel the request: only if it still stands may it be cancelled, else its answer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancel;

/// What remains to be done when a connection shall no longer become SMC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Nothing.
    Done,
    /// Try to cancel the request, as with [`Cancel`].
    Cancel,
    /// It is SMC: the transport must leave the ring.
    Leave,
}

/// The handshake of a connecting socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientHandshake {
    state: ClientState,
    layout_version: u32,
    unwanted: Option<Reason>,
    traffic: Traffic,
    waits: u32,
    lost: u32,
    questions: u32,
    ask_at_bytes: u64,
    ask_at_turns: u32,
}

impl ClientHandshake {
    /// A socket that was marked before it connected; `layout_version` is that of this process.
    pub const fn new(layout_version: u32) -> Self {
        Self::with(ClientState::Virgin, layout_version)
    }

    /// A socket that is not marked, or cannot become SMC for another reason.
    pub const fn plain(reason: Reason) -> Self {
        Self::with(ClientState::Plain(reason), 0)
    }

    const fn with(state: ClientState, layout_version: u32) -> Self {
        Self {
            state,
            layout_version,
            unwanted: None,
            traffic: Traffic::NONE,
            waits: 0,
            lost: 0,
            questions: 0,
            ask_at_bytes: BESIDE_AFTER_BYTES,
            // The server asks first who the client is, at a call after it has counted as many.
            ask_at_turns: BESIDE_AFTER_TURNS + 2,
        }
    }

    /// Looks at bytes that wait to be read: `seen` is what is there, peeked.
    ///
    /// `socket` asks the kernel, `None` if that fails; it is called only for bytes that may be an
    /// ACCEPT. To be called before anything is delivered while the state is
    /// [`ClientState::Virgin`]; in any other state the answer is [`Verdict::Deliver`].
    pub fn first_bytes(
        &mut self,
        seen: &[u8],
        rest: Rest,
        socket: impl FnOnce() -> Option<ClientSocket>,
    ) -> Verdict {
        if self.state != ClientState::Virgin {
            return Verdict::Deliver;
        }
        if prefix(seen) == Prefix::No {
            return self.deliver_late();
        }
        let Some(socket) = socket() else { return self.deliver(Reason::INTERR) };
        if socket.read != 0 {
            return self.deliver(Reason::OFFSET);
        }
        match (prefix_for(seen, socket.cookie), rest) {
            (Prefix::No, _) => self.deliver_late(),
            (Prefix::Whole, _) => match seen.first_chunk().map(LoopbackAccept::parse) {
                Some(Ok(accept)) => Verdict::Remove(ACCEPT_LEN, accept),
                Some(Err(_)) | None => self.deliver(Reason::PROTOCOL),
            },
            (Prefix::Partial, Rest::Ended) if seen.len() >= CERTAIN_LEN => {
                Verdict::Discard(seen.len())
            }
            (Prefix::Partial, Rest::Ended) => self.deliver(Reason::PEERNOSMC),
            (Prefix::Partial, Rest::GivenUp) if (1..CERTAIN_LEN).contains(&seen.len()) => {
                self.deliver(Reason::PEERNOSMC)
            }
            (Prefix::Partial, _) => Verdict::NotYet,
        }
    }

    /// The ACCEPT was consumed.
    pub fn removed(&mut self, accept: LoopbackAccept) {
        if !matches!(self.state, ClientState::Virgin | ClientState::Late) {
            return;
        }
        self.state = match self.unwanted {
            Some(reason) => ClientState::Plain(reason),
            None if accept.layout_version != self.layout_version => {
                ClientState::Plain(Reason::PEER_VERSION)
            }
            None => ClientState::Accepted(accept),
        };
    }

    /// Counts bytes that the program sent.
    pub fn sent(&mut self, bytes: u64) {
        self.traffic.sent(bytes);
    }

    /// Counts bytes that the program received.
    pub fn received(&mut self, bytes: u64) {
        self.traffic.received(bytes);
    }

    /// Whether to ask the server for an ACCEPT beside the stream: a program that never receives
    /// would not find one in there, and a server that expects short connections puts none there. If
    /// there is one, [`Self::removed`] is to be called as for one that was.
    ///
    /// The server may not listen yet, so that the question is asked again, less and less often; in
    /// the end there is no such server.
    pub fn asks(&mut self) -> bool {
        let due = match self.state {
            ClientState::Virgin => self.traffic.bytes >= self.ask_at_bytes,
            ClientState::Late => {
                self.traffic.bytes >= self.ask_at_bytes || self.traffic.turns >= self.ask_at_turns
            }
            _ => false,
        };
        if !due {
            return false;
        }
        // What a client has sent may lie in buffers for long before the server reads it.
        let step = self.traffic.bytes.clamp(BESIDE_AFTER_BYTES, MOST_BETWEEN_QUESTIONS);
        self.ask_at_bytes = self.traffic.bytes.saturating_add(step);
        self.ask_at_turns = self.traffic.turns.saturating_mul(2).max(self.ask_at_turns);
        self.questions = self.questions.saturating_add(1);
        if self.state == ClientState::Late && self.questions > QUESTIONS {
            self.state = ClientState::Plain(Reason::PEERNOSMC);
            return false;
        }
        true
    }

    /// The ACCEPT to answer, if the server should be asked now.
    pub fn pays(&self, policy: &AttachPolicy) -> Option<LoopbackAccept> {
        let ClientState::Accepted(accept) = self.state else { return None };
        let pays = match policy.after_bytes {
            Some(bytes) => self.traffic.bytes >= bytes,
            None => self.traffic.turns >= policy.turns || self.traffic.bytes >= AttachPolicy::DEFAULT_BYTES,
        };
        pays.then_some(accept)
    }

    /// The server was asked.
    pub fn requested(&mut self) {
        if let ClientState::Accepted(accept) = self.state {
            self.state = ClientState::Requested(accept);
        }
    }

    /// The request has an answer. False: it was heard before.
    pub fn answered(&mut self, answer: Answer) -> bool {
        let ClientState::Requested(accept) = self.state else { return false };
        self.state = match answer {
            Answer::Attached => ClientState::Attached,
            Answer::Declined(reason) => ClientState::Plain(reason),
            Answer::Cancelled => ClientState::Plain(self.unwanted.unwrap_or(Reason::CANCELLED)),
            // A link group whose first contact the server refused, since the connection that made
            // it had ended by then, says nothing of this connection.
            Answer::Lost if self.unwanted.is_none() && self.lost < RETRIES => {
                self.lost += 1;
                ClientState::Accepted(accept)
            }
            Answer::Lost => ClientState::Plain(self.unwanted.unwrap_or(Reason::NO_CONTROL)),
        };
        true
    }

    /// Counts a call that found no answer to the request.
    pub fn waited(&mut self, policy: &AttachPolicy) -> Option<Cancel> {
        if !matches!(self.state, ClientState::Requested(_)) {
            return None;
        }
        self.waits = self.waits.saturating_add(1);
        (self.waits > policy.patience).then_some(Cancel)
    }

    /// The connection shall not become SMC, or no longer be.
    ///
    /// A client that has read nothing goes on looking for an ACCEPT, since the server may have
    /// seen the mark already; it only takes no further part.
    pub fn stop(&mut self, reason: Reason) -> Stop {
        match self.state {
            ClientState::Virgin => {
                self.unwanted = Some(reason);
                Stop::Done
            }
            ClientState::Late | ClientState::Accepted(_) => {
                self.state = ClientState::Plain(reason);
                Stop::Done
            }
            ClientState::Requested(_) => {
                self.unwanted = Some(reason);
                Stop::Cancel
            }
            ClientState::Attached => Stop::Leave,
            ClientState::Plain(_) => Stop::Done,
        }
    }

    /// Where the client stands.
    pub const fn state(&self) -> ClientState {
        self.state
    }

    /// Whether the ring is there.
    pub const fn attached(&self) -> bool {
        matches!(self.state, ClientState::Attached)
    }

    /// Why the connection is TCP at the moment, if it is.
    pub const fn reason(&self) -> Option<Reason> {
        match (self.state, self.unwanted) {
            (ClientState::Attached, _) => None,
            (ClientState::Plain(reason), _) | (_, Some(reason)) => Some(reason),
            (ClientState::Virgin | ClientState::Late, None) => Some(Reason::PEERNOSMC),
            (_, None) => Some(Reason::NOT_PAID),
        }
    }

    fn deliver_late(&mut self) -> Verdict {
        self.state = match self.unwanted {
            Some(reason) => ClientState::Plain(reason),
            None => ClientState::Late,
        };
        Verdict::Deliver
    }

    fn deliver(&mut self, reason: Reason) -> Verdict {
        self.state = ClientState::Plain(self.unwanted.unwrap_or(reason));
        Verdict::Deliver
    }
}

#[cfg(test)]
mod tests;
