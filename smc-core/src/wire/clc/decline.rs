//! DECLINE: one end goes on with TCP.
//!
//! ```text
//! header | peer_id[8] reason(4) os:4 rsv:28 | version 2: four more reasons(4) | trailer
//! ```
use super::{ClcError, Header, Kind, Mode, HEADER_LEN, TRAILER_LEN};
use crate::reason::Reason;
use crate::wire::field::{Reader, Writer};

/// Linux, as the operating system of a message.
pub const OS_LINUX: u8 = 2;

const V1_LEN: usize = HEADER_LEN + 16 + TRAILER_LEN;
const V2_LEN: usize = V1_LEN + 16;
/// The peer must end the link group.
const OUT_OF_SYNC: u8 = 0x8;

/// A DECLINE message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decline {
    /// By the eyecatcher.
    pub mode: Mode,
    /// The ends disagree about the link group: the receiver must end it.
    pub out_of_sync: bool,
    /// Who declines.
    pub peer_id: [u8; 8],
    /// Why.
    pub reason: Reason,
    /// The operating system, 4 bits.
    pub os: u8,
    /// Version 2 has room for further reasons.
    pub more: Option<[Reason; 4]>,
}

impl Decline {
    /// Bytes of the message.
    #[expect(clippy::len_without_is_empty, reason = "a message is never empty")]
    pub const fn len(&self) -> usize {
        if self.more.is_some() {
            V2_LEN
        } else {
            V1_LEN
        }
    }

    /// Reads a message at the front of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ClcError> {
        let (header, body) = Header::open(bytes, Kind::Decline)?;
        let wanted = match header.version {
            1 => V1_LEN,
            2 => V2_LEN,
            other => return Err(ClcError::Version(other)),
        };
        if usize::from(header.length) != wanted {
            return Err(ClcError::Length(header.length));
        }
        let mut reader = Reader::new(body);
        let peer_id = reader.array()?;
        let reason = Reason(reader.be32()?);
        let os = reader.u8()? >> 4;
        reader.skip(3)?;
        let more = if header.version == 1 {
            None
        } else {
            let mut more = [Reason(0); 4];
            for reason in &mut more {
                *reason = Reason(reader.be32()?);
            }
            Some(more)
        };
        let out_of_sync = header.flags & OUT_OF_SYNC != 0;
        Ok(Self { mode: header.mode, out_of_sync, peer_id, reason, os, more })
    }

    /// Writes the message to the front of `buffer`; returns its length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, ClcError> {
        if self.os > 0xf {
            return Err(ClcError::Value);
        }
        let (version, flags) = (
            if self.more.is_some() { 2 } else { 1 },
            if self.out_of_sync { OUT_OF_SYNC } else { 0 },
        );
        Header::frame(buffer, self.mode, Kind::Decline, self.len(), version, flags, |writer| {
            self.put(writer)
        })
    }

    fn put(&self, writer: &mut Writer<'_>) -> Result<(), ClcError> {
        writer.bytes(&self.peer_id)?;
        writer.be32(self.reason.0)?;
        writer.u8(self.os << 4)?;
        writer.zeros::<3>()?;
        for reason in self.more.iter().flatten() {
            writer.be32(reason.0)?;
        }
        Ok(())
    }
}
