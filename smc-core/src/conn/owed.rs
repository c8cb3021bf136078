//! What this process owes to peers that have left a ring with bytes unread: those go over TCP.
//!
//! A call on the connection pays at once, and so does a wait for it. Here any thread pays that is
//! about to sleep, or whose sleep the one who left has ended: the program may wait for that peer by
//! another connection, and bare the bytes would be where they belong.
use super::{holders, Ctx};
use crate::process::Process;
use crate::ring::doorbell;
use crate::shm::layout::WaitSlot;
use crate::sync::Ordering;
use crate::transport::loopback::Group;

/// Before a sleep, once the slot is armed: pays if the peer has called for it, or nobody could be called.
/// True: something is still owed, so that the sleep is to be short.
#[inline]
pub(crate) fn pay_if_called(process: &Process, group: &Group, slot: Option<&WaitSlot>) -> bool {
    if !slot.is_none_or(doorbell::was_called) {
        return false;
    }
    let owing = group.owes() && pay(process, group);
    if let (Some(slot), true) = (slot, owing) {
        slot.called.store(1, Ordering::Relaxed);
    }
    owing
}

#[cold]
fn pay(process: &Process, group: &Group) -> bool {
    let mut owing = false;
    group.each_owed(|slot| {
        let Some(index) = group.conn_at(slot) else {
            // Another process of this side has it, or nobody any more.
            return;
        };
        let Some(conn) = process.device.arena.conn(index) else { return };
        let Some(fd) = holders::descriptor(index, conn) else { return };
        // Other threads may close it meanwhile, and pay before they do.
        let Some(ctx) = (Ctx { process, index, conn, fd }).steady() else { return };
        if ctx.see_leave() {
            group.has_paid(slot);
        } else {
            owing = true;
        }
    });
    owing
}
