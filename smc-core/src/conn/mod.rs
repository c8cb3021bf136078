//! One connection: what each call does, from the kernel's TCP to the ring.
//!
//! ```text
//! mark        what shows that a client's process can take an ACCEPT
//! establish   the handshake's machines: until both ends share a slot of a link group
//! client      the connecting end: ACCEPT comes in, CONFIRM goes out
//! server      the accepting end: ACCEPT goes out, CONFIRM comes in
//! forecast    whether accepted connections live long enough for an ACCEPT in front
//! switch      from TCP to the ring, each direction by itself
//! tx, rx      sending and receiving, on TCP and through the ring
//! feed        the ring's part of a send, and the waits for room
//! file, pipe  sendfile and splice
//! spin        looking again before a sleep, where it pays
//! wait        sleeping, timeouts, EINTR
//! ready       what poll says of it
//! copies      on TCP, of what the peer has not read in the ring
//! holders     which processes hold it
//! numbers     under which descriptors, and which calls outlive them
//! demote      back to TCP in mid-stream
//! close       shutdown, close, what a peer's end means
//! opts        options and ioctls that the program must see as it left them
//! needs       options that only the kernel's TCP can honour
//! ```
mod client;
mod cork;
pub(crate) mod close;
mod copies;
pub(crate) mod demote;
mod establish;
mod feed;
pub(crate) mod file;
pub(crate) mod forecast;
pub(crate) mod holders;
mod mark;
pub(crate) mod needs;
pub(crate) mod numbers;
pub(crate) mod opts;
pub(crate) mod owed;
pub(crate) mod pipe;
pub(crate) mod ready;
pub(crate) mod rx;
mod server;
pub(crate) mod spin;
pub(crate) mod switch;
pub(crate) mod tx;
pub(crate) mod wait;

use crate::arena::Conn;
use crate::process::Process;
use crate::shm::layout::{ConnHeader, Line};
use crate::sync::Ordering;
use crate::transport::loopback::Group;
use libc::c_int;

/// A connection in the context of a call on one of its descriptors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ctx<'a> {
    pub(crate) process: &'a Process,
    pub(crate) index: u32,
    pub(crate) conn: &'a Conn,
    pub(crate) fd: c_int,
}

impl<'a> Ctx<'a> {
    /// The connection of a descriptor, if it is one.
    #[inline(always)]
    pub(crate) fn of(process: &'a Process, fd: c_int) -> Option<Self> {
        let (index, conn) = process.conn_of(fd)?;
        Some(Self { process, index, conn, fd })
    }

    /// The header of the connection's slot in its link group, once it has one.
    #[inline(always)]
    pub(crate) fn header(&self) -> Option<&'a ConnHeader> {
        Some(self.group()?.header(self.conn.slot.load(Ordering::Relaxed) as usize))
    }

    /// What this side publishes, and what the peer does.
    #[inline(always)]
    pub(crate) fn lines(&self) -> Option<(&'a Line, &'a Line)> {
        Some(self.group()?.lines(self.conn))
    }

    /// The link group, once attached.
    #[inline(always)]
    pub(crate) fn group(&self) -> Option<&'a Group> {
        self.process.device.groups.get(self.conn.group.load(Ordering::Acquire) as usize)
    }
}
