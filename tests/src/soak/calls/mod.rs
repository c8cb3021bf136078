//! The calls that move bytes, by turns.

mod look;
mod recv;
mod send;

pub use look::Look;
pub use recv::{recv_by, Taken};
pub use send::send_by;

/// What the state of a connection allows.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// MSG_DONTWAIT or none.
    pub flags: i32,
    /// A call may end with a part, or with EAGAIN or EINTR: not by stdio, which loses count.
    pub patient: bool,
    /// `splice` may read: it would stay before urgent data.
    pub splices: bool,
    /// More is sent after this.
    pub more: bool,
}

/// A number from another, as different from its neighbours' as can be.
pub fn mix(of: u64) -> u64 {
    let mut z = of.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One of several.
fn pick<T: Copy>(way: u64, from: &[&[T]]) -> T {
    let count: usize = from.iter().map(|part| part.len()).sum();
    let at = usize::try_from(way % count as u64).unwrap();
    from.iter().copied().flatten().copied().nth(at).unwrap()
}
