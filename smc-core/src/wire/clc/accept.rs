//! ACCEPT: the server chooses the transport.
use super::choice::Choice;
use super::{ClcError, Header, Kind, HEADER_LEN, TRAILER_LEN};
use crate::wire::field::Reader;

/// An ACCEPT message as the kernel's SMC exchanges it; between processes of this product it is a
/// [`super::loopback::LoopbackAccept`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    /// What the server chose.
    pub choice: Choice,
}

impl Accept {
    /// Bytes of the message.
    #[expect(clippy::len_without_is_empty, reason = "a message is never empty")]
    pub const fn len(&self) -> usize {
        HEADER_LEN + self.choice.body_len() + TRAILER_LEN
    }

    /// Reads a message at the front of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ClcError> {
        let (header, body) = Header::open(bytes, Kind::Accept)?;
        let mut reader = Reader::new(body);
        let choice = Choice::take(header, &mut reader)?;
        if reader.left() != 0 {
            return Err(ClcError::Length(header.length));
        }
        Ok(Self { choice })
    }

    /// Writes the message to the front of `buffer`; returns its length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, ClcError> {
        let Self { choice } = self;
        let (mode, version) = (choice.mode(), choice.version_number());
        Header::frame(buffer, mode, Kind::Accept, self.len(), version, choice.flags(), |writer| {
            choice.put(writer)
        })
    }
}
