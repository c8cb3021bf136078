//! The extension of a version 2 ACCEPT or CONFIRM that opens a link group.
//!
//! ```text
//! direct:1 rsv:7 os:4 release:4 rsv[2] host[32]
//! from release 1 on: max_conns(1) max_links(1) features(2) vendor(4) rsv[8]
//! ```
use super::ClcError;
use crate::wire::field::{Reader, Writer};

const BASE_LEN: usize = 36;
const LIMITS_LEN: usize = 16;
const DIRECT: u8 = 0x80;

/// What the sender tells of itself and asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstContact {
    /// The peers reach each other without a gateway (SMC-R).
    pub direct: bool,
    /// The operating system, 4 bits.
    pub os: u8,
    /// Name of the host.
    pub host: [u8; 32],
    /// What a release is good for; release 0 has none.
    pub limits: Option<Limits>,
}

/// What is negotiated from release 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The release, 1 to 15.
    pub release: u8,
    /// Connections of a link group (SMC-R).
    pub max_conns: u8,
    /// Links of a link group (SMC-R).
    pub max_links: u8,
    /// Supplemental features.
    pub features: u16,
    /// Options of a vendor.
    pub vendor: u32,
}

impl FirstContact {
    pub(super) const fn optional_len(first: Option<Self>) -> usize {
        match first {
            None => 0,
            Some(Self { limits: None, .. }) => BASE_LEN,
            Some(Self { limits: Some(_), .. }) => BASE_LEN + LIMITS_LEN,
        }
    }

    pub(super) fn take(reader: &mut Reader<'_>) -> Result<Self, ClcError> {
        let direct = reader.u8()? & DIRECT != 0;
        let os_and_release = reader.u8()?;
        reader.skip(2)?;
        let host = reader.array()?;
        let (os, release) = (os_and_release >> 4, os_and_release & 0xf);
        let limits = if release == 0 {
            // Some kernels send the second part, empty, for SMC-R of release 0 too. Where it is
            // absent a CONFIRM goes on with the number of its GIDs, which is not 0 when 16 bytes
            // or more follow.
            if reader.left() >= LIMITS_LEN && reader.peek() == Some(0) {
                reader.skip(LIMITS_LEN)?;
            }
            None
        } else {
            let limits = Limits {
                release,
                max_conns: reader.u8()?,
                max_links: reader.u8()?,
                features: reader.be16()?,
                vendor: reader.be32()?,
            };
            reader.skip(8)?;
            Some(limits)
        };
        Ok(Self { direct, os, host, limits })
    }

    pub(super) fn put(&self, writer: &mut Writer<'_>) -> Result<(), ClcError> {
        let release = self.limits.map_or(0, |limits| limits.release);
        if self.os > 0xf || release > 0xf || (release == 0 && self.limits.is_some()) {
            return Err(ClcError::Value);
        }
        writer.u8(if self.direct { DIRECT } else { 0 })?;
        writer.u8(self.os << 4 | release)?;
        writer.zeros::<2>()?;
        writer.bytes(&self.host)?;
        if let Some(limits) = self.limits {
            writer.u8(limits.max_conns)?;
            writer.u8(limits.max_links)?;
            writer.be16(limits.features)?;
            writer.be32(limits.vendor)?;
            writer.zeros::<8>()?;
        }
        Ok(())
    }
}
