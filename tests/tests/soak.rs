//! A short form of `scripts/soak.sh`: long runs of random use, checked at every byte.
#![allow(clippy::unwrap_used, clippy::panic)]

use smc_tests::soak::crew::{run, Order, Until};
use smc_tests::soak::state::Kind;

/// Connections leave the ring in mid-stream by every cause, from either end or both, under load, with
/// bytes unread: none is lost, doubled or reordered, and nobody hangs. The statistics count them.
#[test]
fn streams_survive_the_way_back_to_tcp() {
    let until = Until::Left(400);
    let order = Order {
        until,
        seed: 1,
        wild: false,
        wide: false,
        pairs: 3,
        bare: false,
        kills: false,
        same: false,
    };
    let (_, faults) = run(order);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// All kinds of use at once: every call, other numbers, threads, helpers of every sort, signals, closes
/// under calls, deaths. Each byte is right, nobody hangs, and each call has gone through the ring.
#[test]
fn streams_survive_random_use() {
    let until = Until::Pairs(40);
    let order = Order {
        until,
        seed: 1,
        wild: true,
        wide: false,
        pairs: 3,
        bare: false,
        kills: true,
        same: false,
    };
    let (total, faults) = run(order);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // The long form alone has 32 threads in each process, and is long enough for a rare EINTR.
    let rare = [Kind::EventLoop, Kind::Interrupted];
    let missing = |kind: &&Kind| total.tally.done(**kind) == 0 && !rare.contains(kind);
    assert_eq!(Kind::ALL.iter().find(missing), None, "{total}");
    let over_tcp = |kind: &&Kind| total.tally.carried(**kind) == 0;
    assert_eq!(Kind::CALLS.iter().find(over_tcp), None, "{total}");
}
