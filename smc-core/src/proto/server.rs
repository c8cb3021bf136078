//! The accepting end.
use super::traffic::Traffic;
use super::Stop;
use crate::reason::Reason;

/// Bytes after which a server whose ACCEPT is not in the stream offers it beside.
///
/// Either nothing was sent so far: in the stream a client that only sends would leave it unread, and
/// its end would reset the connection. Or [`ServerHandshake::defer`] was called.
pub const BESIDE_AFTER_BYTES: u64 = 64 * 1024;
/// Replies after which a server that was told to [`ServerHandshake::defer`] does so.
pub const BESIDE_AFTER_TURNS: u32 = 8;

/// Calls on a connection within which the client's question must come.
const LOOKS: u32 = 1 << 16;

/// What sock_diag says about the client's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerMark {
    /// It is marked: its reader removes an ACCEPT.
    Marked {
        /// The kernel's cookie of it.
        cookie: u64,
        /// Its owner.
        uid: u32,
    },
    /// It is not.
    Unmarked,
    /// There is no answer, and why: no sock_diag, another host.
    Unknown(Reason),
}

/// Where a server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerState {
    /// Nothing has been sent.
    Idle,
    /// Something has been sent, without an ACCEPT: there may be one beside the stream later.
    Deferred,
    /// The client's socket is marked: it may ask for an ACCEPT beside the stream.
    Beside {
        /// The client's cookie.
        client_cookie: u64,
        /// The client's user.
        uid: u32,
    },
    /// The ACCEPT was sent.
    AcceptSent {
        /// The token in it.
        token: [u8; 16],
        /// The client's user, whose process may confirm.
        uid: u32,
    },
    /// The ring is there.
    Attached,
    /// TCP for good.
    Plain(Reason),
}

/// What to put in front of the program's first bytes, or to hand over beside the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstSend {
    /// An ACCEPT for the socket with this cookie, before anybody else can send; then call
    /// [`ServerHandshake::accept_sent`], or [`ServerHandshake::stop`] if it cannot be sent.
    SendAccept {
        /// The client's cookie.
        client_cookie: u64,
        /// The client's user.
        uid: u32,
    },
    /// Nothing.
    Plain,
}

/// What to answer to a CONFIRM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// Attach the ring, if the client has not cancelled meanwhile.
    Attach,
    /// Nothing, for now.
    NotYet,
    /// Do not.
    Decline(Reason),
}

/// The handshake of an accepted socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerHandshake {
    state: ServerState,
    traffic: Traffic,
    looks: u32,
}

impl Default for ServerHandshake {
    fn default() -> Self {
        Self::new()
    }
}

impl ServerHandshake {
    /// A socket on which nothing was sent.
    pub const fn new() -> Self {
        Self::with(ServerState::Idle)
    }

    /// A socket that cannot become SMC.
    pub const fn plain(reason: Reason) -> Self {
        Self::with(ServerState::Plain(reason))
    }

    const fn with(state: ServerState) -> Self {
        Self { state, traffic: Traffic::NONE, looks: 0 }
    }

    /// The program sends: whether an ACCEPT goes ahead.
    ///
    /// `peer` asks who the client is, then `written` how many bytes of the stream were written
    /// before (`None`: unknown); each only where it matters. In any state but
    /// [`ServerState::Idle`] the answer is [`FirstSend::Plain`].
    pub fn first_send(
        &mut self,
        peer: impl FnOnce() -> PeerMark,
        written: impl FnOnce() -> Option<u64>,
    ) -> FirstSend {
        if self.state != ServerState::Idle {
            return FirstSend::Plain;
        }
        let reason = match peer() {
            PeerMark::Marked { cookie, uid } if written() == Some(0) => {
                return FirstSend::SendAccept { client_cookie: cookie, uid };
            }
            PeerMark::Marked { .. } => Reason::OFFSET,
            PeerMark::Unmarked => Reason::PEERNOSMC,
            PeerMark::Unknown(reason) => reason,
        };
        self.state = ServerState::Plain(reason);
        FirstSend::Plain
    }

    /// The ACCEPT was sent, or so much of it that the rest must follow before anything else.
    pub fn accept_sent(&mut self, token: [u8; 16], uid: u32) {
        if matches!(self.state, ServerState::Idle | ServerState::Beside { .. }) {
            self.state = ServerState::AcceptSent { token, uid };
        }
    }

    /// The program sends, and the connection is not expected to live for long: no ACCEPT goes
    /// ahead, which costs neither end anything. There may be one beside the stream later.
    pub fn defer(&mut self) {
        if self.state == ServerState::Idle {
            self.state = ServerState::Deferred;
        }
    }

    /// Counts bytes that the program sent.
    pub fn sent(&mut self, bytes: u64) {
        self.traffic.sent(bytes);
    }

    /// Counts bytes that the program received.
    pub fn received(&mut self, bytes: u64) {
        self.traffic.received(bytes);
    }

    /// Whether to ask who the client is and to offer an ACCEPT beside the stream:
    /// [`Self::beside`] takes the answer.
    pub const fn lives_long(&self) -> bool {
        match self.state {
            ServerState::Idle => self.traffic.bytes >= BESIDE_AFTER_BYTES,
            ServerState::Deferred => {
                self.traffic.bytes >= BESIDE_AFTER_BYTES || self.traffic.turns >= BESIDE_AFTER_TURNS
            }
            _ => false,
        }
    }

    /// The connection has shown that it is not a short one, and the client is this.
    pub fn beside(&mut self, peer: PeerMark) {
        if !matches!(self.state, ServerState::Idle | ServerState::Deferred) {
            return;
        }
        self.state = match peer {
            PeerMark::Marked { cookie, uid } => {
                ServerState::Beside { client_cookie: cookie, uid }
            }
            PeerMark::Unmarked => ServerState::Plain(Reason::PEERNOSMC),
            PeerMark::Unknown(reason) => ServerState::Plain(reason),
        };
    }

    /// Whether to look for the client's question at this call, which costs a system call: each
    /// time at first, then seldom, and not for ever.
    pub fn looks(&mut self) -> bool {
        if !matches!(self.state, ServerState::Beside { .. }) {
            return false;
        }
        self.looks = self.looks.saturating_add(1);
        if self.looks > LOOKS {
            self.state = ServerState::Plain(Reason::PEERNOSMC);
            return false;
        }
        self.looks < 64 || self.looks.is_multiple_of(64)
    }

    /// The client's user, if the ACCEPT with this token was sent and nothing came of it yet.
    pub fn awaits(&self, token: &[u8; 16]) -> Option<u32> {
        match self.state {
            ServerState::AcceptSent { token: mine, uid } if same(&mine, token) => Some(uid),
            _ => None,
        }
    }

    /// A process of user `uid` that knows `token` asks to attach. `shared`: several processes of
    /// this side hold the socket, as after a fork; it attaches when one is left.
    ///
    /// A wrong token changes nothing: whoever guesses must not be able to disturb a connection.
    pub fn confirm(&self, token: &[u8; 16], uid: u32, shared: bool) -> Confirmed {
        match (self.awaits(token), self.state) {
            (Some(client), _) if client == uid && shared => Confirmed::NotYet,
            (Some(client), _) if client == uid => Confirmed::Attach,
            (Some(_), _) => Confirmed::Decline(Reason::PEER_UID),
            (None, ServerState::Plain(reason)) => Confirmed::Decline(reason),
            _ => Confirmed::Decline(Reason::BAD_TOKEN),
        }
    }

    /// The ring was attached.
    pub fn attached_now(&mut self) {
        if matches!(self.state, ServerState::AcceptSent { .. }) {
            self.state = ServerState::Attached;
        }
    }

    /// The connection shall not become SMC, for example since the client cancelled, or no longer
    /// be.
    pub fn stop(&mut self, reason: Reason) -> Stop {
        match self.state {
            ServerState::Attached => Stop::Leave,
            ServerState::Plain(_) => Stop::Done,
            ServerState::Idle
            | ServerState::Deferred
            | ServerState::Beside { .. }
            | ServerState::AcceptSent { .. } => {
                self.state = ServerState::Plain(reason);
                Stop::Done
            }
        }
    }

    /// Where the server stands.
    pub const fn state(&self) -> ServerState {
        self.state
    }

    /// Whether the ring is there.
    pub const fn attached(&self) -> bool {
        matches!(self.state, ServerState::Attached)
    }

    /// Why the connection is TCP at the moment, if it is.
    pub const fn reason(&self) -> Option<Reason> {
        match self.state {
            ServerState::Attached => None,
            ServerState::Plain(reason) => Some(reason),
            ServerState::Idle => Some(Reason::PEERNOSMC),
            ServerState::Deferred | ServerState::Beside { .. } | ServerState::AcceptSent { .. } => {
                Some(Reason::NOT_PAID)
            }
        }
    }
}

/// Compares without telling by its time how much of a guess is right.
fn same(a: &[u8; 16], b: &[u8; 16]) -> bool {
    a.iter().zip(b).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::super::Stop;
    use super::{
        Confirmed, FirstSend, PeerMark, ServerHandshake, ServerState, BESIDE_AFTER_BYTES,
        BESIDE_AFTER_TURNS, LOOKS,
    };
    use crate::reason::Reason;

    const MARKED: PeerMark = PeerMark::Marked { cookie: 7, uid: 1000 };
    const TOKEN: [u8; 16] = [9; 16];

    fn accept_sent() -> ServerHandshake {
        let mut server = ServerHandshake::new();
        server.accept_sent(TOKEN, 1000);
        server
    }

    #[test]
    fn only_a_marked_client_and_an_unused_stream_get_an_accept() {
        let cases = [
            (Some(0), PeerMark::Unmarked, Reason::PEERNOSMC),
            (Some(0), PeerMark::Unknown(Reason::REMOTE), Reason::REMOTE),
            (Some(1), MARKED, Reason::OFFSET),
            (None, MARKED, Reason::OFFSET),
        ];
        for (written, peer, reason) in cases {
            let mut server = ServerHandshake::new();
            assert_eq!(server.first_send(|| peer, || written), FirstSend::Plain);
            assert_eq!(server.state(), ServerState::Plain(reason));
            assert_eq!(server.first_send(|| MARKED, || Some(0)), FirstSend::Plain, "for good");
        }
        let mut server = ServerHandshake::new();
        let wanted = FirstSend::SendAccept { client_cookie: 7, uid: 1000 };
        assert_eq!(server.first_send(|| MARKED, || Some(0)), wanted);
        server.accept_sent(TOKEN, 1000);
        assert_eq!(server.first_send(|| MARKED, || Some(0)), FirstSend::Plain, "once");
    }

    #[test]
    fn an_unmarked_client_costs_no_second_question() {
        let mut server = ServerHandshake::new();
        let unasked = || unreachable!("asked for the offset");
        assert_eq!(server.first_send(|| PeerMark::Unmarked, unasked), FirstSend::Plain);
    }

    #[test]
    fn a_server_that_only_reads_offers_an_accept_beside_the_stream() {
        let mut server = ServerHandshake::new();
        server.received(BESIDE_AFTER_BYTES - 1);
        assert!(!server.lives_long());
        server.received(1);
        assert!(server.lives_long());
        server.beside(MARKED);
        assert!(!server.lives_long(), "asked once");
        assert_eq!(server.state(), ServerState::Beside { client_cookie: 7, uid: 1000 });
        assert_eq!(server.first_send(|| MARKED, || Some(0)), FirstSend::Plain, "not in the stream");
        assert!(server.looks());
        server.accept_sent(TOKEN, 1000);
        assert_eq!(server.awaits(&TOKEN), Some(1000));
        assert!(!server.looks());
    }

    #[test]
    fn a_deferred_offer_comes_when_the_connection_lives_long() {
        let mut server = ServerHandshake::new();
        server.defer();
        assert_eq!(server.first_send(|| MARKED, || Some(0)), FirstSend::Plain);
        for turn in 0..BESIDE_AFTER_TURNS {
            assert!(!server.lives_long(), "turn {turn}");
            server.received(1);
            server.sent(1);
        }
        assert!(server.lives_long());
        let mut unmarked = server;
        unmarked.beside(PeerMark::Unmarked);
        assert_eq!(unmarked.state(), ServerState::Plain(Reason::PEERNOSMC));
        server.beside(MARKED);
        let looks = (0..LOOKS).filter(|_| server.looks()).count();
        assert_eq!(looks, 63 + LOOKS as usize / 64);
        assert!(!server.looks());
        assert_eq!(server.state(), ServerState::Plain(Reason::PEERNOSMC), "the client did not ask");
    }

    #[test]
    fn an_accept_that_was_sent_is_not_deferred() {
        let mut server = accept_sent();
        server.defer();
        server.received(BESIDE_AFTER_BYTES);
        assert!(!server.lives_long());
        assert_eq!(server.awaits(&TOKEN), Some(1000));
        assert!(!ServerHandshake::plain(Reason::MODE_OFF).lives_long());
    }

    #[test]
    fn a_confirm_needs_the_token_the_user_and_an_unshared_socket() {
        let mut server = accept_sent();
        let wrong = Confirmed::Decline(Reason::BAD_TOKEN);
        assert_eq!(server.confirm(&[8; 16], 1000, false), wrong);
        let other = Confirmed::Decline(Reason::PEER_UID);
        assert_eq!(server.confirm(&TOKEN, 1001, false), other);
        assert_eq!(server.confirm(&TOKEN, 1000, true), Confirmed::NotYet);
        assert_eq!(server.confirm(&TOKEN, 1000, false), Confirmed::Attach);
        assert_eq!(server.awaits(&TOKEN), Some(1000));
        server.attached_now();
        assert!(server.attached());
        assert_eq!(server.confirm(&TOKEN, 1000, false), wrong);
        assert_eq!(server.awaits(&TOKEN), None);
        assert_eq!(ServerHandshake::new().confirm(&[0; 16], 0, false), wrong);
    }

    #[test]
    fn a_cancelled_request_leaves_tcp() {
        let mut server = accept_sent();
        assert_eq!(server.confirm(&TOKEN, 1000, false), Confirmed::Attach);
        assert_eq!(server.stop(Reason::CANCELLED), Stop::Done);
        assert_eq!(server.reason(), Some(Reason::CANCELLED));
        let declined = Confirmed::Decline(Reason::CANCELLED);
        assert_eq!(server.confirm(&TOKEN, 1000, false), declined);
        server.attached_now();
        assert!(!server.attached());
    }

    #[test]
    fn stopping_an_attached_server_is_the_transports_work() {
        let mut server = accept_sent();
        server.attached_now();
        assert_eq!(server.stop(Reason::EXEC), Stop::Leave);
        assert!(server.attached());
        assert_eq!(server.reason(), None);
    }
}
