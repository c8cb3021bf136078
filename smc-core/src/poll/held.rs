//! The connections of a set that a thread waits for: who closes a number meanwhile ends the connection
//! only when the wait is over, as in the kernel.
use crate::conn::numbers::Pin;
use crate::conn::Ctx;
use crate::process::Process;
use libc::pollfd;

/// As many as a thread can note; of a large set the others end with their numbers.
const FEW: usize = 8;

/// The pins of a wait.
#[derive(Debug)]
pub(super) struct Held<'a> {
    pins: [Option<Pin<'a>>; FEW],
    taken: bool,
}

impl<'a> Held<'a> {
    pub(super) fn new() -> Self {
        Self { pins: [const { None }; FEW], taken: false }
    }

    /// Before the first sleep.
    pub(super) fn take(&mut self, process: &'a Process, fds: &[pollfd]) {
        if core::mem::replace(&mut self.taken, true) {
            return;
        }
        let ours = fds.iter().filter_map(|entry| Ctx::of(process, entry.fd));
        for (place, ctx) in self.pins.iter_mut().zip(ours) {
            *place = ctx.pin().ok();
        }
    }
}
