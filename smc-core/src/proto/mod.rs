//! The handshake and the change from TCP to the ring, as state machines without I/O.
//!
//! ```text
//! client: Virgin ── ACCEPT removed ──> Accepted ── pays ──> Requested ──> Attached
//! server: Idle ── ACCEPT sent ───────> AcceptSent ─────────────────────> Attached
//!
//! where the server expects short connections, or only reads, the ACCEPT comes beside the stream:
//! client: Virgin ── program's bytes ──> Late ── ACCEPT taken ──> Accepted
//! server: Idle ── defers ──> Deferred ── lives long ──> Beside ── ACCEPT handed over ──> AcceptSent
//!
//! either: ── anything that does not fit ──> Plain(reason): TCP for good
//!
//! then, each direction by itself:
//! sender: Tcp ── attached, the reader consents ──> Ring, from a recorded offset
//! reader: Tcp ── TCP up to the offset ──> Drain ──> Ring
//! ```
//!
//! All state is plain `Copy` data without pointers: it lies in memory that the processes of one
//! side share over `fork`, guarded by that side's locks; only the words of [`ConsentGate`] are not,
//! and it says how. Inputs are what the kernel says (questions that cost a system call are
//! functions, asked only where the answer matters), outputs are what the caller shall do; a machine
//! never assumes that it was done before it is told. So a process that dies between the two leaves
//! a state from which another goes on rightly.
#![forbid(unsafe_code)]

mod client;
mod consent;
mod server;
mod switch;
mod traffic;

pub use client::{
    Answer, AttachPolicy, Cancel, ClientHandshake, ClientSocket, ClientState, Rest, Stop, Verdict,
};
pub use consent::{ConsentGate, Wait};
pub use server::{Confirmed, FirstSend, PeerMark, ServerHandshake, ServerState};
pub use server::{BESIDE_AFTER_BYTES, BESIDE_AFTER_TURNS};
pub use switch::{ReadFrom, RxSwitch, TxSwitch};
