//! What the bytes of a stream are: a function of their offset, cheap to write and to check.

use std::sync::OnceLock;

/// A prime, so that no power of two repeats the pattern.
const PERIOD: usize = 65_521;

fn table() -> &'static [u8] {
    static TABLE: OnceLock<Vec<u8>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let next = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        (0..PERIOD).map(next).collect()
    })
}

/// The pieces of the table that cover `len` bytes from `offset`.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = &'static [u8]> {
    let mut at = usize::try_from(offset % PERIOD as u64).unwrap_or(0);
    let mut left = len;
    std::iter::from_fn(move || {
        let take = left.min(PERIOD - at);
        let piece = &table()[at..at + take];
        at = 0;
        left -= take;
        (take > 0).then_some(piece)
    })
}

/// Writes the stream's bytes from `offset` on.
pub fn fill(out: &mut [u8], offset: u64) {
    let mut at = 0;
    for piece in pieces(offset, out.len()) {
        out[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
}

/// The stream's `len` bytes from `offset` on.
pub fn stream(offset: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    fill(&mut out, offset);
    out
}

/// Whether these are the stream's bytes from `offset` on.
pub fn check(data: &[u8], offset: u64) -> bool {
    let mut at = 0;
    pieces(offset, data.len()).all(|piece| {
        let same = data[at..at + piece.len()] == *piece;
        at += piece.len();
        same
    })
}
