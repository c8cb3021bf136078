//! `sendfile` into a ring: the kernel reads the file straight into the peer's memory.
use super::switch::Inside;
use super::tx::Way;
use super::wait::{Deadline, Woken};
use super::Ctx;
use crate::arena::MODE_RING;
use crate::errno::{Errno, Ret};
use crate::reason::Reason;
use crate::ring::{Piece, Violation};
use crate::sync::Ordering;
use crate::sys::iov::{fetch, store};
use crate::sys::raw;
use crate::transport::{Link, Sender};
use libc::c_int;

/// Most bytes that one call moves (`MAX_RW_COUNT`).
const COUNT_MAX: usize = 0x7fff_f000;

enum Step {
    Moved(usize),
    End,
    Full,
    Kernel,
    Failed(Errno),
}

/// `sendfile` to a socket of ours.
pub(crate) fn sendfile(
    ctx: &Ctx<'_>,
    input: c_int,
    offset: *mut i64,
    count: usize,
    real: impl FnOnce() -> isize,
) -> Ret {
    if let Some(inside) = ctx.file_over_tcp() {
        let sent = real();
        drop(inside);
        return Ok(ctx.sent_tcp_counted(sent));
    }
    // The kernel wants a source that it can seek in.
    let here = match raw::lseek(input, 0, libc::SEEK_CUR) {
        Ok(here) => here,
        Err(Errno(libc::ESPIPE)) if offset.is_null() => return Err(Errno::INVAL),
        Err(errno) => return Err(errno),
    };
    let count = count.min(COUNT_MAX);
    let own_offset = !offset.is_null();
    let start = if own_offset { fetch(offset)? } else { here as i64 };
    let Ok(mut at) = u64::try_from(start) else { return Err(Errno::INVAL) };
    let mut done = 0;
    let mut deadline = None;
    let mut pin = None;
    let failed = loop {
        if done == count {
            break None;
        }
        match step(ctx, input, at, count - done) {
            Step::Moved(n) => {
                done += n;
                at += n as u64;
            }
            Step::End => break None,
            Step::Kernel if done == 0 => return Ok(ctx.sent_tcp_counted(real())),
            Step::Kernel => break None,
            Step::Failed(errno) => break Some(errno),
            Step::Full => {
                if ctx.block_tx() {
                    continue;
                }
                if raw::is_nonblocking(ctx.fd()) {
                    break Some(Errno::AGAIN);
                }
                if pin.is_none() {
                    pin = Some(ctx.pin()?);
                }
                let deadline =
                    *deadline.get_or_insert_with(|| Deadline::of_socket(ctx.fd(), libc::SO_SNDTIMEO));
                match ctx.sleep_for_room(deadline) {
                    Ok(Woken::Restart) if done > 0 => break Some(Errno::INTR),
                    Ok(Woken::Look | Woken::Restart) => {}
                    Ok(Woken::Timeout) => break Some(Errno::AGAIN),
                    Err(errno) => break Some(errno),
                }
            }
        }
    };
    if let (0, Some(errno)) = (done, failed) {
        return Err(errno);
    }
    if own_offset {
        store(offset, &(at as i64))?;
    } else {
        raw::lseek(input, at as i64, libc::SEEK_SET)?;
    }
    Ok(done.cast_signed())
}

/// Reads as much of the file as fits into the ring.
fn step(ctx: &Ctx<'_>, input: c_int, at: u64, want: usize) -> Step {
    let conn = ctx.conn;
    if !ctx.see_leave() {
        return Step::Full;
    }
    let mut tx = conn.lock_tx();
    let link = match ctx.way(&tx) {
        Way::Ring(link) => link,
        Way::Owes(_) => return Step::Full,
        Way::Kernel => return Step::Kernel,
    };
    let segment = ctx.process.config.autosplit_size as usize;
    let read =
        |piece: Piece, skip: usize| raw::pread(input, piece.ptr, piece.len, at + skip as u64);
    let loaded = load(&mut link.sender(&mut tx), want.min(segment), read);
    drop(tx);
    ctx.see_leave();
    match loaded {
        Ok(step) => {
            if let Step::Moved(moved) = step {
                conn.tx_ring_bytes.fetch_add(moved as u64, Ordering::Relaxed);
                if let Some(page) = ctx.process.page() {
                    page.smc_tx.add(moved as u64);
                }
            }
            step
        }
        Err(_) => {
            ctx.fault(Reason::PROTOCOL);
            Step::Kernel
        }
    }
}

/// Lets `read` fill memory of the peer's, and publishes what it read. It gets a piece and how many
/// bytes it has read before.
fn load<S: Sender>(
    sender: &mut S,
    want: usize,
    mut read: impl FnMut(Piece, usize) -> Result<usize, Errno>,
) -> Result<Step, Violation> {
    let pieces = sender.reserve(want)?;
    let mut moved = 0;
    let mut failed = None;
    for piece in pieces {
        if piece.len == 0 {
            continue;
        }
        match read(piece, moved) {
            Ok(n) => {
                moved += n;
                if n < piece.len {
                    break;
                }
            }
            Err(errno) => {
                failed = Some(errno);
                break;
            }
        }
    }
    if moved > 0 {
        sender.filled(moved);
        return Ok(Step::Moved(moved));
    }
    Ok(match failed {
        Some(errno) => Step::Failed(errno),
        None if pieces[0].len == 0 => Step::Full,
        None => Step::End,
    })
}

impl Ctx<'_> {
    /// Whether the kernel is to move the file over TCP. The first bytes of a server have the ACCEPT
    /// in front; any of a client may switch.
    pub(super) fn file_over_tcp(&self) -> Option<Inside<'_>> {
        if self.conn.tx_mode.load(Ordering::Acquire) == MODE_RING {
            return None;
        }
        self.before_file();
        if self.switch_tx() {
            return None;
        }
        let inside = Inside::enter(&self.conn.tx_inside);
        (self.conn.tx_mode.load(Ordering::Acquire) != MODE_RING).then_some(inside)
    }

    /// Before the kernel moves a file over TCP: the handshake's part of a send.
    fn before_file(&self) {
        use crate::arena::phase;
        if self.conn.phase() == phase::IDLE {
            self.offer(libc::MSG_MORE);
        } else {
            self.progress();
        }
    }

    pub(super) fn sent_tcp_counted(&self, sent: isize) -> isize {
        if let Ok(bytes) = usize::try_from(sent) {
            self.traffic(bytes, false);
        }
        self.sent_tcp(sent)
    }
}

#[cfg(test)]
mod tests;
