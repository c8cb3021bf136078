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
    #[inline(always)]
    pub(super) fn take<R: Receiver>(&mut self, receiver: &mut R) -> Result<(), RingError> {
        if self.flags & libc::MSG_TRUNC != 0 {
            let wanted = self.total - self.done;
            self.done += if self.peeks() {
                receiver.queued()?.min(wanted)
            } else {
                receiver.discard(wanted)?
            };
            return Ok(());
        }
        if self.done >= self.total {
            return Ok(());
        }
        if self.bufs.count() > 1 || self.peeks() {
            return self.take_many(receiver);
        }
        let Ok((base, len)) = self.bufs.part(0, self.done, self.total - self.done) else {
            return Err(RingError::Fault(Fault));
        };
        match receiver.take(output(base, len)) {
            Ok(n) => self.done += n,
            Err(_) if self.done > 0 => {}
            Err(error) => return Err(error),
        }
        self.skip = self.done;
        Ok(())
    }

    /// Into several buffers, or only to look: with a bad one among them nothing is taken, as the
    /// kernel leaves the packet where it is.
    fn take_many<R: Receiver>(&mut self, receiver: &mut R) -> Result<(), RingError> {
        let start = (self.done, self.buffer, self.skip);
        let mut copied = 0;
        while self.done < self.total {
            let part = self.bufs.part(self.buffer, self.skip, self.total - self.done);
            if let Ok((_, 0)) = part {
                self.buffer += 1;
                self.skip = 0;
                continue;
            }
            let behind = if self.peeks() { self.done } else { copied };
            let n = match part {
                Ok((base, len)) => receiver.peek(output(base, len), behind).map(|n| (n, n < len)),
                Err(_) => Err(RingError::Fault(Fault)),
            };
            match n {
                Ok((n, last)) => {
                    copied += n;
                    self.done += n;
                    self.skip += n;
                    if last {
                        break;
                    }
                }
                Err(error) => {
                    (self.done, self.buffer, self.skip) = start;
                    return if self.done > 0 { Ok(()) } else { Err(error) };
                }
            }
        }
        if copied > 0 && !self.peeks() {
            if let Err(violation) = receiver.discard(copied) {
                (self.done, self.buffer, self.skip) = start;
                return Err(violation.into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
