//! Reads and writes of libc that no hook sees: its streams, where their functions cannot be ours, and
//! what it says on descriptor 2 by itself. A connection that such a call may meet is TCP's.
use crate::conn::Ctx;
use crate::process;
use crate::reason::Reason;
use crate::sync::{AtomicU32, Ordering};
use crate::sys::thread::Critical;
use libc::c_int;

/// Not 0: whatever libc reads and writes on the standard descriptors comes by our hooks. Relaxed:
/// set by the constructor, before there are other threads, or to say that less is known than was.
static SEEN: AtomicU32 = AtomicU32::new(0);

/// Says whether libc's streams call our hooks.
pub fn streams_are_seen(seen: bool) {
    SEEN.store(u32::from(seen), Ordering::Relaxed);
}

/// Whether a number is safe for a connection.
pub(super) fn is_seen(fd: c_int) -> bool {
    fd > libc::STDERR_FILENO || SEEN.load(Ordering::Relaxed) != 0
}

/// A socket has a number.
pub(super) fn has_number(ctx: &Ctx<'_>) {
    if !is_seen(ctx.fd) {
        ctx.needs_tcp_for_streams();
    }
}

/// A stream is made on a descriptor.
pub fn stream_opened(fd: c_int) {
    if SEEN.load(Ordering::Relaxed) == 0 {
        before_unseen(fd);
    }
}

/// libc is about to read or write by means that no hook sees.
pub fn before_unseen(fd: c_int) {
    let Some(process) = process::get() else { return };
    if let Some(ctx) = Ctx::of(process, fd) {
        let _critical = Critical::enter();
        ctx.leave(Reason::STDIO);
    }
}

/// From now on libc may write to descriptor 2 at any time by means that no hook sees.
pub fn unseen_from_now_on() {
    streams_are_seen(false);
    let Some(process) = process::get() else { return };
    for fd in libc::STDIN_FILENO..=libc::STDERR_FILENO {
        if let Some(ctx) = Ctx::of(process, fd) {
            let _critical = Critical::enter();
            has_number(&ctx);
        }
    }
}

/// A handler for SIGABRT is about to run: why, libc may have told on descriptor 2 just now.
pub fn before_abort() {
    let Some(process) = process::get() else { return };
    if let Some(ctx) = Ctx::of(process, libc::STDERR_FILENO) {
        let _critical = Critical::enter();
        ctx.sends_behind_what_tcp_has();
    }
}
