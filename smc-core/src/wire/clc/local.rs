//! Who speaks: the part that PROPOSAL, ACCEPT and CONFIRM share.
use super::ClcError;
use crate::wire::field::{NoRoom, Reader, Writer};

/// The sender of an SMC-R message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Local {
    /// Identifies the peer: an instance number and a MAC address; unique for each process that
    /// speaks SMC.
    pub peer_id: [u8; 8],
    /// GID of the RoCE port.
    pub gid: [u8; 16],
    /// MAC address of the RoCE port.
    pub mac: [u8; 6],
}

impl Local {
    pub(super) fn take(reader: &mut Reader<'_>) -> Result<Self, ClcError> {
        Ok(Self { peer_id: reader.array()?, gid: reader.array()?, mac: reader.array()? })
    }

    pub(super) fn put(&self, writer: &mut Writer<'_>) -> Result<(), NoRoom> {
        writer.bytes(&self.peer_id)?;
        writer.bytes(&self.gid)?;
        writer.bytes(&self.mac)
    }
}
