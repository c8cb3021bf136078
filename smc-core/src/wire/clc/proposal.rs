//! PROPOSAL: the client says what it can do.
//!
//! ```text
//! header | local[30] iparea_offset(2)
//!        | gid(8) chid(2) v2_offset(2) vendor_oui[3] vendor_options[5] rsv[20]      SMC-D, or v2
//!        | subnet(4) prefix_len(1) rsv[2] count(1) {prefix[16] prefix_len(1)}…      v1
//!        | eids(1) ism_gids(1) rsv(1) release:4 rsv:3 seid:1 rsv[2] ismv2_offset(2)  v2
//!          roce_gid[16] max_conns(1) max_links(1) features(2) rsv[12] eid[32]…
//!        | system_eid[32] rsv[16] {gid(8) chid(2)}…                                 SMC-D v2
//!        | trailer
//! ```
//!
//! An offset counts from the end of its own field. The areas follow each other without gaps; a
//! message with any is refused, as the kernel does.
use super::offer_v2::OfferV2;
use super::{ClcError, Header, Kind, List, Local, Mode, HEADER_LEN, TRAILER_LEN};
use crate::wire::field::{Reader, Writer};

/// IPv6 prefixes that a PROPOSAL can hold.
pub const MAX_PREFIXES: usize = 8;

const BASE_LEN: usize = 32;
const ISM_LEN: u16 = 40;
/// From the end of the version 2 offset to the end of its area.
const ISM_REST: u16 = 28;
const PREFIXES_LEN: u16 = 8;
const PREFIX_LEN: u16 = 17;

/// The kinds of SMC that are offered, as two bits of the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// SMC-R.
    pub rdma: bool,
    /// SMC-D.
    pub ism: bool,
}

/// The ISM device of the client, for SMC-D version 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IsmOffer {
    /// The device.
    pub gid: u64,
    /// Its fabric.
    pub chid: u16,
    /// A vendor.
    pub vendor_oui: [u8; 3],
    /// Its options.
    pub vendor_options: [u8; 5],
}

/// The subnets of the client, for SMC version 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subnets {
    /// The IPv4 subnet, or 0.
    pub ipv4: u32,
    /// Its significant bits.
    pub ipv4_bits: u8,
    /// IPv6 prefixes and their significant bits.
    pub ipv6: List<([u8; 16], u8), MAX_PREFIXES>,
}

/// A PROPOSAL message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// What is offered by version 1.
    pub v1: Offered,
    /// The client.
    pub local: Local,
    /// Must be there for SMC-D version 1 and whenever version 2 is offered.
    pub ism: Option<IsmOffer>,
    /// There exactly if `v1` offers anything.
    pub subnets: Option<Subnets>,
    /// What is offered by version 2.
    pub v2: Option<OfferV2>,
}

impl Offered {
    pub(super) const fn bits(self) -> u8 {
        match (self.rdma, self.ism) {
            (true, false) => 0,
            (false, true) => 1,
            (false, false) => 2,
            (true, true) => 3,
        }
    }

    pub(super) const fn of(bits: u8) -> Self {
        Self { rdma: matches!(bits & 3, 0 | 3), ism: matches!(bits & 3, 1 | 3) }
    }

    pub(super) const fn any(self) -> bool {
        self.rdma || self.ism
    }
}

impl Proposal {
    /// Bytes of the message.
    #[expect(clippy::len_without_is_empty, reason = "a message is never empty")]
    pub fn len(&self) -> usize {
        let ism = self.ism.map_or(0, |_| ISM_LEN);
        let subnets = self.subnets.map_or(0, |subnets| subnets.len());
        let v2 = self.v2.map_or(0, |offer| offer.len());
        HEADER_LEN + BASE_LEN + usize::from(ism + subnets) + v2 + TRAILER_LEN
    }

    /// Reads a message at the front of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ClcError> {
        let (header, body) = Header::open(bytes, Kind::Proposal)?;
        let v1 = Offered::of(header.flags);
        let v2 = match header.version {
            1 => Offered::default(),
            2 => Offered::of(header.flags >> 2),
            other => return Err(ClcError::Version(other)),
        };
        if !v1.any() && !v2.any() {
            return Err(ClcError::Mode);
        }
        let mut reader = Reader::new(body);
        let local = Local::take(&mut reader)?;
        let offset = reader.be16()?;
        let has_ism = header.version == 2 || offset != 0;
        let wanted = if has_ism { ISM_LEN } else { 0 };
        if v1.any() && offset != wanted {
            return Err(ClcError::Offset(offset));
        }
        if v1.ism && !has_ism {
            return Err(ClcError::Mode);
        }
        let (ism, v2_offset) = if has_ism {
            let (offer, offset) = IsmOffer::take(&mut reader)?;
            (Some(offer), offset)
        } else {
            (None, 0)
        };
        let subnets = if v1.any() { Some(Subnets::take(&mut reader)?) } else { None };
        let v2 = if v2.any() {
            if v2_offset != ISM_REST + subnets.map_or(0, |subnets| subnets.len()) {
                return Err(ClcError::Offset(v2_offset));
            }
            Some(OfferV2::take(v2, &mut reader)?)
        } else {
            None
        };
        if reader.left() != 0 {
            return Err(ClcError::Length(header.length));
        }
        Ok(Self { v1, local, ism, subnets, v2 })
    }

    /// Writes the message to the front of `buffer`; returns its length.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, ClcError> {
        let needs_ism = self.v1.ism || self.v2.is_some();
        if (needs_ism && self.ism.is_none())
            || self.subnets.is_some() != self.v1.any()
            || !(self.v1.any() || self.v2.is_some())
        {
            return Err(ClcError::Mode);
        }
        let (version, v2_bits) = match self.v2 {
            None => (1, 0),
            Some(offer) => (2, offer.offered().bits()),
        };
        let flags = v2_bits << 2 | self.v1.bits();
        // Like the kernel: SMC-R's eyecatcher whatever is offered.
        Header::frame(buffer, Mode::R, Kind::Proposal, self.len(), version, flags, |writer| {
            self.put(writer)
        })
    }

    fn put(&self, writer: &mut Writer<'_>) -> Result<(), ClcError> {
        self.local.put(writer)?;
        let behind_ism = self.ism.is_some() && self.subnets.is_some();
        writer.be16(if behind_ism { ISM_LEN } else { 0 })?;
        if let Some(ism) = self.ism {
            let subnets = self.subnets.map_or(0, |subnets| subnets.len());
            ism.put(if self.v2.is_some() { ISM_REST + subnets } else { 0 }, writer)?;
        }
        if let Some(subnets) = self.subnets {
            subnets.put(writer)?;
        }
        self.v2.map_or(Ok(()), |offer| offer.put(writer))
    }
}

impl IsmOffer {
    fn take(reader: &mut Reader<'_>) -> Result<(Self, u16), ClcError> {
        let gid = reader.be64()?;
        let chid = reader.be16()?;
        let v2_offset = reader.be16()?;
        let vendor_oui = reader.array()?;
        let vendor_options = reader.array()?;
        reader.skip(20)?;
        Ok((Self { gid, chid, vendor_oui, vendor_options }, v2_offset))
    }

    fn put(&self, v2_offset: u16, writer: &mut Writer<'_>) -> Result<(), ClcError> {
        writer.be64(self.gid)?;
        writer.be16(self.chid)?;
        writer.be16(v2_offset)?;
        writer.bytes(&self.vendor_oui)?;
        writer.bytes(&self.vendor_options)?;
        Ok(writer.zeros::<20>()?)
    }
}

impl Subnets {
    fn len(&self) -> u16 {
        PREFIXES_LEN + u16::from(self.ipv6.count()) * PREFIX_LEN
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, ClcError> {
        let ipv4 = reader.be32()?;
        let ipv4_bits = reader.u8()?;
        reader.skip(2)?;
        let count = reader.u8()?;
        let mut ipv6 = List::new();
        for _ in 0..count {
            let prefix = (reader.array()?, reader.u8()?);
            ipv6.push(prefix).ok_or(ClcError::Count(count))?;
        }
        Ok(Self { ipv4, ipv4_bits, ipv6 })
    }

    fn put(&self, writer: &mut Writer<'_>) -> Result<(), ClcError> {
        writer.be32(self.ipv4)?;
        writer.u8(self.ipv4_bits)?;
        writer.zeros::<2>()?;
        writer.u8(self.ipv6.count())?;
        for (prefix, bits) in self.ipv6.as_slice() {
            writer.bytes(prefix)?;
            writer.u8(*bits)?;
        }
        Ok(())
    }
}
