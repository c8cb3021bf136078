//! An ACCEPT beside the stream: to a client that only sends, which would not find it in the stream,
//! and on a connection that was expected to be short.
use smc_core::proto::ServerState;
use smc_core::wire::clc::loopback::LoopbackAccept;

use super::{World, TOKEN};

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Aside {
    /// Nobody listens, so nobody can ask.
    Closed,
    /// The server listens.
    Listening,
    /// The client has asked.
    Asked,
    /// The server has answered.
    Handed(LoopbackAccept),
    /// The client has taken the answer.
    Taken,
}

impl World {
    /// The client looks: asks if somebody listens, and at a later look takes the answer.
    pub(super) fn look_aside(&mut self) {
        match self.aside {
            Aside::Listening => self.aside = Aside::Asked,
            Aside::Handed(accept) => {
                self.aside = Aside::Taken;
                self.client.removed(accept);
            }
            Aside::Closed | Aside::Asked | Aside::Taken => {}
        }
    }

    /// The client waits for the answer.
    pub(super) fn aside_is_pending(&self) -> bool {
        matches!(self.aside, Aside::Asked | Aside::Handed(_))
    }

    /// The server: listens once the connection lives long, and answers.
    pub(super) fn offer_aside(&mut self) {
        if self.server.lives_long() {
            self.server.beside(self.setup.peer);
        }
        let ServerState::Beside { client_cookie, uid } = self.server.state() else { return };
        match self.aside {
            Aside::Closed => self.aside = Aside::Listening,
            Aside::Asked => {
                self.aside = Aside::Handed(self.accept(client_cookie));
                self.server.accept_sent(TOKEN, uid);
            }
            Aside::Listening | Aside::Handed(_) | Aside::Taken => {}
        }
    }
}
