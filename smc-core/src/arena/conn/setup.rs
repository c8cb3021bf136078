//! The handshake's state, and how the lock-free words of a record mirror it.
use super::{phase, Conn, SetupGuard};
use crate::proto::{
    ClientHandshake, ClientState, RxSwitch, ServerHandshake, ServerState, Stop, TxSwitch,
};
use crate::reason::Reason;
use crate::shm::layout::VERSION;
use crate::sync::Ordering;

/// What a socket has turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Role {
    Fresh,
    Listener,
    Client,
    Server,
}

/// What the handshake has agreed on so far.
///
/// The two machines lie side by side, not over each other: a process that is killed while it
/// writes here leaves old and new values mixed, each of which is one of its type.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Setup {
    role: Role,
    /// The handshake of a socket that connects.
    pub client: ClientHandshake,
    /// The handshake of a socket that was accepted.
    pub server: ServerHandshake,
    /// Calls at which the control channel might have been looked at.
    pub looks: u32,
}

impl Setup {
    pub(super) const fn new() -> Self {
        Self {
            role: Role::Fresh,
            client: ClientHandshake::new(VERSION),
            server: ServerHandshake::new(),
            looks: 0,
        }
    }

    /// The socket listens.
    pub fn listens(&mut self) {
        self.role = Role::Listener;
    }

    /// The socket connects; `plain`: why it cannot become SMC.
    pub fn connects(&mut self, plain: Option<Reason>) {
        if let Some(reason) = plain {
            self.client = ClientHandshake::plain(reason);
        }
        self.role = Role::Client;
    }

    /// The socket was accepted, or came connected from somewhere else.
    pub fn is_accepted(&mut self) {
        self.role = Role::Server;
    }

    /// A server's socket that was passed on has arrived at somebody who knows it. Whether its stream has
    /// begun meanwhile is looked at before the first send.
    pub fn arrives(&mut self) {
        let passed = matches!(self.server.state(), ServerState::Plain(Reason::PASSED));
        if self.role == Role::Server && passed {
            self.server = ServerHandshake::new();
        }
    }

    /// The connection shall not become SMC, or no longer be.
    pub fn stop(&mut self, reason: Reason) -> Stop {
        match self.role {
            Role::Fresh | Role::Listener => Stop::Done,
            Role::Client => self.client.stop(reason),
            Role::Server => self.server.stop(reason),
        }
    }

    fn phase(&self) -> u32 {
        match (self.role, self.client.state(), self.server.state()) {
            (Role::Fresh, ..) => phase::FRESH,
            (Role::Listener, ..) => phase::LISTENER,
            (Role::Client, ClientState::Virgin, _) => phase::VIRGIN,
            (Role::Client, ClientState::Late, _) => phase::LATE,
            (Role::Client, ClientState::Accepted(_), _) => phase::ACCEPTED,
            (Role::Client, ClientState::Requested(_), _) => phase::REQUESTED,
            (Role::Client, ClientState::Attached, _) => phase::ATTACHED,
            (Role::Client, ClientState::Plain(_), _) => phase::PLAIN,
            (Role::Server, _, ServerState::Idle) => phase::IDLE,
            (Role::Server, _, ServerState::Deferred | ServerState::Beside { .. }) => phase::DEFERRED,
            (Role::Server, _, ServerState::AcceptSent { .. }) => phase::OFFERED,
            (Role::Server, _, ServerState::Attached) => phase::ATTACHED,
            (Role::Server, _, ServerState::Plain(_)) => phase::PLAIN,
        }
    }

    fn reason(&self) -> Option<Reason> {
        match self.role {
            Role::Fresh | Role::Listener => None,
            Role::Client => self.client.reason(),
            Role::Server => self.server.reason(),
        }
    }
}

/// The one place where [`Conn::phase`] is set: whenever the machines were locked, before they are
/// free again.
impl Drop for SetupGuard<'_> {
    fn drop(&mut self) {
        let (phase, reason) = (self.phase(), self.reason());
        let conn = self.conn;
        // Relaxed: only the holder of the lock stores it.
        if conn.phase.load(Ordering::Relaxed) == phase::ATTACHED && phase == phase::ATTACHED {
            // The reason may be that of a fault since.
            return;
        }
        conn.reason.store(reason.map_or(0, |reason| reason.0), Ordering::Relaxed);
        // Release: pairs with the Acquire in `phase`.
        conn.phase.store(phase, Ordering::Release);
    }
}

impl Conn {
    /// The phase: what the machines said when they were last free.
    #[inline(always)]
    pub fn phase(&self) -> u32 {
        // Acquire: pairs with the Release of the guard's drop.
        self.phase.load(Ordering::Acquire)
    }
}

/// [`Conn::tx_mode`] of a sender.
pub(super) const fn tx_mode(switch: TxSwitch) -> u32 {
    if switch.in_ring() {
        super::MODE_RING
    } else {
        super::MODE_TCP
    }
}

/// [`Conn::rx_mode`] of a reader that has consented.
pub(super) const fn rx_mode(switch: RxSwitch) -> u32 {
    match switch {
        RxSwitch::Tcp => super::MODE_HYBRID,
        RxSwitch::Drain { .. } => super::MODE_DRAIN,
        RxSwitch::Ring => super::MODE_RING,
    }
}
