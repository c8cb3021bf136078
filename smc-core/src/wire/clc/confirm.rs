//! CONFIRM: the client agrees to what the server chose.
//!
//! The body is that of ACCEPT; one that opens a link group of SMC-R version 2 ends with a list of
//! the client's GIDs: `count(1) rsv[3] gid[16]…`.
use super::choice::{Choice, Transport, Version};
use super::{ClcError, Header, Kind, List, HEADER_LEN, TRAILER_LEN};
use crate::wire::field::{Reader, Writer};

/// GIDs that a CONFIRM can hold.
pub const MAX_GIDS: usize = 8;

const GID_LEN: usize = 16;
const COUNT_LEN: usize = 4;

/// A CONFIRM message as the kernel's SMC exchanges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// The client's part of what the server chose.
    pub choice: Choice,
    /// GIDs of the client's other RoCE ports; empty unless a link group of SMC-R version 2 opens.
    pub gids: List<[u8; GID_LEN], MAX_GIDS>,
}

impl Confirm {
    /// Bytes of the message.
    #[expect(clippy::len_without_is_empty, reason = "a message is never empty")]
    pub const fn len(&self) -> usize {
        let gids = if has_gids(&self.choice) {
            COUNT_LEN + self.gids.count() as usize * GID_LEN
        } else {
            0
        };
        HEADER_LEN + self.choice.body_len() + gids + TRAILER_LEN
    }

    /// Reads a message at the front of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ClcError> {
        let (header, body) = Header::open(bytes, Kind::Confirm)?;
        let mut reader = Reader::new(body);
        let choice = Choice::take(header, &mut reader)?;
        let mut gids = List::new();
        if has_gids(&choice) {
            let count = reader.u8()?;
            reader.skip(COUNT_LEN - 1)?;
            for _ in 0..count {
                gids.push(reader.array()?).ok_or(ClcError::Count(count))?;
            }
        }
        if reader.left() != 0 {
            return Err(ClcError::Length(header.length));
        }
        Ok(Self { choice, gids })
    }

    /// Writes the message to the front of `buffer`; returns its length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, ClcError> {
        let choice = &self.choice;
        if !has_gids(choice) && !self.gids.is_empty() {
            return Err(ClcError::Count(self.gids.count()));
        }
        let (mode, version) = (choice.mode(), choice.version_number());
        Header::frame(buffer, mode, Kind::Confirm, self.len(), version, choice.flags(), |writer| {
            self.put(writer)
        })
    }

    fn put(&self, writer: &mut Writer<'_>) -> Result<(), ClcError> {
        self.choice.put(writer)?;
        if has_gids(&self.choice) {
            writer.u8(self.gids.count())?;
            writer.zeros::<{ COUNT_LEN - 1 }>()?;
            for gid in self.gids.as_slice() {
                writer.bytes(gid)?;
            }
        }
        Ok(())
    }
}

const fn has_gids(choice: &Choice) -> bool {
    matches!(
        (choice.transport, choice.version),
        (Transport::R(_), Version::V2 { first_contact: Some(_), .. })
    )
}
