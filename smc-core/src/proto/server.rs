//! The accepting end.
use super::Stop;
use crate::reason::Reason;

/// A server that has read so many bytes and sent nothing sends its ACCEPT alone.
pub const LONE_ACCEPT_AFTER: u64 = 64 * 1024;

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

/// What to put in front of the program's first bytes.
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
}

impl Default for ServerHandshake {
    fn default() -> Self {
        Self::new()
    }
}

impl ServerHandshake {
    /// A socket on which nothing was sent.
    pub const fn new() -> Self {
        Self { state: ServerState::Idle }
    }

    /// A socket that cannot become SMC.
    pub const fn plain(reason: Reason) -> Self {
        Self { state: ServerState::Plain(reason) }
    }

    /// The program sends, or [`Self::received`] asks for an ACCEPT alone.
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
        if self.state == ServerState::Idle {
            self.state = ServerState::AcceptSent { token, uid };
        }
    }

    /// Whether an ACCEPT should be sent alone: `total_bytes` were read and nothing was sent.
    pub const fn received(&self, total_bytes: u64) -> bool {
        matches!(self.state, ServerState::Idle) && total_bytes >= LONE_ACCEPT_AFTER
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
            ServerState::Idle | ServerState::AcceptSent { .. } => {
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
            ServerState::AcceptSent { .. } => Some(Reason::NOT_PAID),
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
    use super::{Confirmed, FirstSend, PeerMark, ServerHandshake, ServerState, LONE_ACCEPT_AFTER};
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
    fn a_server_that_only_reads_sends_an_accept_alone() {
        let server = ServerHandshake::new();
        assert!(!server.received(LONE_ACCEPT_AFTER - 1));
        assert!(server.received(LONE_ACCEPT_AFTER));
        assert!(!accept_sent().received(LONE_ACCEPT_AFTER));
        assert!(!ServerHandshake::plain(Reason::MODE_OFF).received(LONE_ACCEPT_AFTER));
    }

    #[test]
    fn a_confirm_needs_the_token_the_user_and_an_unshared_socket() {
        let mut server = accept_sent();
        let wrong = Confirmed::Decline(Reason::BAD_TOKEN);
        assert_eq!(server.confirm(&[8; 16], 1000, false), wrong);
        assert_eq!(server.confirm(&TOKEN, 1001, false), wrong);
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
