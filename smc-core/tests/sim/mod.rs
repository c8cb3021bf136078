//! A model of two ends, a TCP connection and a shared connection header, in which every event is
//! one atomic step: what `handshake_sim` explores.
mod aside;
mod one;
mod pipe;
mod step;

use smc_core::proto::{
    AttachPolicy, ClientHandshake, ClientState, ConsentGate, PeerMark, RxSwitch, ServerHandshake,
    ServerState, TxSwitch, Wait,
};
use smc_core::reason::Reason;
use smc_core::wire::clc::loopback::CERTAIN_LEN;

pub(crate) use aside::Aside;
pub(crate) use one::one;
pub(crate) use pipe::Pipe;

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;
pub(crate) const LAYOUT: u32 = 1;
pub(crate) const COOKIE: u64 = 0x0123_4567_89ab_cdef;
pub(crate) const UID: u32 = 1000;
pub(crate) const TOKEN: [u8; 16] = *b"a token of 16 by";

/// What a thread of a program does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// Sends so many bytes of the pattern.
    Send(usize),
    /// Sends these bytes.
    SendBytes(&'static [u8]),
    /// Sends behind the library's back.
    RawSend(usize),
    /// Receives so many bytes, in as many calls as it takes.
    Recv(usize),
    /// Waits for data or the end, and leaves it there.
    Poll,
    /// Receives the end, and nothing before it.
    RecvEnd,
    /// Ends its sending direction.
    Shutdown,
}

/// When the server looks at its control channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answering {
    /// At any moment.
    AnyTime,
    /// On the calls of its program only.
    OnCalls,
    Never,
}

/// Whether several processes hold a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shared {
    No,
    /// Until all but one close it, at any moment.
    AtFirst,
    Always,
}

/// What a scenario sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Setup {
    pub policy: AttachPolicy,
    /// What the server learns of the client.
    pub peer: PeerMark,
    /// The server expects a short connection.
    pub defers: bool,
    /// Either end runs without the library.
    pub bare: [bool; 2],
    /// The waits of the program can be seen.
    pub waits_seen: [bool; 2],
    /// Whether several processes hold the server's socket.
    pub shared: Shared,
    pub answering: Answering,
    /// The layout that the server has.
    pub server_layout: u32,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            policy: AttachPolicy { after_bytes: Some(0), ..AttachPolicy::default() },
            peer: PeerMark::Marked { cookie: COOKIE, uid: UID },
            defers: false,
            bare: [false; 2],
            waits_seen: [true; 2],
            shared: Shared::No,
            answering: Answering::AnyTime,
            server_layout: LAYOUT,
        }
    }
}

/// State of the connection in the shared header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Slot {
    Free,
    Requested([u8; 16]),
    Attached,
    Declined(Reason),
    Cancelled,
}

/// The shared header and the rings; index: who sends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Header {
    pub state: Slot,
    pub consent: [bool; 2],
    pub switched: [Option<u64>; 2],
    pub ring: [Vec<u8>; 2],
}

/// What the threads of one end share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Side {
    pub tx: TxSwitch,
    pub rx: RxSwitch,
    pub gate: ConsentGate,
    pub sent: Vec<u8>,
    pub received: Vec<u8>,
    pub ring_sent: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Run,
    /// Has raised its side's consent and will see whether that stands.
    Settling,
    /// Has entered the gate and will ask how to wait, for more than so many bytes.
    Entering(usize),
    /// Sleeps; woken when more than so many bytes have arrived.
    Waiting(Wait, usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Thread {
    pub script: Vec<(usize, Step)>,
    pub at: usize,
    pub got: usize,
    pub phase: Phase,
}

/// Something that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A thread takes a step, or wakes.
    Thread(usize),
    /// So many bytes arrive (and the end behind the last).
    Deliver(usize, usize),
    /// The server reads a request and decides.
    Confirm,
    /// The server attaches, unless the client was faster.
    Commit,
    /// Other processes close the server's socket.
    Unshare,
    /// The client has waited long for the rest of what may be an ACCEPT.
    GiveUp,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub setup: Setup,
    pub client: ClientHandshake,
    pub server: ServerHandshake,
    pub sides: [Side; 2],
    /// Index: who sends.
    pub pipes: [Pipe; 2],
    pub header: Header,
    pub aside: Aside,
    pub threads: Vec<Thread>,
    pub deciding: bool,
    /// Several processes hold the server's socket.
    pub shared: bool,
    /// The server has looked at the request in vain.
    pub put_off: bool,
    pub given_up: bool,
}

impl World {
    /// Two connected ends; each script is a thread, its steps name the end.
    pub(crate) fn new(setup: Setup, scripts: Vec<Vec<(usize, Step)>>) -> Self {
        let side = Side {
            tx: TxSwitch::Tcp,
            rx: RxSwitch::Tcp,
            gate: ConsentGate::default(),
            sent: Vec::new(),
            received: Vec::new(),
            ring_sent: 0,
        };
        let threads =
            scripts.into_iter().map(|script| Thread { script, at: 0, got: 0, phase: Phase::Run });
        let off = Reason::MODE_OFF;
        Self {
            setup,
            client: if setup.bare[CLIENT] {
                ClientHandshake::plain(off)
            } else {
                ClientHandshake::new(LAYOUT)
            },
            server: if setup.bare[SERVER] {
                ServerHandshake::plain(off)
            } else {
                ServerHandshake::new()
            },
            sides: [side.clone(), side],
            pipes: [Pipe::default(), Pipe::default()],
            header: Header {
                state: Slot::Free,
                consent: [false; 2],
                switched: [None; 2],
                ring: [Vec::new(), Vec::new()],
            },
            aside: Aside::Closed,
            threads: threads.collect(),
            deciding: false,
            shared: setup.shared != Shared::No,
            put_off: false,
            given_up: false,
        }
    }

    /// Threads by what they do: one for each end.
    pub(crate) fn two(setup: Setup, client: &[Step], server: &[Step]) -> Self {
        let script = |who, steps: &[Step]| steps.iter().map(|step| (who, *step)).collect();
        Self::new(setup, vec![script(CLIENT, client), script(SERVER, server)])
    }

    /// All that can happen now; arrivals of all that is on its way, and of half of it unless that
    /// is bulk.
    pub(crate) fn enabled(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (index, thread) in self.threads.iter().enumerate() {
            if self.runnable(thread) {
                events.push(Event::Thread(index));
            }
        }
        for (dir, pipe) in self.pipes.iter().enumerate() {
            if pipe.can_deliver() {
                let all = pipe.in_flight.len();
                events.push(Event::Deliver(dir, all));
                if (2..1000).contains(&all) {
                    events.push(Event::Deliver(dir, all.div_ceil(2)));
                }
            }
        }
        if self.setup.answering == Answering::AnyTime {
            if matches!(self.header.state, Slot::Requested(_)) && !self.deciding && !self.put_off {
                events.push(Event::Confirm);
            }
            if self.deciding {
                events.push(Event::Commit);
            }
        }
        if self.shared && self.setup.shared == Shared::AtFirst {
            events.push(Event::Unshare);
        }
        let pipe = &self.pipes[SERVER];
        if self.client.state() == ClientState::Virgin
            && !self.given_up
            && (1..CERTAIN_LEN).contains(&pipe.arrived.len())
            && !pipe.can_deliver()
        {
            events.push(Event::GiveUp);
        }
        events
    }

    /// Whether every thread has come to its end.
    pub(crate) fn finished(&self) -> bool {
        self.threads.iter().all(|thread| thread.at == thread.script.len())
    }

    /// Whether this end has the ring.
    pub(crate) fn attached(&self, who: usize) -> bool {
        if who == CLIENT {
            self.client.attached()
        } else {
            self.server.attached()
        }
    }

    /// What must hold in every state.
    pub(crate) fn check(&self) -> Result<(), String> {
        for who in [CLIENT, SERVER] {
            let sent = &self.sides[1 - who].sent;
            let received = &self.sides[who].received;
            if !sent.starts_with(received) {
                return Err(format!("end {who} received {received:02x?} of {sent:02x?}"));
            }
        }
        for thread in &self.threads {
            let Some((who, _)) = thread.script.get(thread.at) else { continue };
            let switched = self.header.switched[1 - who].is_some();
            if switched && matches!(thread.phase, Phase::Waiting(Wait::Kernel, _)) {
                return Err(format!("end {who} sleeps on TCP though its peer has switched"));
            }
        }
        for dir in [CLIENT, SERVER] {
            let consent = self.header.consent[dir];
            if self.header.switched[dir].is_some() && !consent {
                return Err(format!("end {dir} switched without consent"));
            }
            if consent && !self.attached(1 - dir) {
                return Err(format!("end {} consented without a ring", 1 - dir));
            }
        }
        if self.server.attached() && self.header.state != Slot::Attached {
            return Err("the server attached what was not asked for".into());
        }
        Ok(())
    }

    /// What must hold when nothing can happen any more.
    pub(crate) fn check_end(&self) -> Result<(), String> {
        if !self.finished() {
            return Err("a thread waits for ever".into());
        }
        for who in [CLIENT, SERVER] {
            if self.sides[who].received != self.sides[1 - who].sent {
                return Err(format!("end {who} did not receive everything"));
            }
        }
        if self.client.attached() && !self.server.attached() {
            return Err("the ends disagree".into());
        }
        Ok(())
    }

    fn runnable(&self, thread: &Thread) -> bool {
        let Some((who, _)) = thread.script.get(thread.at) else { return false };
        let Phase::Waiting(wait, seen) = thread.phase else { return true };
        let pipe = &self.pipes[1 - who];
        let tcp = pipe.arrived.len() > seen || pipe.fin_arrived;
        let drained = self.header.switched[1 - who].is_some_and(|offset| pipe.read >= offset);
        let ring = drained && !self.header.ring[1 - who].is_empty();
        let gave_up = *who == CLIENT
            && self.given_up
            && self.client.state() == ClientState::Virgin
            && (1..CERTAIN_LEN).contains(&pipe.arrived.len());
        tcp || (wait == Wait::RingAware && ring) || gave_up
    }
}

/// Whether the server may still put an ACCEPT in front.
pub(crate) fn idle(server: &ServerHandshake) -> bool {
    server.state() == ServerState::Idle
}
