//! The ACCEPT that a server of this product puts in front of its first bytes to a marked client.
//!
//! ```text
//! 0   header            e2d4c3c4 02 0064 21      (SMC-D, ACCEPT, 100 bytes, version 2)
//! 8   client's cookie   be64
//! 16  server's cookie   be64
//! 24  GID[16]  token[16]
//! 56  rx code  tx code  0 0
//! 60  layout version    be32
//! 64  uid               be32
//! 68  zero[28]
//! 96  trailer           e2d4c3c4
//! ```
//!
//! The length is fixed and differs from that of every ACCEPT of the kernel. The cookie of the
//! client's socket comes first, since nobody but the kernel chooses it: data of a program that
//! happens to begin like a CLC message is told apart after a few bytes, and can never be taken for
//! an ACCEPT.
use super::{ClcError, Kind, Mode};
use crate::wire::field::{NoRoom, Reader, Writer};

/// Bytes of the message, always.
pub const ACCEPT_LEN: usize = 100;

/// Bytes from the front after which a matching [`prefix_for`] can only be an ACCEPT of ours: those
/// up to the end of the client's cookie.
pub const CERTAIN_LEN: usize = 16;

const LENGTH: u16 = 100;
const VERSION_AND_MODE: u8 = 0x21;
const HEADER: [u8; 8] = {
    let [a, b, c, d] = Mode::D.eyecatcher();
    let [high, low] = LENGTH.to_be_bytes();
    [a, b, c, d, Kind::Accept as u8, high, low, VERSION_AND_MODE]
};
const COOKIE_AT: usize = CERTAIN_LEN - 8;
const PAD_AT: usize = 58;
const PAD_LEN: usize = 2;
const ZERO_AT: usize = 68;
const ZERO_LEN: usize = 28;
const TRAILER_AT: usize = ACCEPT_LEN - 4;
const _: () = {
    assert!(LENGTH as usize == ACCEPT_LEN && ZERO_AT + ZERO_LEN == TRAILER_AT);
    assert!(COOKIE_AT == HEADER.len());
};

/// What the server tells the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoopbackAccept {
    /// Name of the server process's control socket.
    pub gid: [u8; 16],
    /// Known to the two ends of this connection only: the CONFIRM repeats it.
    pub token: [u8; 16],
    /// The kernel's cookie of the server's socket.
    pub server_cookie: u64,
    /// The kernel's cookie of the client's socket, as the server sees it.
    pub client_cookie: u64,
    /// Size code of the ring that the server reads: 16 KiB << code.
    pub rx_code: u8,
    /// Size code of the ring that the server fills.
    pub tx_code: u8,
    /// Version of the layout of the shared region.
    pub layout_version: u32,
    /// The user that the server runs as.
    pub uid: u32,
}

/// Whether the first bytes of a stream are an ACCEPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// They are not, whatever follows.
    No,
    /// They are as far as they go.
    Partial,
    /// They are, all of it.
    Whole,
}

impl LoopbackAccept {
    /// The message.
    pub fn emit(&self) -> [u8; ACCEPT_LEN] {
        let mut message = [0; ACCEPT_LEN];
        let written = self.put(&mut Writer::new(&mut message));
        debug_assert_eq!(written, Ok(()));
        message
    }

    /// Reads a message; every constant of the layout is checked.
    pub fn parse(message: &[u8; ACCEPT_LEN]) -> Result<Self, ClcError> {
        if let Some(defect) = defect(message) {
            return Err(defect);
        }
        let mut reader = Reader::new(message);
        reader.skip(HEADER.len())?;
        let client_cookie = reader.be64()?;
        let server_cookie = reader.be64()?;
        let gid = reader.array()?;
        let token = reader.array()?;
        let rx_code = reader.u8()?;
        let tx_code = reader.u8()?;
        reader.skip(PAD_LEN)?;
        let layout_version = reader.be32()?;
        let uid = reader.be32()?;
        Ok(Self { gid, token, server_cookie, client_cookie, rx_code, tx_code, layout_version, uid })
    }

    fn put(&self, writer: &mut Writer<'_>) -> Result<(), NoRoom> {
        writer.bytes(&HEADER)?;
        writer.be64(self.client_cookie)?;
        writer.be64(self.server_cookie)?;
        writer.bytes(&self.gid)?;
        writer.bytes(&self.token)?;
        writer.u8(self.rx_code)?;
        writer.u8(self.tx_code)?;
        writer.zeros::<PAD_LEN>()?;
        writer.be32(self.layout_version)?;
        writer.be32(self.uid)?;
        writer.zeros::<ZERO_LEN>()?;
        writer.bytes(&Mode::D.eyecatcher())
    }
}

/// Whether `bytes`, the first of a stream and of any number, can be or are an ACCEPT for the
/// socket with this cookie.
pub fn prefix_for(bytes: &[u8], client_cookie: u64) -> Prefix {
    match prefix(bytes) {
        Prefix::No => Prefix::No,
        found if agrees(bytes, COOKIE_AT, &client_cookie.to_be_bytes()) => found,
        _ => Prefix::No,
    }
}

/// Whether `bytes`, the first of a stream and of any number, can be or are an ACCEPT for any
/// socket.
pub fn prefix(bytes: &[u8]) -> Prefix {
    match defect(bytes) {
        Some(_) => Prefix::No,
        None if bytes.len() < ACCEPT_LEN => Prefix::Partial,
        None => Prefix::Whole,
    }
}

/// The first constant of the layout that the bytes contradict, as far as they go.
fn defect(bytes: &[u8]) -> Option<ClcError> {
    let found = |offset: usize| bytes.get(offset).copied().unwrap_or_default();
    let length = u16::from_be_bytes([found(5), found(6)]);
    let eyecatcher = Mode::D.eyecatcher();
    if !agrees(bytes, 0, &eyecatcher) {
        Some(ClcError::Eyecatcher)
    } else if !agrees(bytes, 4, &[Kind::Accept as u8]) {
        Some(ClcError::Kind(found(4)))
    } else if !agrees(bytes, 5, &LENGTH.to_be_bytes()) {
        Some(ClcError::Length(length))
    } else if !agrees(bytes, 7, &[VERSION_AND_MODE]) {
        Some(ClcError::Version(found(7) >> 4))
    } else if !agrees(bytes, PAD_AT, &[0; PAD_LEN]) || !agrees(bytes, ZERO_AT, &[0; ZERO_LEN]) {
        Some(ClcError::Reserved)
    } else if !agrees(bytes, TRAILER_AT, &eyecatcher) {
        Some(ClcError::Trailer)
    } else {
        None
    }
}

/// Whether the bytes from `offset` on, as many as there are, begin `constant`.
fn agrees(bytes: &[u8], offset: usize, constant: &[u8]) -> bool {
    let there = bytes.get(offset..).unwrap_or_default();
    there.iter().zip(constant).all(|(byte, wanted)| byte == wanted)
}

#[cfg(test)]
mod tests {
    use super::{prefix, prefix_for, LoopbackAccept, Prefix, ACCEPT_LEN};
    use crate::wire::clc::ClcError;

    const SAMPLE: LoopbackAccept = LoopbackAccept {
        gid: *b"0123456789abcdef",
        token: *b"fedcba9876543210",
        server_cookie: 0x0102_0304_0506_0708,
        client_cookie: 0x1112_1314_1516_1718,
        rx_code: 3,
        tx_code: 4,
        layout_version: 1,
        uid: 1000,
    };

    #[test]
    fn the_layout_is_fixed() {
        let message = SAMPLE.emit();
        assert_eq!(message[..8], [0xe2, 0xd4, 0xc3, 0xc4, 2, 0, 100, 0x21]);
        assert_eq!(message[8..16], SAMPLE.client_cookie.to_be_bytes());
        assert_eq!(message[16..24], SAMPLE.server_cookie.to_be_bytes());
        assert_eq!(message[24..40], SAMPLE.gid);
        assert_eq!(message[40..56], SAMPLE.token);
        assert_eq!(message[56..60], [3, 4, 0, 0]);
        assert_eq!(message[60..68], [0, 0, 0, 1, 0, 0, 3, 0xe8]);
        assert_eq!(message[68..96], [0; 28]);
        assert_eq!(message[96..], [0xe2, 0xd4, 0xc3, 0xc4]);
        assert_eq!(LoopbackAccept::parse(&message), Ok(SAMPLE));
    }

    #[test]
    fn each_prefix_is_partial_until_whole() {
        let mut stream = SAMPLE.emit().to_vec();
        stream.extend_from_slice(b"reply");
        for end in 0..stream.len() {
            let wanted = if end < ACCEPT_LEN { Prefix::Partial } else { Prefix::Whole };
            assert_eq!(prefix(&stream[..end]), wanted, "{end} bytes");
            assert_eq!(prefix_for(&stream[..end], SAMPLE.client_cookie), wanted, "{end} bytes");
        }
    }

    #[test]
    fn every_changed_constant_is_noticed_by_prefix_and_parse() {
        let good = SAMPLE.emit();
        let fixed = (0..8).chain(58..60).chain(68..100);
        for offset in fixed {
            let mut bad = good;
            bad[offset] ^= 0x10;
            assert_eq!(prefix(&bad[..offset]), Prefix::Partial, "before offset {offset}");
            assert_eq!(prefix(&bad[..=offset]), Prefix::No, "offset {offset}");
            assert!(LoopbackAccept::parse(&bad).is_err(), "offset {offset}");
        }
        let mut bad = good;
        bad[4] = 3;
        assert_eq!(LoopbackAccept::parse(&bad), Err(ClcError::Kind(3)));
        let mut bad = good;
        bad[6] = 78;
        assert_eq!(LoopbackAccept::parse(&bad), Err(ClcError::Length(78)));
        let mut bad = good;
        bad[99] = 0xd9;
        assert_eq!(LoopbackAccept::parse(&bad), Err(ClcError::Trailer));
    }

    #[test]
    fn another_sockets_cookie_is_noticed_at_its_first_wrong_byte() {
        let message = SAMPLE.emit();
        let other = SAMPLE.client_cookie ^ 0xff00;
        assert_eq!(prefix_for(&message[..14], other), Prefix::Partial);
        assert_eq!(prefix_for(&message[..15], other), Prefix::No);
        assert_eq!(prefix_for(&message, other), Prefix::No);
    }
}
