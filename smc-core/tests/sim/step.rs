//! What happens at an event: the part that the socket layer has, with the machines' decisions.
use smc_core::proto::{
    Answer, Cancel, ClientSocket, ClientState, Confirmed, FirstSend, ReadFrom, Rest, RxSwitch,
    Verdict, Wait,
};
use smc_core::reason::Reason;
use smc_core::wire::clc::loopback::LoopbackAccept;

use super::{idle, Answering, Event, Phase, Slot, Step, World, CLIENT, SERVER, TOKEN, UID};

/// What one attempt to read came to.
enum Got {
    Bytes(Vec<u8>),
    Readable,
    End,
    /// Nothing; woken when more than so many bytes have arrived.
    Nothing(usize),
}

impl World {
    pub(crate) fn apply(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Thread(index) => self.run(index),
            Event::Deliver(dir, count) => {
                self.pipes[dir].deliver(count);
                Ok(())
            }
            Event::Confirm => {
                self.confirm();
                Ok(())
            }
            Event::Commit => {
                self.commit();
                Ok(())
            }
            Event::Unshare => {
                (self.shared, self.put_off) = (false, false);
                Ok(())
            }
            Event::GiveUp => {
                self.given_up = true;
                Ok(())
            }
        }
    }

    fn run(&mut self, index: usize) -> Result<(), String> {
        let (who, step) = self.threads[index].script[self.threads[index].at];
        match self.threads[index].phase {
            Phase::Run => {
                if self.call(who) {
                    self.threads[index].phase = Phase::Settling;
                    return Ok(());
                }
            }
            Phase::Settling => {
                self.settle(who);
                self.threads[index].phase = Phase::Run;
            }
            Phase::Entering(seen) => {
                let gate = &mut self.sides[who].gate;
                let wait = gate.wait();
                if wait == Wait::RingAware {
                    gate.inside -= 1;
                }
                self.threads[index].phase = Phase::Waiting(wait, seen);
                return Ok(());
            }
            Phase::Waiting(wait, _) => {
                if wait == Wait::Kernel {
                    self.sides[who].gate.inside -= 1;
                }
                self.threads[index].phase = Phase::Run;
                return Ok(());
            }
        }
        let done = match step {
            Step::Send(count) => {
                let start = self.sides[who].sent.len();
                let bytes: Vec<u8> = (start..start + count).map(|at| pattern(who, at)).collect();
                self.send(who, &bytes);
                true
            }
            Step::SendBytes(bytes) => {
                self.send(who, bytes);
                true
            }
            Step::RawSend(count) => {
                let start = self.sides[who].sent.len();
                let bytes: Vec<u8> = (start..start + count).map(|at| pattern(who, at)).collect();
                self.sides[who].sent.extend_from_slice(&bytes);
                self.pipes[who].write(&bytes);
                true
            }
            Step::Shutdown => {
                self.pipes[who].fin_sent = true;
                true
            }
            Step::Recv(_) | Step::Poll | Step::RecvEnd => return self.run_read(index, who, step),
        };
        if done {
            self.next(index);
        }
        Ok(())
    }

    fn run_read(&mut self, index: usize, who: usize, step: Step) -> Result<(), String> {
        let wanted = match step {
            Step::Recv(total) => total - self.threads[index].got,
            _ => 0,
        };
        match (self.read(who, wanted)?, step) {
            (Got::Bytes(bytes), Step::Recv(total)) => {
                self.threads[index].got += bytes.len();
                self.took(who, &bytes);
                if self.threads[index].got == total {
                    self.next(index);
                }
            }
            (Got::Readable | Got::End, Step::Poll) | (Got::End, Step::RecvEnd) => self.next(index),
            (Got::Nothing(seen), _) => {
                self.sides[who].gate.inside += 1;
                self.threads[index].phase = Phase::Entering(seen);
            }
            (Got::End, _) => return Err(format!("end {who} saw the stream end too early")),
            (Got::Readable | Got::Bytes(_), _) => {
                return Err(format!("end {who} found data where the stream should end"));
            }
        }
        Ok(())
    }

    /// What every call on a connection begins with; true: it has raised its side's consent.
    fn call(&mut self, who: usize) -> bool {
        if who == SERVER {
            self.offer_aside();
        }
        if who == SERVER && self.setup.answering == Answering::OnCalls {
            if matches!(self.header.state, Slot::Requested(_)) {
                self.confirm();
            }
            if self.deciding {
                self.commit();
            }
        }
        if who == CLIENT {
            self.client_call();
        }
        let gate = self.sides[who].gate;
        let raises = gate.may_raise(self.attached(who), self.setup.waits_seen[who]);
        self.sides[who].gate.raised |= raises;
        raises
    }

    fn settle(&mut self, who: usize) {
        let gate = &mut self.sides[who].gate;
        if gate.stands() {
            self.header.consent[1 - who] = true;
        } else {
            gate.raised = false;
        }
    }

    fn client_call(&mut self) {
        if self.client.asks() || self.aside_is_pending() {
            self.look_aside();
        }
        match (self.client.state(), self.header.state) {
            (ClientState::Accepted(_), _) => {
                if let Some(accept) = self.client.pays(&self.setup.policy) {
                    self.client.requested();
                    self.header.state = Slot::Requested(accept.token);
                }
            }
            (ClientState::Requested(_), Slot::Attached) => {
                self.client.answered(Answer::Attached);
            }
            (ClientState::Requested(_), Slot::Declined(reason)) => {
                self.client.answered(Answer::Declined(reason));
            }
            (ClientState::Requested(_), Slot::Requested(_))
                if self.client.waited(&self.setup.policy) == Some(Cancel) =>
            {
                self.header.state = Slot::Cancelled;
                self.client.answered(Answer::Cancelled);
            }
            _ => {}
        }
    }

    fn confirm(&mut self) {
        let Slot::Requested(token) = self.header.state else { return };
        match self.server.confirm(&token, UID, self.shared) {
            Confirmed::Attach => self.deciding = true,
            Confirmed::NotYet => self.put_off = true,
            Confirmed::Decline(reason) => self.header.state = Slot::Declined(reason),
        }
    }

    fn commit(&mut self) {
        self.deciding = false;
        if matches!(self.header.state, Slot::Requested(_)) {
            self.header.state = Slot::Attached;
            self.server.attached_now();
        } else {
            self.server.stop(Reason::CANCELLED);
        }
    }

    fn send(&mut self, who: usize, bytes: &[u8]) {
        let side = &mut self.sides[who];
        side.sent.extend_from_slice(bytes);
        if who == CLIENT {
            self.client.sent(bytes.len() as u64);
        } else {
            self.server.sent(bytes.len() as u64);
        }
        let (attached, consents) = (self.attached(who), self.header.consent[who]);
        let own_waits_seen = self.header.consent[1 - who];
        let side = &mut self.sides[who];
        if side.tx.may_switch(attached, consents, own_waits_seen) {
            let offset = self.pipes[who].written;
            self.header.switched[who] = Some(offset);
            side.tx.switched(offset);
        }
        if side.tx.in_ring() {
            side.ring_sent += bytes.len();
            self.header.ring[who].extend_from_slice(bytes);
        } else if who == SERVER {
            self.server_send(bytes);
        } else {
            self.pipes[who].write(bytes);
        }
    }

    /// The server's bytes, behind its ACCEPT if that is due.
    fn server_send(&mut self, bytes: &[u8]) {
        let mut message = Vec::new();
        if self.setup.defers {
            self.server.defer();
        }
        if idle(&self.server) {
            let written = self.pipes[SERVER].written;
            if let FirstSend::SendAccept { client_cookie, uid } =
                self.server.first_send(|| self.setup.peer, || Some(written))
            {
                message.extend_from_slice(&self.accept(client_cookie).emit());
                self.server.accept_sent(TOKEN, uid);
            }
        }
        message.extend_from_slice(bytes);
        self.pipes[SERVER].write(&message);
    }

    pub(super) fn accept(&self, client_cookie: u64) -> LoopbackAccept {
        LoopbackAccept {
            gid: [0x67; 16],
            token: TOKEN,
            server_cookie: 1,
            client_cookie,
            rx_code: 3,
            tx_code: 3,
            layout_version: self.setup.server_layout,
            uid: 0,
        }
    }

    /// Takes an ACCEPT off the client's stream; `Some` if more must come before anything can be
    /// delivered.
    fn head(&mut self, who: usize) -> Option<Got> {
        if who == SERVER || self.client.state() != ClientState::Virgin {
            return None;
        }
        let pipe = &mut self.pipes[SERVER];
        let rest = match (pipe.fin_arrived, self.given_up) {
            (true, _) => Rest::Ended,
            (false, true) => Rest::GivenUp,
            (false, false) => Rest::MayCome,
        };
        let socket = || Some(ClientSocket { read: pipe.read, cookie: super::COOKIE });
        match self.client.first_bytes(&pipe.arrived, rest, socket) {
            Verdict::NotYet => return Some(Got::Nothing(pipe.arrived.len())),
            Verdict::Remove(count, accept) => {
                pipe.take(count);
                self.client.removed(accept);
            }
            Verdict::Discard(count) => {
                pipe.take(count);
            }
            Verdict::Deliver => {}
        }
        None
    }

    /// One attempt to read at most `wanted` bytes; 0 asks whether there are any.
    fn read(&mut self, who: usize, wanted: usize) -> Result<Got, String> {
        let dir = 1 - who;
        if let Some(nothing) = self.head(who) {
            return Ok(nothing);
        }
        let (rx, pipe) = (&mut self.sides[who].rx, &self.pipes[dir]);
        let counts = match rx {
            RxSwitch::Tcp => true,
            RxSwitch::Drain { .. } => pipe.arrived.is_empty(),
            RxSwitch::Ring => false,
        };
        if let Some(offset) = self.header.switched[dir].filter(|_| counts) {
            rx.on_peer_switched(offset, pipe.read)
                .map_err(|reason| format!("end {who}: {reason}"))?;
        }
        let (from, pipe) = (self.sides[who].rx.where_to_read(), &mut self.pipes[dir]);
        let ring = &mut self.header.ring[dir];
        if from == ReadFrom::Ring && !ring.is_empty() {
            let count = wanted.min(ring.len());
            let bytes = ring.drain(..count).collect();
            return Ok(if wanted == 0 { Got::Readable } else { Got::Bytes(bytes) });
        }
        let limit = match from {
            ReadFrom::Tcp { at_most: Some(limit) } => usize::try_from(limit).unwrap(),
            ReadFrom::Tcp { at_most: None } | ReadFrom::Ring => usize::MAX,
        };
        if !pipe.arrived.is_empty() {
            if wanted == 0 {
                return Ok(Got::Readable);
            }
            let bytes = pipe.take(wanted.min(limit).min(pipe.arrived.len()));
            self.sides[who].rx.took(bytes.len() as u64);
            return Ok(Got::Bytes(bytes));
        }
        Ok(if pipe.fin_arrived { Got::End } else { Got::Nothing(0) })
    }

    fn took(&mut self, who: usize, bytes: &[u8]) {
        let side = &mut self.sides[who];
        side.received.extend_from_slice(bytes);
        if who == CLIENT {
            self.client.received(bytes.len() as u64);
        } else {
            self.server.received(bytes.len() as u64);
        }
    }

    fn next(&mut self, index: usize) {
        self.threads[index].at += 1;
        self.threads[index].got = 0;
    }
}

/// Bytes that tell both end and place.
fn pattern(who: usize, at: usize) -> u8 {
    (at % 127) as u8 + who as u8 * 128
}
