//! SMC-D on one host: rings in memory that two processes share.
mod aside;
mod control;
mod device;
mod geometry;
mod group;
mod groups;
mod halves;
mod heritage;
mod queue;
mod region;

pub(crate) use control::{group_for, Control};
pub(crate) use device::Device;
#[cfg(test)]
pub(crate) use group::Peer as Remote;
pub(crate) use geometry::Geometry;
pub(crate) use group::Group;
pub(crate) use groups::Groups;
pub(crate) use halves::{Loopback, LoopbackRx, LoopbackTx};
#[cfg(test)]
pub(crate) use region::Region;
pub(crate) use queue::{Queue, Queues};
