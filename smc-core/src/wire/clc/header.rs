//! What all messages begin and end with.
use super::ClcError;
use crate::wire::field::{Reader, Writer};

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;
/// Bytes of the trailer.
pub const TRAILER_LEN: usize = 4;

/// Which of the two kinds of SMC a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// RDMA, between hosts.
    R,
    /// Shared memory, within a host.
    D,
}

impl Mode {
    /// "SMCR" or "SMCD" in EBCDIC.
    pub const fn eyecatcher(self) -> [u8; 4] {
        match self {
            Self::R => [0xe2, 0xd4, 0xc3, 0xd9],
            Self::D => [0xe2, 0xd4, 0xc3, 0xc4],
        }
    }

    /// The mode bits of ACCEPT and CONFIRM.
    pub(super) const fn bits(self) -> u8 {
        match self {
            Self::R => 0,
            Self::D => 1,
        }
    }

    const fn of(eyecatcher: [u8; 4]) -> Option<Self> {
        match eyecatcher {
            [0xe2, 0xd4, 0xc3, 0xd9] => Some(Self::R),
            [0xe2, 0xd4, 0xc3, 0xc4] => Some(Self::D),
            _ => None,
        }
    }
}

/// The type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The client says what it can do.
    Proposal = 1,
    /// The server chooses.
    Accept = 2,
    /// The client agrees.
    Confirm = 3,
    /// Either end goes on with TCP.
    Decline = 4,
}

impl Kind {
    /// The type with this number.
    pub const fn of(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Proposal),
            2 => Some(Self::Accept),
            3 => Some(Self::Confirm),
            4 => Some(Self::Decline),
            _ => None,
        }
    }
}

/// The header, which tells how long a message is: what one needs before one can take it off a
/// stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// By the eyecatcher.
    pub mode: Mode,
    /// The type.
    pub kind: Kind,
    /// Bytes of the whole message, header and trailer included.
    pub length: u16,
    /// 1 or 2, or that of a later protocol.
    pub version: u8,
    /// The four bits beside the version; what they mean depends on the type.
    pub flags: u8,
}

impl Header {
    /// Reads the header at the front of `bytes`; the message itself may be incomplete.
    pub fn parse(bytes: &[u8]) -> Result<Self, ClcError> {
        let mut reader = Reader::new(bytes);
        let mode = Mode::of(reader.array()?).ok_or(ClcError::Eyecatcher)?;
        let number = reader.u8()?;
        let kind = Kind::of(number).ok_or(ClcError::Kind(number))?;
        let length = reader.be16()?;
        let last = reader.u8()?;
        if usize::from(length) < HEADER_LEN + TRAILER_LEN {
            return Err(ClcError::Length(length));
        }
        Ok(Self { mode, kind, length, version: last >> 4, flags: last & 0x0f })
    }

    /// Splits a message into header and body. Bytes beyond the message are not looked at; the
    /// trailer is checked.
    pub fn open(bytes: &[u8], kind: Kind) -> Result<(Self, &[u8]), ClcError> {
        let header = Self::parse(bytes)?;
        if header.kind != kind {
            return Err(ClcError::Kind(header.kind as u8));
        }
        let message = bytes.get(..usize::from(header.length)).ok_or(ClcError::Truncated)?;
        let (rest, trailer) =
            message.split_last_chunk::<TRAILER_LEN>().ok_or(ClcError::Truncated)?;
        if *trailer != header.mode.eyecatcher() {
            return Err(ClcError::Trailer);
        }
        Ok((header, rest.get(HEADER_LEN..).ok_or(ClcError::Truncated)?))
    }

    /// Writes a message whose body `put` fills in: it must put what `len` says.
    pub(super) fn frame(
        buffer: &mut [u8],
        mode: Mode,
        kind: Kind,
        len: usize,
        version: u8,
        flags: u8,
        put: impl FnOnce(&mut Writer<'_>) -> Result<(), ClcError>,
    ) -> Result<usize, ClcError> {
        let length = u16::try_from(len).map_err(|_| ClcError::NoRoom)?;
        let mut writer = Writer::new(buffer.get_mut(..len).ok_or(ClcError::NoRoom)?);
        writer.bytes(&mode.eyecatcher())?;
        writer.u8(kind as u8)?;
        writer.be16(length)?;
        writer.u8(version << 4 | flags & 0x0f)?;
        put(&mut writer)?;
        writer.bytes(&mode.eyecatcher())?;
        if writer.written() != len {
            return Err(ClcError::Length(length));
        }
        Ok(len)
    }
}
