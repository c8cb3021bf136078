//! The accepting end.
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
    /// There is no answer: no sock_diag, no such socket, another host.
    Unknown,
}

/// Where a server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerState {
    /// Nothing has been sent.
    Idle,
    /// The ACCEPT was sent, or as much of it as is said here.
    AcceptSent {
        /// The token in it.
        token: [u8; 16],
        /// The client's user, whose process may confirm.
        uid: u32,
        /// Bytes of it that the kernel took: the rest goes before anything else.
        written: usize,
    },
    /// The ring is there.
    Attached,
    /// TCP for good.
    Plain(Reason),
}

/// What to put in front of the program's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstSend {
    /// An ACCEPT for the socket with this cookie, in the same call; then call
    /// [`ServerHandshake::accept_sent`].
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

    /// The program sends, or [`Self::received`] asks for an ACCEPT alone; `written_offset` bytes
    /// of the stream were written before. In any state but [`ServerState::Idle`] the answer is
    /// [`FirstSend::Plain`].
    pub fn first_send(&mut self, written_offset: u64, peer: PeerMark) -> FirstSend {
        if self.state != ServerState::Idle {
            return FirstSend::Plain;
        }
        let reason = match peer {
            _ if written_offset != 0 => Reason::OFFSET,
            PeerMark::Marked { cookie, uid } => {
                return FirstSend::SendAccept { client_cookie: cookie, uid };
            }
            PeerMark::Unmarked => Reason::PEERNOSMC,
            PeerMark::Unknown => Reason::NO_DIAG,
        };
        self.state = ServerState::Plain(reason);
        FirstSend::Plain
    }

    /// The kernel took the first `written` bytes of the ACCEPT (at most its length); 0 changes
    /// nothing.
    pub fn accept_sent(&mut self, token: [u8; 16], uid: u32, written: usize) {
        if self.state == ServerState::Idle && written != 0 {
            self.state = ServerState::AcceptSent { token, uid, written };
        } else if let ServerState::AcceptSent { written: before, .. } = &mut self.state {
            *before = before.saturating_add(written);
        }
    }

    /// Whether an ACCEPT should be sent alone: `total_bytes` were read and nothing was sent.
    pub const fn received(&self, total_bytes: u64) -> bool {
        matches!(self.state, ServerState::Idle) && total_bytes >= LONE_ACCEPT_AFTER
    }

    /// A client that knows `token` asks to attach. `shared`: several processes of this side hold
    /// the socket.
    ///
    /// A wrong token changes nothing: whoever guesses must not be able to disturb a connection.
    pub fn confirm(&mut self, token: &[u8; 16], shared: bool) -> Confirmed {
        match self.state {
            ServerState::AcceptSent { token: mine, .. } if same(&mine, token) => {
                if shared {
                    self.state = ServerState::Plain(Reason::SHARED_FORK);
                    Confirmed::Decline(Reason::SHARED_FORK)
                } else {
                    Confirmed::Attach
                }
            }
            ServerState::Plain(reason) => Confirmed::Decline(reason),
            _ => Confirmed::Decline(Reason::BAD_TOKEN),
        }
    }

    /// The ring was attached.
    pub fn attached_now(&mut self) {
        if matches!(self.state, ServerState::AcceptSent { .. }) {
            self.state = ServerState::Attached;
        }
    }

    /// The connection shall not become SMC, for example since the client cancelled. Returns
    /// whether it is SMC already, so that the transport must leave the ring.
    pub fn stop(&mut self, reason: Reason) -> bool {
        match self.state {
            ServerState::Attached => true,
            ServerState::Plain(_) => false,
            ServerState::Idle | ServerState::AcceptSent { .. } => {
                self.state = ServerState::Plain(reason);
                false
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
            ServerState::Idle | ServerState::AcceptSent { .. } => Some(Reason::NOT_PAID),
        }
    }
}

/// Compares without telling by its time how much of a guess is right.
fn same(a: &[u8; 16], b: &[u8; 16]) -> bool {
    a.iter().zip(b).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::{Confirmed, FirstSend, PeerMark, ServerHandshake, ServerState, LONE_ACCEPT_AFTER};
    use crate::reason::Reason;

    const MARKED: PeerMark = PeerMark::Marked { cookie: 7, uid: 1000 };
    const TOKEN: [u8; 16] = [9; 16];

    fn accept_sent() -> ServerHandshake {
        let mut server = ServerHandshake::new();
        server.accept_sent(TOKEN, 1000, 100);
        server
    }

    #[test]
    fn only_a_marked_client_and_an_unused_stream_get_an_accept() {
        let cases = [
            (0, PeerMark::Unmarked, Reason::PEERNOSMC),
            (0, PeerMark::Unknown, Reason::NO_DIAG),
            (1, MARKED, Reason::OFFSET),
        ];
        for (written, peer, reason) in cases {
            let mut server = ServerHandshake::new();
            assert_eq!(server.first_send(written, peer), FirstSend::Plain);
            assert_eq!(server.state(), ServerState::Plain(reason));
            assert_eq!(server.first_send(0, MARKED), FirstSend::Plain, "for good");
        }
        let mut server = ServerHandshake::new();
        let wanted = FirstSend::SendAccept { client_cookie: 7, uid: 1000 };
        assert_eq!(server.first_send(0, MARKED), wanted);
        // The kernel took nothing: it is asked again.
        server.accept_sent(TOKEN, 1000, 0);
        assert_eq!(server.first_send(0, MARKED), wanted);
        server.accept_sent(TOKEN, 1000, 100);
        assert_eq!(server.first_send(0, MARKED), FirstSend::Plain);
    }

    #[test]
    fn an_accept_written_in_part_is_remembered() {
        let mut server = ServerHandshake::new();
        server.accept_sent(TOKEN, 5, 60);
        assert_eq!(server.state(), ServerState::AcceptSent { token: TOKEN, uid: 5, written: 60 });
        server.accept_sent(TOKEN, 5, 40);
        assert_eq!(server.state(), ServerState::AcceptSent { token: TOKEN, uid: 5, written: 100 });
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
    fn a_confirm_needs_the_token_and_an_unshared_socket() {
        let mut server = accept_sent();
        assert_eq!(server.confirm(&[8; 16], false), Confirmed::Decline(Reason::BAD_TOKEN));
        assert_eq!(server.confirm(&TOKEN, false), Confirmed::Attach);
        server.attached_now();
        assert!(server.attached());
        assert_eq!(server.confirm(&TOKEN, false), Confirmed::Decline(Reason::BAD_TOKEN));

        let mut server = accept_sent();
        assert_eq!(server.confirm(&TOKEN, true), Confirmed::Decline(Reason::SHARED_FORK));
        assert_eq!(server.confirm(&TOKEN, false), Confirmed::Decline(Reason::SHARED_FORK));
        let mut idle = ServerHandshake::new();
        assert_eq!(idle.confirm(&[0; 16], false), Confirmed::Decline(Reason::BAD_TOKEN));
    }

    #[test]
    fn a_cancelled_request_leaves_tcp() {
        let mut server = accept_sent();
        assert_eq!(server.confirm(&TOKEN, false), Confirmed::Attach);
        assert!(!server.stop(Reason::CANCELLED));
        assert_eq!(server.reason(), Some(Reason::CANCELLED));
        server.attached_now();
        assert!(!server.attached());
    }

    #[test]
    fn stopping_an_attached_server_is_the_transports_work() {
        let mut server = accept_sent();
        server.attached_now();
        assert!(server.stop(Reason::EXEC));
        assert!(server.attached());
        assert_eq!(server.reason(), None);
    }
}
