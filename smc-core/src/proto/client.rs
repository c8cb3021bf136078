//! The connecting end.
use super::LONE_ACCEPT_AFTER;
use crate::reason::Reason;
use crate::wire::clc::loopback::{prefix_for, LoopbackAccept, Prefix, ACCEPT_LEN, CERTAIN_LEN};

/// When a connection that could attach does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttachPolicy {
    /// After so many bytes, both directions together; `Some(0)`: at once. `None`: by `turns`, or
    /// after [`AttachPolicy::DEFAULT_BYTES`].
    pub after_bytes: Option<u64>,
    /// Requests that must have been sent when `after_bytes` does not decide alone.
    pub turns: u32,
    /// Calls on the connection that may pass before a request without an answer is cancelled.
    pub patience: u32,
}

impl AttachPolicy {
    /// Bytes that show a bulk transfer.
    pub const DEFAULT_BYTES: u64 = 16 * 1024;
}

impl Default for AttachPolicy {
    /// The second request shows that the connection is not a short one.
    fn default() -> Self {
        Self { after_bytes: None, turns: 2, patience: 1024 }
    }
}

/// Where a client stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientState {
    /// Nothing has been read: the first bytes may be an ACCEPT.
    Virgin,
    /// The server's ACCEPT was removed; the connection has not yet shown that it pays.
    Accepted(LoopbackAccept),
    /// The server was asked to attach.
    Requested(LoopbackAccept),
    /// The ring is there.
    Attached,
    /// TCP for good.
    Plain(Reason),
}

/// What may follow the first bytes of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// More bytes.
    MayCome,
    /// More bytes, but none came for so long that they are not those of one write. This ends the
    /// wait for a program whose own data begins like an ACCEPT.
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
    bytes: u64,
    turns: u32,
    waits: u32,
    next_look: u64,
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
            bytes: 0,
            turns: 0,
            waits: 0,
            next_look: LONE_ACCEPT_AFTER,
        }
    }

    /// Looks at bytes that wait to be read, `read_offset` of the stream having been read before.
    ///
    /// `prefix` is what is there, peeked. `my_cookie` is the kernel's cookie of this socket. To be
    /// called before anything is delivered while the state is [`ClientState::Virgin`]; in any
    /// other state the answer is [`Verdict::Deliver`].
    pub fn first_bytes(
        &mut self,
        read_offset: u64,
        prefix: &[u8],
        my_cookie: u64,
        rest: Rest,
    ) -> Verdict {
        if self.state != ClientState::Virgin {
            return Verdict::Deliver;
        }
        if read_offset != 0 {
            return self.deliver(Reason::OFFSET);
        }
        match (prefix_for(prefix, my_cookie), rest) {
            (Prefix::No, _) => self.deliver(Reason::PEERNOSMC),
            (Prefix::Whole, _) => match prefix.first_chunk().map(LoopbackAccept::parse) {
                Some(Ok(accept)) => Verdict::Remove(ACCEPT_LEN, accept),
                Some(Err(_)) | None => self.deliver(Reason::PROTOCOL),
            },
            (Prefix::Partial, Rest::Ended) if prefix.len() >= CERTAIN_LEN => {
                Verdict::Discard(prefix.len())
            }
            (Prefix::Partial, Rest::Ended) => self.deliver(Reason::PEERNOSMC),
            (Prefix::Partial, Rest::GivenUp) if (1..CERTAIN_LEN).contains(&prefix.len()) => {
                self.deliver(Reason::PEERNOSMC)
            }
            (Prefix::Partial, _) => Verdict::NotYet,
        }
    }

    /// The ACCEPT was consumed.
    pub fn removed(&mut self, accept: LoopbackAccept) {
        self.state = match self.unwanted {
            Some(reason) => ClientState::Plain(reason),
            None if accept.layout_version != self.layout_version => {
                ClientState::Plain(Reason::PEER_VERSION)
            }
            None => ClientState::Accepted(accept),
        };
    }

    /// Counts bytes that the program sent or received. `turn`: they begin a request, that is they
    /// are the first sent, or the first sent after something was received.
    pub fn traffic(&mut self, bytes: u64, turn: bool) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.turns = self.turns.saturating_add(u32::from(turn));
    }

    /// Whether a client that only sends should look for an ACCEPT, by [`Self::first_bytes`] with
    /// what can be peeked without waiting: a program that never receives would not find it. True
    /// once for every [`LONE_ACCEPT_AFTER`] bytes.
    pub fn looks(&mut self) -> bool {
        let due = self.state == ClientState::Virgin && self.bytes >= self.next_look;
        if due {
            self.next_look = self.bytes.saturating_add(LONE_ACCEPT_AFTER);
        }
        due
    }

    /// Whether the server should be asked now.
    pub fn pays(&self, policy: &AttachPolicy) -> bool {
        if !matches!(self.state, ClientState::Accepted(_)) {
            return false;
        }
        match policy.after_bytes {
            Some(bytes) => self.bytes >= bytes,
            None => self.turns >= policy.turns || self.bytes >= AttachPolicy::DEFAULT_BYTES,
        }
    }

    /// The server was asked.
    pub fn requested(&mut self) {
        if let ClientState::Accepted(accept) = self.state {
            self.state = ClientState::Requested(accept);
        }
    }

    /// The request has an answer.
    pub fn answered(&mut self, answer: Answer) {
        if !matches!(self.state, ClientState::Requested(_)) {
            return;
        }
        self.state = match answer {
            Answer::Attached => ClientState::Attached,
            Answer::Declined(reason) => ClientState::Plain(reason),
            Answer::Cancelled => ClientState::Plain(self.unwanted.unwrap_or(Reason::CANCELLED)),
        };
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
            ClientState::Accepted(_) => {
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
            (ClientState::Virgin, None) => Some(Reason::PEERNOSMC),
            (_, None) => Some(Reason::NOT_PAID),
        }
    }

    fn deliver(&mut self, reason: Reason) -> Verdict {
        self.state = ClientState::Plain(self.unwanted.unwrap_or(reason));
        Verdict::Deliver
    }
}

#[cfg(test)]
mod tests {
    use super::super::LONE_ACCEPT_AFTER;
    use super::{Answer, AttachPolicy, Cancel, ClientHandshake, ClientState, Rest, Stop, Verdict};
    use crate::reason::Reason;
    use crate::wire::clc::loopback::LoopbackAccept;

    const ACCEPT: LoopbackAccept = LoopbackAccept {
        gid: [1; 16],
        token: [2; 16],
        server_cookie: 3,
        client_cookie: 4,
        rx_code: 3,
        tx_code: 3,
        layout_version: 1,
        uid: 0,
    };

    fn accepted() -> ClientHandshake {
        let mut client = ClientHandshake::new(1);
        client.removed(ACCEPT);
        client
    }

    fn reason_after(read: u64, prefix: &[u8], cookie: u64, rest: Rest) -> Option<Reason> {
        let mut client = ClientHandshake::new(1);
        match client.first_bytes(read, prefix, cookie, rest) {
            Verdict::Deliver => client.reason(),
            _ => None,
        }
    }

    #[test]
    fn an_accept_is_removed_only_at_offset_0_and_for_this_socket() {
        let bytes = ACCEPT.emit();
        let mut client = ClientHandshake::new(1);
        let verdict = client.first_bytes(0, &bytes, 4, Rest::MayCome);
        assert_eq!(verdict, Verdict::Remove(100, ACCEPT));
        assert_eq!(client.state(), ClientState::Virgin, "not before it was consumed");
        assert_eq!(reason_after(0, &bytes, 5, Rest::MayCome), Some(Reason::PEERNOSMC));
        assert_eq!(reason_after(1, &bytes, 4, Rest::MayCome), Some(Reason::OFFSET));
        let mut unmarked = ClientHandshake::plain(Reason::MARK);
        assert_eq!(unmarked.first_bytes(0, &bytes, 4, Rest::MayCome), Verdict::Deliver);
    }

    #[test]
    fn a_part_of_an_accept_waits_for_the_rest() {
        let bytes = ACCEPT.emit();
        let judge =
            |len: usize, rest| ClientHandshake::new(1).first_bytes(0, &bytes[..len], 4, rest);
        for len in 0..100 {
            assert_eq!(judge(len, Rest::MayCome), Verdict::NotYet, "{len} bytes");
        }
        // Without the cookie it may be a program's; with it, it cannot.
        assert_eq!(judge(0, Rest::GivenUp), Verdict::NotYet);
        assert_eq!(judge(15, Rest::GivenUp), Verdict::Deliver);
        assert_eq!(judge(16, Rest::GivenUp), Verdict::NotYet);
        assert_eq!(judge(15, Rest::Ended), Verdict::Deliver);
        assert_eq!(judge(16, Rest::Ended), Verdict::Discard(16));
    }

    #[test]
    fn another_layout_is_removed_but_not_used() {
        let mut client = ClientHandshake::new(2);
        client.removed(ACCEPT);
        assert_eq!(client.reason(), Some(Reason::PEER_VERSION));
        assert_eq!(client.first_bytes(100, b"x", 4, Rest::MayCome), Verdict::Deliver);
    }

    #[test]
    fn a_client_that_only_sends_looks_now_and_then() {
        let mut client = ClientHandshake::new(1);
        let looks: Vec<_> = (0..5)
            .map(|_| {
                client.traffic(LONE_ACCEPT_AFTER / 2, false);
                client.looks()
            })
            .collect();
        assert_eq!(looks, [false, true, false, true, false]);
        assert_eq!(client.first_bytes(0, &[], 4, Rest::MayCome), Verdict::NotYet);
        client.removed(ACCEPT);
        client.traffic(LONE_ACCEPT_AFTER, false);
        assert!(!client.looks());
    }

    #[test]
    fn the_second_request_or_bulk_pays() {
        let policy = AttachPolicy::default();
        let mut client = accepted();
        client.traffic(10, true);
        client.traffic(100, false);
        assert!(!client.pays(&policy));
        client.traffic(10, true);
        assert!(client.pays(&policy));

        let mut client = accepted();
        client.traffic(AttachPolicy::DEFAULT_BYTES - 1, true);
        assert!(!client.pays(&policy));
        client.traffic(1, false);
        assert!(client.pays(&policy));
    }

    #[test]
    fn a_threshold_decides_alone() {
        let at_once = AttachPolicy { after_bytes: Some(0), ..AttachPolicy::default() };
        assert!(accepted().pays(&at_once));
        assert!(!ClientHandshake::new(1).pays(&at_once), "not before ACCEPT");
        let late = AttachPolicy { after_bytes: Some(1000), ..AttachPolicy::default() };
        let mut client = accepted();
        client.traffic(999, true);
        client.traffic(0, true);
        assert!(!client.pays(&late));
        client.traffic(1, false);
        assert!(client.pays(&late));
    }

    #[test]
    fn an_unanswered_request_is_cancelled_after_a_while() {
        let policy = AttachPolicy { patience: 3, ..AttachPolicy::default() };
        let mut client = accepted();
        assert_eq!(client.waited(&policy), None, "nothing was asked");
        client.requested();
        let waits: Vec<_> = (0..5).map(|_| client.waited(&policy)).collect();
        assert_eq!(waits, [None, None, None, Some(Cancel), Some(Cancel)]);

        let mut cancelled = client;
        cancelled.answered(Answer::Cancelled);
        assert_eq!(cancelled.reason(), Some(Reason::CANCELLED));
        // The server was faster: its answer counts.
        client.answered(Answer::Attached);
        assert!(client.attached());
        assert_eq!(client.reason(), None);
    }

    #[test]
    fn a_client_that_stops_still_removes_an_accept() {
        let mut client = ClientHandshake::new(1);
        assert_eq!(client.stop(Reason::EXEC), Stop::Done);
        let verdict = client.first_bytes(0, &ACCEPT.emit(), 4, Rest::MayCome);
        assert_eq!(verdict, Verdict::Remove(100, ACCEPT));
        client.removed(ACCEPT);
        assert_eq!(client.state(), ClientState::Plain(Reason::EXEC));
    }

    #[test]
    fn stopping_later_says_what_is_left_to_do() {
        let mut client = accepted();
        client.requested();
        assert_eq!(client.stop(Reason::EXEC), Stop::Cancel);
        let mut cancelled = client;
        cancelled.answered(Answer::Cancelled);
        assert_eq!(cancelled.state(), ClientState::Plain(Reason::EXEC));
        client.answered(Answer::Attached);
        assert_eq!(client.stop(Reason::EXEC), Stop::Leave);
        assert_eq!(accepted().stop(Reason::EXEC), Stop::Done);
    }
}
