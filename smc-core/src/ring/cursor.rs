//! Arithmetic of positions.
//!
//! A position counts the bytes since the ring's start and never goes back; its low bits are the
//! offset in the ring. Positions may pass 2^64, where they continue at 0 (skipped laps make that
//! thinkable): they are only ever compared by their distance from another.
#![forbid(unsafe_code)]

use super::Violation;

/// The part of a ring from which on a producer that finds the ring empty starts a new lap.
const RESTART: u64 = 1024;

/// Bytes from position `from` to position `to`.
#[inline(always)]
pub(super) const fn distance(from: u64, to: u64) -> u64 {
    to.wrapping_sub(from)
}

/// Splits `len` bytes from `pos` on into at most two pieces of a ring of `size` bytes, a power of
/// two: (offset, length) up to the ring's end, and (0, rest). `len` is cut to `size`.
#[inline(always)]
pub fn span(pos: u64, len: usize, size: usize) -> [(usize, usize); 2] {
    let offset = pos as usize & (size - 1);
    let len = if len < size { len } else { size };
    let first = if len < size - offset { len } else { size - offset };
    [(offset, first), (0, len - first)]
}

/// Checks a position that the producer published; the consumer stands at `own_cons`.
#[inline(always)]
pub fn validate_peer_prod(
    own_cons: u64,
    known_prod: u64,
    new_prod: u64,
    size: usize,
) -> Result<u64, Violation> {
    let ahead = distance(own_cons, new_prod);
    if ahead <= size as u64 && ahead >= distance(own_cons, known_prod) {
        Ok(new_prod)
    } else {
        Err(Violation::prod())
    }
}

/// Checks a position that the consumer published; the producer stands at `own_prod`.
#[inline(always)]
pub fn validate_peer_cons(own_prod: u64, known_cons: u64, new_cons: u64) -> Result<u64, Violation> {
    if distance(known_cons, new_cons) <= distance(known_cons, own_prod) {
        Ok(new_cons)
    } else {
        Err(Violation::cons())
    }
}

/// Whether a consumer that stands at `own_cons` with nothing left must go on at `base`.
///
/// A base that it has passed long since is none; neither is one that no producer would set, which
/// then fails as a position of the producer.
#[inline(always)]
pub fn skips(own_cons: u64, base: u64, prod: u64, size: usize) -> bool {
    let skipped = distance(own_cons, base);
    skipped != 0
        && skipped < size as u64
        && skipped <= distance(own_cons, prod)
        && base & (size as u64 - 1) == 0
}

/// The start of the next lap.
#[inline(always)]
pub const fn next_lap(pos: u64, size: usize) -> u64 {
    (pos | (size as u64 - 1)).wrapping_add(1)
}

/// The offset from which on an empty ring is started afresh: 1 KiB, less in tiny rings. With
/// messages of no more than that, a connection touches 2 KiB of each ring.
#[inline(always)]
pub const fn restart_offset(size: usize) -> u64 {
    let eighth = size as u64 >> 3;
    if eighth < RESTART {
        eighth
    } else {
        RESTART
    }
}

/// A quarter of the ring: the measure of window thrift, and of a producer's patience.
#[inline(always)]
pub const fn quarter(size: usize) -> u64 {
    size as u64 >> 2
}
