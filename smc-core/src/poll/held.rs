//! The connections of a set that a thread waits for: who closes a number meanwhile ends the connection
//! only when the wait is over, as in the kernel.
use crate::conn::numbers::Pin;
use crate::conn::Ctx;
use crate::process::Process;
use libc::pollfd;

/// Connections that need no memory from the heap.
const FEW: usize = 16;

/// The pins of a wait.
#[derive(Debug)]
pub(super) struct Held<'a> {
    few: [Option<Pin<'a>>; FEW],
    many: Vec<Pin<'a>>,
    taken: bool,
}

impl<'a> Held<'a> {
    pub(super) fn new() -> Self {
        Self { few: [const { None }; FEW], many: Vec::new(), taken: false }
    }

    /// Before the first sleep: holds every connection of the set.
    pub(super) fn take(&mut self, process: &'a Process, fds: &[pollfd]) {
        if core::mem::replace(&mut self.taken, true) {
            return;
        }
        let mut few = self.few.iter_mut();
        for entry in fds {
            let pin = Ctx::of(process, entry.fd).map(|ctx| ctx.pin());
            let Some(Ok(pin)) = pin else { continue };
            match few.next() {
                Some(place) => *place = Some(pin),
                None => self.many.push(pin),
            }
        }
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = Ctx<'a>> + '_ {
        self.few.iter().flatten().chain(&self.many).map(Pin::ctx)
    }
}
