//! An ACCEPT beside the stream: to a client that only sends, which would not find it in the stream.
use smc_core::proto::FirstSend;
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

    /// The server has read much and sent nothing.
    pub(super) fn offer_aside(&mut self) {
        let written = self.pipes[super::SERVER].written;
        let first = self.server.first_send(|| self.setup.peer, || Some(written));
        let FirstSend::SendAccept { client_cookie, uid } = first else { return };
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
