//! The copy from a transport into the program's buffers.
use crate::errno::Errno;
use crate::ring::RingError;
use crate::sys::copy::Fault;
use crate::sys::iov::{output, Bufs};
use crate::transport::Receiver;
use libc::c_int;

/// What a receiving call is to fill, and how far it has.
pub(super) struct Fill<'c> {
    pub(super) bufs: &'c Bufs,
    pub(super) flags: c_int,
    pub(super) total: usize,
    pub(super) done: usize,
    pub(super) buffer: usize,
    pub(super) skip: usize,
}

impl<'c> Fill<'c> {
    #[inline(always)]
    pub(super) fn new(bufs: &'c Bufs, flags: c_int, total: usize) -> Self {
        Self { bufs, flags, total, done: 0, buffer: 0, skip: 0 }
    }

    /// How a call ends that cannot go on: with what it took, if it took any.
    pub(super) fn or(&self, errno: Errno) -> Result<isize, Errno> {
        match self.done {
            0 => Err(errno),
            done => Ok(done.cast_signed()),
        }
    }

    pub(super) fn restart(&mut self) {
        self.done = 0;
        self.buffer = 0;
        self.skip = 0;
    }

    #[inline(always)]
    pub(super) fn peeks(&self) -> bool {
        self.flags & libc::MSG_PEEK != 0
    }

    /// Fills the program's buffers from the ring, as far as either goes.
    #[inline]
    pub(super) fn take<R: Receiver>(&mut self, receiver: &mut R) -> Result<(), RingError> {
        if self.flags & libc::MSG_TRUNC != 0 {
            let wanted = self.total - self.done;
            self.done += if self.peeks() {
                receiver.ready()?.min(wanted)
            } else {
                receiver.discard(wanted)?
            };
            return Ok(());
        }
        while self.done < self.total {
            let Ok((base, len)) = self.bufs.part(self.buffer, self.skip, self.total - self.done)
            else {
                return Err(RingError::Fault(Fault));
            };
            if len == 0 {
                self.buffer += 1;
                self.skip = 0;
                continue;
            }
            let n = if self.peeks() {
                receiver.peek(output(base, len), self.done)
            } else {
                receiver.take(output(base, len))
            };
            let n = match n {
                Ok(n) => n,
                Err(_) if self.done > 0 => return Ok(()),
                Err(error) => return Err(error),
            };
            self.done += n;
            self.skip += n;
            if n < len {
                return Ok(());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
