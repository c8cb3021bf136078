//! The receiving call that finds in the ring what it wants, or need not wait long for it.
use crate::arena::{flag, MODE_RING};
use crate::conn::spin::Spin;
use crate::conn::Ctx;
use crate::sync::Ordering;
use crate::transport::loopback::LoopbackRx;
use crate::transport::{Link, Receiver};
use libc::c_int;

pub(super) static SPIN: Spin = Spin::new();

/// What a call came to that takes what is in the ring, or comes soon.
pub(super) enum Soon {
    Got(isize),
    /// Nothing was done, or there is more to do than that.
    Not { looked: bool },
}

/// Takes what the ring holds, or comes while a call that may wait looks there.
#[inline(always)]
pub(super) fn soon(
    ctx: &Ctx<'_>,
    total: usize,
    flags: c_int,
    mut take: impl FnMut(&mut LoopbackRx<'_>) -> Option<usize>,
) -> Soon {
    match at_once(ctx, total, &mut take) {
        Ok(got) => return Soon::Got(got),
        Err(Some(pos)) if flags & libc::MSG_DONTWAIT == 0 && ctx.conn.has(flag::BLOCKS) => {
            if !comes_soon(ctx, pos) {
                return Soon::Not { looked: true };
            }
        }
        Err(_) => return Soon::Not { looked: false },
    }
    match at_once(ctx, total, &mut take) {
        Ok(got) => Soon::Got(got),
        Err(_) => Soon::Not { looked: false },
    }
}

/// Looks for a while whether the ring is filled beyond `pos`.
#[inline(never)]
fn comes_soon(ctx: &Ctx<'_>, pos: u64) -> bool {
    ctx.link().is_some_and(|link| {
        SPIN.run(ctx.process, || link.filled() != pos || link.peer().closed)
    })
}

/// Takes what the ring holds, if that is all that there is to do. Otherwise nothing was done; where
/// there is not enough in the ring, up to where the program has read it.
#[inline(always)]
fn at_once(
    ctx: &Ctx<'_>,
    total: usize,
    take: &mut impl FnMut(&mut LoopbackRx<'_>) -> Option<usize>,
) -> Result<isize, Option<u64>> {
    let conn = ctx.conn;
    let Some(link) = ctx.link() else { return Err(None) };
    let peer = link.peer();
    if peer.wants_tcp() | peer.copying | conn.has(flag::RX_TCP) | (total == 0) {
        return Err(None);
    }
    let mut rx = conn.lock_rx();
    if !ctx.is_current() || conn.rx_mode.load(Ordering::Acquire) != MODE_RING || rx.error != 0 {
        return Err(None);
    }
    let low = conn.low_water.load(Ordering::Relaxed) as usize;
    let mut receiver = link.receiver(&mut rx);
    let there = receiver.ready().map_err(|_| None)?;
    if there < low.min(total) {
        return Err(Some(receiver.pos()));
    }
    let got = take(&mut receiver).ok_or(None)?;
    receiver.done();
    conn.count_rx(&rx, got);
    drop(rx);
    ctx.process.page().smc_rx.add(got as u64);
    Ok(got.cast_signed())
}
