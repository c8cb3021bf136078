//! `sendfile` into a ring: the kernel reads the file straight into the peer's memory.
use super::feed::{Fed, Put, Waits};
use super::switch::Inside;
use super::wait::Woken;
use super::Ctx;
use crate::arena::{phase, MODE_RING};
use crate::errno::{Errno, Ret};
use crate::ring::Piece;
use crate::sync::Ordering;
use crate::sys::iov::{fetch, store};
use crate::sys::raw;
use crate::transport::Sender;
use libc::c_int;

/// Most bytes that one call moves (`MAX_RW_COUNT`).
const COUNT_MAX: usize = 0x7fff_f000;

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
    let count = count.min(COUNT_MAX);
    let own_offset = !offset.is_null();
    // With an offset the first read says the same.
    let mut looked = !own_offset || count == 0;
    let here = if looked { place_in(input, own_offset)? } else { 0 };
    let start = if own_offset { fetch(offset)? } else { here as i64 };
    let Ok(mut at) = u64::try_from(start) else { return Err(Errno::INVAL) };
    let mut done = 0;
    let mut waits = Waits::new(ctx, false);
    let failed = loop {
        if done == count {
            break None;
        }
        let (moved, fed) = step(ctx, input, at, count - done);
        done += moved;
        at += moved as u64;
        match fed {
            Fed::All if moved == 0 => break None,
            Fed::All => {}
            Fed::Kernel if done == 0 => return Ok(ctx.sent_tcp_counted(real())),
            Fed::Kernel => break None,
            Fed::Failed(errno) => break Some(errno),
            Fed::Full(_) if !looked && done == 0 => {
                place_in(input, own_offset)?;
                looked = true;
            }
            Fed::Full(full) => match waits.wait(full) {
                Ok(Woken::Restart) if done > 0 => break Some(Errno::INTR),
                Ok(_) => {}
                Err(errno) => break Some(errno),
            },
        }
    };
    if let (0, Some(errno)) = (done, failed) {
        return Err(errno);
    }
    if done > 0 {
        ctx.sent_ring(done);
    }
    if own_offset {
        store(offset, &(at as i64))?;
    } else {
        raw::lseek(input, at as i64, libc::SEEK_SET)?;
    }
    Ok(done.cast_signed())
}

/// Where the source stands: the kernel wants one that it can seek in.
fn place_in(input: c_int, own_offset: bool) -> Result<usize, Errno> {
    match raw::lseek(input, 0, libc::SEEK_CUR) {
        Err(Errno(libc::ESPIPE)) if !own_offset => Err(Errno::INVAL),
        other => other,
    }
}

/// Reads as much of the file as fits into the ring; how much. Nothing: the file has ended.
fn step(ctx: &Ctx<'_>, input: c_int, at: u64, want: usize) -> (usize, Fed) {
    let want = want.min(ctx.process.config.autosplit_size as usize);
    let read =
        |piece: Piece, skip: usize| raw::pread(input, piece.ptr, piece.len, at + skip as u64);
    match ctx.feed() {
        Ok(mut feeding) => {
            let (moved, put) = load(&mut feeding.sender(), want, read);
            (moved, feeding.end(moved, put))
        }
        Err(fed) => (0, fed),
    }
}

/// Lets `read` fill memory of the peer's, and publishes what it read. It gets a piece and how many
/// bytes it has read before. Nothing of all: the source has ended.
pub(super) fn load<S: Sender>(
    sender: &mut S,
    want: usize,
    mut read: impl FnMut(Piece, usize) -> Result<usize, Errno>,
) -> (usize, Put) {
    let Ok(pieces) = sender.reserve(want) else { return (0, Put::Violation) };
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
        return (moved, Put::All);
    }
    match failed {
        Some(errno) => (0, Put::Failed(errno)),
        None if pieces[0].len == 0 => (0, Put::Part),
        None => (0, Put::All),
    }
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
