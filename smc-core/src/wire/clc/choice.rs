//! What ACCEPT and CONFIRM have in common: the transport that is to be used, and the sender's
//! part of it.
//!
//! ```text
//! SMC-R  local[30] qpn(3) rkey(4) index(1) alert_token(4) size:4 mtu:4 rsv(1) address(8) rsv(1) psn(3)
//!        version 2: eid[32] rsv[8]
//! SMC-D  gid(8) token(8) index(1) size:4 rsv:4 rsv(2) link_id(4)
//!        version 1: rsv[12]      version 2: chid(2) eid[32] gid_ext(8)
//! ```
use super::first_contact::FirstContact;
use super::{ClcError, Header, Local, Mode};
use crate::wire::field::{Reader, Writer};

/// Bit of the header's flags.
pub(super) const FIRST_CONTACT: u8 = 0x8;
const MODE_MASK: u8 = 0x3;
const R_LEN: usize = 56;
const R_V2_LEN: usize = 40;
const D_LEN: usize = 24;
const D_V1_LEN: usize = 12;
const D_V2_LEN: usize = 42;

/// The sender's end of an SMC-R connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rdma {
    /// The sender.
    pub local: Local,
    /// Queue pair, 24 bits.
    pub qpn: u32,
    /// Key of the buffer.
    pub rkey: u32,
    /// Element of the buffer, from 1.
    pub index: u8,
    /// Names the connection in CDC messages.
    pub alert_token: u32,
    /// 16 KiB << code is the buffer's size; 4 bits.
    pub size_code: u8,
    /// Path MTU of the queue pair; 4 bits.
    pub mtu: u8,
    /// Where the buffer lies.
    pub address: u64,
    /// First packet sequence number, 24 bits.
    pub psn: u32,
}

/// The sender's end of an SMC-D connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ism {
    /// The device.
    pub gid: u64,
    /// The buffer.
    pub token: u64,
    /// Element of the buffer.
    pub index: u8,
    /// 16 KiB << code is the buffer's size; 4 bits.
    pub size_code: u8,
    /// The link.
    pub link_id: u32,
    /// The fabric; version 2 only, else 0.
    pub chid: u16,
    /// Second half of an emulated device's GID; version 2 only, else 0.
    pub gid_ext: u64,
}

/// How the data shall move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// By RDMA.
    R(Rdma),
    /// Through shared memory.
    D(Ism),
}

/// By which version of SMC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Version 1.
    V1 {
        /// The two ends have no link group yet.
        first_contact: bool,
    },
    /// Version 2.
    V2 {
        /// The name that both ends have, 32 characters.
        eid: [u8; 32],
        /// What is agreed on at the first contact.
        first_contact: Option<FirstContact>,
    },
}

/// The body of ACCEPT and CONFIRM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The transport.
    pub transport: Transport,
    /// The version.
    pub version: Version,
}

impl Choice {
    pub(super) const fn mode(&self) -> Mode {
        match self.transport {
            Transport::R(_) => Mode::R,
            Transport::D(_) => Mode::D,
        }
    }

    pub(super) const fn version_number(&self) -> u8 {
        match self.version {
            Version::V1 { .. } => 1,
            Version::V2 { .. } => 2,
        }
    }

    pub(super) const fn flags(&self) -> u8 {
        let first = match self.version {
            Version::V1 { first_contact } => first_contact,
            Version::V2 { first_contact, .. } => first_contact.is_some(),
        };
        self.mode().bits() | if first { FIRST_CONTACT } else { 0 }
    }

    /// Bytes of the body.
    pub(super) const fn body_len(&self) -> usize {
        match (self.transport, self.version) {
            (Transport::R(_), Version::V1 { .. }) => R_LEN,
            (Transport::D(_), Version::V1 { .. }) => D_LEN + D_V1_LEN,
            (Transport::R(_), Version::V2 { first_contact, .. }) => {
                R_LEN + R_V2_LEN + FirstContact::optional_len(first_contact)
            }
            (Transport::D(_), Version::V2 { first_contact, .. }) => {
                D_LEN + D_V2_LEN + FirstContact::optional_len(first_contact)
            }
        }
    }

    /// Takes the body; what follows it is left to the caller.
    pub(super) fn take(header: Header, reader: &mut Reader<'_>) -> Result<Self, ClcError> {
        if header.flags & MODE_MASK != header.mode.bits() {
            return Err(ClcError::Mode);
        }
        if !matches!(header.version, 1 | 2) {
            return Err(ClcError::Version(header.version));
        }
        let v2 = header.version == 2;
        let first_contact = header.flags & FIRST_CONTACT != 0;
        let mut eid = [0; 32];
        let transport = match header.mode {
            Mode::R => {
                let rdma = Rdma::take(reader)?;
                if v2 {
                    eid = reader.array()?;
                    reader.skip(8)?;
                }
                Transport::R(rdma)
            }
            Mode::D => {
                let mut ism = Ism::take(reader)?;
                if v2 {
                    ism.chid = reader.be16()?;
                    eid = reader.array()?;
                    ism.gid_ext = reader.be64()?;
                } else {
                    reader.skip(D_V1_LEN)?;
                }
                Transport::D(ism)
            }
        };
        let version = if v2 {
            let first_contact =
                if first_contact { Some(FirstContact::take(reader)?) } else { None };
            Version::V2 { eid, first_contact }
        } else {
            Version::V1 { first_contact }
        };
        Ok(Self { transport, version })
    }

    pub(super) fn put(&self, writer: &mut Writer<'_>) -> Result<(), ClcError> {
        match (&self.transport, &self.version) {
            (Transport::R(rdma), Version::V1 { .. }) => rdma.put(writer),
            (Transport::D(ism), Version::V1 { .. }) => {
                if ism.chid != 0 || ism.gid_ext != 0 {
                    return Err(ClcError::Value);
                }
                ism.put(writer)?;
                Ok(writer.zeros::<D_V1_LEN>()?)
            }
            (Transport::R(rdma), Version::V2 { eid, first_contact }) => {
                rdma.put(writer)?;
                writer.bytes(eid)?;
                writer.zeros::<8>()?;
                first_contact.map_or(Ok(()), |first| first.put(writer))
            }
            (Transport::D(ism), Version::V2 { eid, first_contact }) => {
                ism.put(writer)?;
                writer.be16(ism.chid)?;
                writer.bytes(eid)?;
                writer.be64(ism.gid_ext)?;
                first_contact.map_or(Ok(()), |first| first.put(writer))
            }
        }
    }
}

impl Rdma {
    fn take(reader: &mut Reader<'_>) -> Result<Self, ClcError> {
        let local = Local::take(reader)?;
        let qpn = reader.be24()?;
        let rkey = reader.be32()?;
        let index = reader.u8()?;
        let alert_token = reader.be32()?;
        let size_and_mtu = reader.u8()?;
        reader.skip(1)?;
        let address = reader.be64()?;
        reader.skip(1)?;
        let psn = reader.be24()?;
        let (size_code, mtu) = (size_and_mtu >> 4, size_and_mtu & 0xf);
        Ok(Self { local, qpn, rkey, index, alert_token, size_code, mtu, address, psn })
    }

    fn put(&self, writer: &mut Writer<'_>) -> Result<(), ClcError> {
        if self.qpn >> 24 != 0 || self.psn >> 24 != 0 || self.size_code > 0xf || self.mtu > 0xf {
            return Err(ClcError::Value);
        }
        self.local.put(writer)?;
        writer.be24(self.qpn)?;
        writer.be32(self.rkey)?;
        writer.u8(self.index)?;
        writer.be32(self.alert_token)?;
        writer.u8(self.size_code << 4 | self.mtu)?;
        writer.zeros::<1>()?;
        writer.be64(self.address)?;
        writer.zeros::<1>()?;
        Ok(writer.be24(self.psn)?)
    }
}

impl Ism {
    fn take(reader: &mut Reader<'_>) -> Result<Self, ClcError> {
        let gid = reader.be64()?;
        let token = reader.be64()?;
        let index = reader.u8()?;
        let size_code = reader.u8()? >> 4;
        reader.skip(2)?;
        let link_id = reader.be32()?;
        Ok(Self { gid, token, index, size_code, link_id, chid: 0, gid_ext: 0 })
    }

    fn put(&self, writer: &mut Writer<'_>) -> Result<(), ClcError> {
        if self.size_code > 0xf {
            return Err(ClcError::Value);
        }
        writer.be64(self.gid)?;
        writer.be64(self.token)?;
        writer.u8(self.index)?;
        writer.u8(self.size_code << 4)?;
        writer.zeros::<2>()?;
        Ok(writer.be32(self.link_id)?)
    }
}
