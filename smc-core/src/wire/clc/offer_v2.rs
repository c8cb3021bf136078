//! What a PROPOSAL offers by version 2.
use super::proposal::Offered;
use super::{ClcError, List};
use crate::wire::field::{Reader, Writer};

/// EIDs that a PROPOSAL can hold.
pub const MAX_EIDS: usize = 8;
/// Entries of its list of ISM devices; an emulated device takes two.
pub const MAX_ISM_GIDS: usize = 8;

const EID_LEN: usize = 32;
const FIXED_LEN: usize = 40;
/// From the end of the offset of the SMC-D area to the EIDs.
const FIXED_REST: u16 = 32;
const ISM_FIXED_LEN: usize = 48;
const ISM_GID_LEN: usize = 10;
const SEID: u8 = 0x01;

/// The version 2 extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferV2 {
    /// SMC-R is offered.
    pub rdma: bool,
    /// SMC-D is offered.
    pub ism: Option<IsmOfferV2>,
    /// The release, 4 bits.
    pub release: u8,
    /// The system EID may be used.
    pub seid: bool,
    /// GID of the RoCE port for SMC-R version 2.
    pub roce_gid: [u8; 16],
    /// Connections of a link group.
    pub max_conns: u8,
    /// Links of a link group.
    pub max_links: u8,
    /// Supplemental features.
    pub features: u16,
    /// User-defined EIDs; two peers with one in common may use SMC.
    pub eids: List<[u8; EID_LEN], MAX_EIDS>,
}

/// The SMC-D part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsmOfferV2 {
    /// The EID of the machine.
    pub system_eid: [u8; EID_LEN],
    /// GID and CHID of ISM devices.
    pub gids: List<(u64, u16), MAX_ISM_GIDS>,
}

impl OfferV2 {
    pub(super) const fn offered(&self) -> Offered {
        Offered { rdma: self.rdma, ism: self.ism.is_some() }
    }

    pub(super) fn len(&self) -> usize {
        let ism =
            self.ism.map_or(0, |ism| ISM_FIXED_LEN + usize::from(ism.gids.count()) * ISM_GID_LEN);
        FIXED_LEN + usize::from(self.eids.count()) * EID_LEN + ism
    }

    pub(super) fn take(offered: Offered, reader: &mut Reader<'_>) -> Result<Self, ClcError> {
        let eid_count = reader.u8()?;
        let gid_count = reader.u8()?;
        reader.skip(1)?;
        let release_and_seid = reader.u8()?;
        reader.skip(2)?;
        let offset = reader.be16()?;
        let roce_gid = reader.array()?;
        let max_conns = reader.u8()?;
        let max_links = reader.u8()?;
        let features = reader.be16()?;
        reader.skip(12)?;
        let mut eids = List::new();
        for _ in 0..eid_count {
            eids.push(reader.array()?).ok_or(ClcError::Count(eid_count))?;
        }
        let ism = if offered.ism {
            if offset != ism_offset(eid_count) {
                return Err(ClcError::Offset(offset));
            }
            Some(IsmOfferV2::take(gid_count, reader)?)
        } else if gid_count != 0 {
            return Err(ClcError::Count(gid_count));
        } else {
            None
        };
        Ok(Self {
            rdma: offered.rdma,
            ism,
            release: release_and_seid >> 4,
            seid: release_and_seid & SEID != 0,
            roce_gid,
            max_conns,
            max_links,
            features,
            eids,
        })
    }

    pub(super) fn put(&self, writer: &mut Writer<'_>) -> Result<(), ClcError> {
        if self.release > 0xf {
            return Err(ClcError::Value);
        }
        if !self.offered().any() {
            return Err(ClcError::Mode);
        }
        writer.u8(self.eids.count())?;
        writer.u8(self.ism.map_or(0, |ism| ism.gids.count()))?;
        writer.zeros::<1>()?;
        writer.u8(self.release << 4 | if self.seid { SEID } else { 0 })?;
        writer.zeros::<2>()?;
        writer.be16(self.ism.map_or(0, |_| ism_offset(self.eids.count())))?;
        writer.bytes(&self.roce_gid)?;
        writer.u8(self.max_conns)?;
        writer.u8(self.max_links)?;
        writer.be16(self.features)?;
        writer.zeros::<12>()?;
        for eid in self.eids.as_slice() {
            writer.bytes(eid)?;
        }
        self.ism.map_or(Ok(()), |ism| ism.put(writer))
    }
}

impl IsmOfferV2 {
    fn take(count: u8, reader: &mut Reader<'_>) -> Result<Self, ClcError> {
        let system_eid = reader.array()?;
        reader.skip(16)?;
        let mut gids = List::new();
        for _ in 0..count {
            let gid = (reader.be64()?, reader.be16()?);
            gids.push(gid).ok_or(ClcError::Count(count))?;
        }
        Ok(Self { system_eid, gids })
    }

    fn put(&self, writer: &mut Writer<'_>) -> Result<(), ClcError> {
        writer.bytes(&self.system_eid)?;
        writer.zeros::<16>()?;
        for (gid, chid) in self.gids.as_slice() {
            writer.be64(*gid)?;
            writer.be16(*chid)?;
        }
        Ok(())
    }
}

fn ism_offset(eid_count: u8) -> u16 {
    FIXED_REST + u16::from(eid_count) * 32
}
