//! The messages of the control channel between two processes of a link group, one in a datagram.
//!
//! They have the frame of CLC messages. [`Control::FirstContact`] is the CONFIRM of a connection
//! whose processes did not know each other, [`Control::Refuse`] the DECLINE of RFC 7609; the
//! other two have types that CLC does not use.
use super::clc::{ClcError, Decline, Mode, HEADER_LEN, OS_LINUX, TRAILER_LEN};
use super::field::{Reader, Writer};
use crate::reason::Reason;

/// Bytes of the longest message.
pub const CONTROL_MAX: usize = FIRST_CONTACT_LEN;

const FIRST_CONTACT: u8 = 3;
const REFUSE: u8 = 4;
const BELL: u8 = 0x81;
const KICK: u8 = 0x82;
const FIRST_CONTACT_LEN: usize = HEADER_LEN + 48 + TRAILER_LEN;
const SLOT_LEN: usize = HEADER_LEN + 4 + TRAILER_LEN;
/// Version 2, mode D.
const VERSION_AND_MODE: u8 = 0x21;

/// A message of the control channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The client opens a link group; the region's memfd comes with the message.
    FirstContact {
        /// Version of the layout of the region.
        layout_version: u32,
        /// Name of the client process's control socket.
        client_gid: [u8; 16],
        /// Token of the ACCEPT that is confirmed.
        token: [u8; 16],
        /// Size code of the client-to-server rings.
        c2s_code: u8,
        /// Size code of the server-to-client rings.
        s2c_code: u8,
        /// The client's process, as it sees itself; the kernel's word is SO_PEERCRED.
        pid: u32,
    },
    /// The eventfd of a wait slot of the sender, which comes with the message.
    Bell {
        /// Index of the wait slot.
        slot: u8,
    },
    /// Rings for a wait slot of the receiver whose eventfd the sender does not have.
    Kick {
        /// Index of the wait slot.
        slot: u8,
    },
    /// The link group is not wanted, or no longer.
    Refuse {
        /// Why.
        reason: Reason,
    },
}

impl Control {
    /// Bytes of the message.
    #[expect(clippy::len_without_is_empty, reason = "a message is never empty")]
    pub const fn len(&self) -> usize {
        match self {
            Self::FirstContact { .. } => FIRST_CONTACT_LEN,
            Self::Bell { .. } | Self::Kick { .. } => SLOT_LEN,
            Self::Refuse { reason } => refusal(*reason).len(),
        }
    }

    /// Writes the message to the front of `buffer`; returns its length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, ClcError> {
        let length = self.len();
        let buffer = buffer.get_mut(..length).ok_or(ClcError::NoRoom)?;
        let kind = match self {
            Self::FirstContact { .. } => FIRST_CONTACT,
            Self::Bell { .. } => BELL,
            Self::Kick { .. } => KICK,
            Self::Refuse { reason } => return refusal(*reason).emit(buffer),
        };
        let mut writer = Writer::new(buffer);
        writer.bytes(&Mode::D.eyecatcher())?;
        writer.u8(kind)?;
        writer.be16(u16::try_from(length).map_err(|_| ClcError::NoRoom)?)?;
        writer.u8(VERSION_AND_MODE)?;
        match self {
            Self::FirstContact { layout_version, client_gid, token, c2s_code, s2c_code, pid } => {
                writer.bytes(client_gid)?;
                writer.bytes(token)?;
                writer.u8(*c2s_code)?;
                writer.u8(*s2c_code)?;
                writer.zeros::<2>()?;
                writer.be32(*layout_version)?;
                writer.be32(*pid)?;
                writer.zeros::<4>()?;
            }
            Self::Bell { slot } | Self::Kick { slot } => {
                writer.u8(*slot)?;
                writer.zeros::<3>()?;
            }
            Self::Refuse { .. } => {}
        }
        writer.bytes(&Mode::D.eyecatcher())?;
        Ok(writer.written())
    }

    /// Reads a datagram, which must hold one message and nothing else.
    pub fn parse(datagram: &[u8]) -> Result<Self, ClcError> {
        let mut reader = Reader::new(datagram);
        if reader.array()? != Mode::D.eyecatcher() {
            return Err(ClcError::Eyecatcher);
        }
        let kind = reader.u8()?;
        let length = reader.be16()?;
        let version = reader.u8()?;
        if kind == REFUSE {
            let reason = Decline::parse(datagram)?.reason;
            return whole(Self::Refuse { reason }, length, datagram);
        }
        if version != VERSION_AND_MODE {
            return Err(ClcError::Version(version >> 4));
        }
        let message = match kind {
            FIRST_CONTACT => Self::parse_first_contact(&mut reader)?,
            BELL => Self::Bell { slot: slot(&mut reader)? },
            KICK => Self::Kick { slot: slot(&mut reader)? },
            other => return Err(ClcError::Kind(other)),
        };
        if reader.array()? != Mode::D.eyecatcher() {
            return Err(ClcError::Trailer);
        }
        whole(message, length, datagram)
    }

    fn parse_first_contact(reader: &mut Reader<'_>) -> Result<Self, ClcError> {
        let client_gid = reader.array()?;
        let token = reader.array()?;
        let c2s_code = reader.u8()?;
        let s2c_code = reader.u8()?;
        zero(reader.array::<2>()?)?;
        let layout_version = reader.be32()?;
        let pid = reader.be32()?;
        zero(reader.array::<4>()?)?;
        Ok(Self::FirstContact { layout_version, client_gid, token, c2s_code, s2c_code, pid })
    }
}

const fn refusal(reason: Reason) -> Decline {
    Decline { mode: Mode::D, out_of_sync: false, peer_id: [0; 8], reason, os: OS_LINUX, more: None }
}

/// The message, if it is as long as it says and the datagram is no longer.
fn whole(message: Control, length: u16, datagram: &[u8]) -> Result<Control, ClcError> {
    if usize::from(length) == message.len() && datagram.len() == message.len() {
        Ok(message)
    } else {
        Err(ClcError::Length(length))
    }
}

fn slot(reader: &mut Reader<'_>) -> Result<u8, ClcError> {
    let slot = reader.u8()?;
    zero(reader.array::<3>()?)?;
    Ok(slot)
}

fn zero<const N: usize>(reserved: [u8; N]) -> Result<(), ClcError> {
    if reserved == [0; N] {
        Ok(())
    } else {
        Err(ClcError::Reserved)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Control, CONTROL_MAX};
    use crate::reason::Reason;
    use crate::wire::clc::ClcError;

    const ALL: [Control; 4] = [
        Control::FirstContact {
            layout_version: 1,
            client_gid: *b"0123456789abcdef",
            token: *b"fedcba9876543210",
            c2s_code: 3,
            s2c_code: 2,
            pid: 4242,
        },
        Control::Bell { slot: 63 },
        Control::Kick { slot: 0 },
        Control::Refuse { reason: Reason::BAD_TOKEN },
    ];

    #[test]
    fn messages_survive_the_way() {
        for message in ALL {
            let mut buffer = [0xaa; CONTROL_MAX];
            let length = message.emit(&mut buffer).unwrap();
            assert_eq!(length, message.len());
            assert_eq!(Control::parse(&buffer[..length]), Ok(message));
        }
    }

    #[test]
    fn a_short_buffer_is_refused_untouched() {
        for message in ALL {
            let mut buffer = [0xaa; CONTROL_MAX];
            let short = message.len() - 1;
            assert_eq!(message.emit(&mut buffer[..short]), Err(ClcError::NoRoom));
            assert_eq!(buffer, [0xaa; CONTROL_MAX]);
        }
    }

    #[test]
    fn a_datagram_is_one_message_exactly() {
        for message in ALL {
            let mut buffer = [0; CONTROL_MAX + 1];
            let length = message.emit(&mut buffer).unwrap();
            for end in 0..length {
                assert_eq!(Control::parse(&buffer[..end]), Err(ClcError::Truncated));
            }
            let wanted = Err(ClcError::Length(length as u16));
            assert_eq!(Control::parse(&buffer[..=length]), wanted);
        }
    }

    #[test]
    fn the_refusal_is_a_decline_of_the_rfc() {
        let mut buffer = [0; CONTROL_MAX];
        let length = Control::Refuse { reason: Reason(0x0301_0000) }.emit(&mut buffer).unwrap();
        let wanted = [
            0xe2, 0xd4, 0xc3, 0xc4, 4, 0, 28, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0, 0x20, 0, 0,
            0, 0xe2, 0xd4, 0xc3, 0xc4,
        ];
        assert_eq!(buffer[..length], wanted);
    }

    #[test]
    fn foreign_bytes_are_refused() {
        let mut buffer = [0; CONTROL_MAX];
        let length = ALL[1].emit(&mut buffer).unwrap();
        let message = &mut buffer[..length];
        let cases = [
            (3, 0xd9, ClcError::Eyecatcher),
            (4, 0x83, ClcError::Kind(0x83)),
            (6, 15, ClcError::Length(15)),
            (7, 0x31, ClcError::Version(3)),
            (10, 1, ClcError::Reserved),
            (15, 0xd9, ClcError::Trailer),
        ];
        for (offset, byte, wanted) in cases {
            let old = std::mem::replace(&mut message[offset], byte);
            assert_eq!(Control::parse(message), Err(wanted), "offset {offset}");
            message[offset] = old;
        }
    }
}
