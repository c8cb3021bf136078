//! A short form of `scripts/soak.sh`: long runs of random use, checked at every byte.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::soak::crew::{demote, Order};

/// Connections leave the ring in mid-stream by every cause, from either end or both, under load, with
/// bytes unread: none is lost, doubled or reordered, and nobody hangs. The statistics count them.
#[test]
fn streams_survive_the_way_back_to_tcp() {
    let order =
        Order { count: 400, seed: 1, pairs: 3, bare: false, kills: false, until: None, only: None };
    let faults = demote(order);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
